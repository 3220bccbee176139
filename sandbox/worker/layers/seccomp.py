"""The system calls the worker may still make. Everything else fails with EPERM. Linux, needs libseccomp.so.2.

What is on the list was found by running the attack suite under a log of refused calls; V8 without a JIT needs no
executable memory, so asking for some is refused as well.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Callable

from sandbox.worker.layers.errors import LayerMissing

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


def call_filter() -> Callable[[], str]:
    """Builds the filter, while libraries can still be opened, and gives the function that loads it.

    Loaded, it holds for this thread and all that it starts. Both raise LayerMissing.
    """
    if sys.platform != "linux":
        raise LayerMissing("only Linux has it")
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise LayerMissing(f"pyseccomp or libseccomp.so.2 is not installed ({error})") from error
    arg = pyseccomp.Arg
    try:
        rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
        for name in ALLOWED:
            _allow(rules, pyseccomp, name)
        for name in ("mmap", "mprotect"):
            _allow(rules, pyseccomp, name, arg(2, pyseccomp.MASKED_EQ, mmap.PROT_EXEC, 0))
        _allow(rules, pyseccomp, "sendto", arg(4, pyseccomp.EQ, 0))
        _allow(rules, pyseccomp, "clone", arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
        _allow(rules, pyseccomp, "tgkill", arg(0, pyseccomp.EQ, os.getpid()))
        # Takes the number of any process of the same user, and a limit of 0 s of processor time would end the server:
        # for the worker itself only (0), and to read only. sched_getaffinity takes one too (V8 gives that of its own
        # thread), but changes nothing.
        _allow(rules, pyseccomp, "prlimit64", arg(0, pyseccomp.EQ, 0), arg(2, pyseccomp.EQ, 0))
        # Its flags are out of a filter's reach; on this answer libc uses clone.
        rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    except (OSError, RuntimeError, ValueError) as error:
        raise LayerMissing(f"the filter could not be made ({error})") from error

    def load() -> str:
        try:
            rules.load()
        except (OSError, RuntimeError, ValueError) as error:
            raise LayerMissing(f"the filter could not be loaded ({error})") from error
        return f"{len(ALLOWED) + 6} system calls allowed, the others refused"

    return load


def _allow(rules: object, pyseccomp: object, name: str, *arguments: object) -> None:
    try:
        rules.add_rule(pyseccomp.ALLOW, name, *arguments)  # type: ignore[attr-defined]
    except (OSError, RuntimeError, ValueError):
        # Not every architecture has every call; one that is missing is one less to allow.
        return
