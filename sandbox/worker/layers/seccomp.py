"""The system calls the worker may still make. Everything else fails with EPERM. Linux, needs libseccomp.so.2.

The list was found by running the attack suite with a log of refused calls. V8 without a JIT needs no executable memory,
so a request for it is refused too.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from sandbox.errors import LayerMissing

# At import, while files can still be opened: landlock comes before this layer.
pyseccomp: Any = None
_WHY = ""
if sys.platform == "linux":
    try:
        pyseccomp = import_module("pyseccomp")
    except (ImportError, OSError, RuntimeError) as error:
        _WHY = str(error)

ALLOWED = (
    # the two pipes
    *("read", "write", "close", "lseek"),
    # the event loop, which wakes itself through a pair of sockets; no other socket can be made
    *("epoll_wait", "epoll_pwait", "epoll_ctl", "poll", "ppoll", "recvfrom"),
    # memory
    *("munmap", "madvise", "mremap", "brk", "mincore"),
    # threads
    *("futex", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "membarrier", "exit", "exit_group"),
    *("gettid", "getpid", "getppid", "restart_syscall"),
    # time and chance
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "getrandom", "times"),
    # signals to itself: V8 ends itself by a trap
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"),
    # reading about itself
    *("fstat", "getrusage", "sysinfo", "uname", "getcwd"),
)
_CLONE_THREAD = 0x00010000


def allow_calls() -> str:
    """Refuses all other calls, to this thread and to those that it starts."""
    if sys.platform != "linux":
        raise LayerMissing("only Linux has it")
    if pyseccomp is None:
        raise LayerMissing(f"pyseccomp or libseccomp.so.2 is not installed ({_WHY})")
    try:
        _filter().load()
    except (OSError, RuntimeError, ValueError) as error:
        raise LayerMissing(f"the filter could not be made or loaded ({error})") from error
    return f"{len(ALLOWED) + 6} system calls allowed, the others refused"


def _filter() -> Any:
    arg = pyseccomp.Arg
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name in ALLOWED:
        _allow(rules, name)
    for name in ("mmap", "mprotect"):
        _allow(rules, name, arg(2, pyseccomp.MASKED_EQ, mmap.PROT_EXEC, 0))
    _allow(rules, "sendto", arg(4, pyseccomp.EQ, 0))
    _allow(rules, "clone", arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    _allow(rules, "tgkill", arg(0, pyseccomp.EQ, os.getpid()))
    # Takes the number of any process of the same user, and a limit of 0 s of processor time would end the server:
    # for the worker itself only (0), and to read only. sched_getaffinity takes one too (V8 gives that of its own
    # thread), but changes nothing.
    _allow(rules, "prlimit64", arg(0, pyseccomp.EQ, 0), arg(2, pyseccomp.EQ, 0))
    # A filter cannot read its flags; with this answer libc uses clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    return rules


def _allow(rules: Any, name: str, *arguments: object) -> None:
    # Not every architecture has every call; one that is missing is one less to allow.
    with suppress(OSError, RuntimeError, ValueError):
        rules.add_rule(pyseccomp.ALLOW, name, *arguments)
