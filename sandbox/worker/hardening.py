"""The powers that the worker process gives up before it runs a trigger, layer by layer, and the test of each.

A layer that this system does not offer is reported. With `require_all_layers` the worker then refuses to start.
Sources: prctl(2), landlock(7), getrlimit(2), seccomp(2), which needs libseccomp.so.2.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from languages import Sentence
from sandbox.errors import LayerMissing
from sandbox.protocol import packed

# At import, while files can still be opened: landlock comes before this layer.
pyseccomp: Any = None
_WHY = ""
if sys.platform == "linux":
    try:
        pyseccomp = import_module("pyseccomp")
    except (ImportError, OSError, RuntimeError) as error:
        _WHY = str(error)

OPEN_FILES = 32
"""The worker has some ten descriptors open; V8 and Python open no more after the start."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_ASK_VERSION = 1
# Rights by the ABI version that brought them: 13 for files, then refer, truncate, ioctl on devices.
_FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_NETWORK_RIGHTS = 0b11  # ABI 4: bind and connect TCP
_SCOPES = 0b11  # ABI 6: abstract unix sockets, signals to other processes
_CLONE_THREAD = 0x00010000
ALLOWED = (
    # the two pipes
    *("read", "write", "close", "lseek"),
    # the event loop, which wakes itself through a pair of sockets; no other socket can be made
    *("epoll_wait", "epoll_pwait", "epoll_ctl", "poll", "ppoll", "recvfrom"),
    # memory
    *("munmap", "madvise", "mremap", "brk", "mincore"),
    # threads
    "futex",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "membarrier",
    "exit",
    "exit_group",
    *("gettid", "getpid", "getppid", "restart_syscall"),
    # time and chance
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "getrandom",
    "times",
    # signals to itself: V8 ends itself by a trap
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"),
    # reading about itself
    *("fstat", "getrusage", "sysinfo", "uname", "getcwd"),
)
"""The calls the worker may still make; all others fail with EPERM. Found by a log of the attack suite. V8 without a JIT
needs no executable memory, so a request for it is refused too."""


class _RuleSet(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


def give_up(
    *, data_mb: int, parent: int, without: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Give up all powers that this system lets it give up, for ever. Return whether each layer `holds`, and a
    `detail`; a layer that the system lacks does not hold, and is not an error. `without`: layers to leave out, as on a
    system that lacks them (for tests). Raises OSError if the socket for the tests of the layers cannot be made."""
    # In this order: a filter must not forbid what a later layer needs.
    layers: dict[str, Callable[[], Sentence]] = {
        "parent": lambda: die_with_parent(parent),
        "files": limit_files,
        "memory": lambda: limit_memory(data_mb),
        "privileges": no_new_privileges,
        "landlock": forbid_files,
        "seccomp": allow_calls,
    }
    with socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM
    ) as open_socket:  # afterwards no socket can be made
        states = {name: _state(name, apply, without) for name, apply in layers.items()}
        # A refused write must be an error and not a signal, also when the limit for files refuses it.
        if hasattr(signal, "SIGXFSZ"):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for name, attempt in _attempts(open_socket).items():
            is_refused = _is_refused(attempt)
            detail = (
                Sentence("tried, and the sandbox refused it")
                if is_refused
                else Sentence("tried, and it works")
            )
            states[f"no {name}"] = {"holds": is_refused, "detail": packed(detail)}

    return states


def _state(name: str, apply: Callable[[], Sentence], without: Collection[str]) -> dict[str, Any]:
    """Apply a layer, and say whether it holds."""
    if name in without:
        return {"holds": False, "detail": packed(Sentence("switched off on request"))}
    try:
        return {"holds": True, "detail": packed(apply())}
    except LayerMissing as missing:
        return {"holds": False, "detail": packed(missing.sentence)}


def _write() -> None:
    """Write a file in the folder for temporary ones."""
    # Not from tempfile: importing it takes 10 ms of each start.
    scratch = os.environ.get("TMPDIR") or os.environ.get("TEMP") or f"{os.sep}tmp"
    path = Path(scratch) / f"trigger-sandbox-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()


def _set_limits_of_parent() -> None:
    import resource

    # What is there is set again, so that nothing is changed where it works.
    limits = resource.prlimit(os.getppid(), resource.RLIMIT_CORE)
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, limits)


def _attempts(open_socket: socket.socket) -> dict[str, Callable[[], object]]:
    """Return calls that must all be refused, by name: what a trigger must never be able to do."""
    # Refused calls never look at the path; an allowed one finds nothing there.
    nowhere = os.path.join(os.sep, "no-such-folder", "no-such-program")  # noqa: PTH118
    attempts: dict[str, Callable[[], object]] = {
        "open": lambda: os.close(os.open(sys.executable, os.O_RDONLY)),
        "write": _write,
        "list a folder": lambda: os.listdir(os.sep),
        "socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
        "connect": lambda: open_socket.connect(("127.0.0.1", 9)),
        "exec": lambda: os.execv(nowhere, ["x"]),
        "kill": lambda: os.kill(os.getppid(), 0),
    }
    if hasattr(os, "fork"):
        attempts["fork"] = lambda: os.fork() or os._exit(0)  # a child ends at once
    if sys.platform == "linux":
        attempts["limits of the parent"] = _set_limits_of_parent
    return attempts


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Tell whether the system does not permit it."""
    try:
        attempt()
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES)
    return False


# --- the layers -------------------------------------------------------------------------------------------------------


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise LayerMissing("only Linux has it")
    return ctypes.CDLL(None, use_errno=True)


def _failure() -> str:
    return os.strerror(ctypes.get_errno())


def die_with_parent(parent: int) -> Sentence:
    """Let the kernel kill this process when the thread that started it ends. Raises LayerMissing; ProcessLookupError
    when the parent has already ended."""
    if _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise LayerMissing(_failure())
    if os.getppid() != parent:
        raise ProcessLookupError("the parent ended before the worker was ready")
    return Sentence("the kernel kills it when the parent ends")


def no_new_privileges() -> Sentence:
    """Forbid that a program of this process gets more rights than it has, which the next two layers need. Raises
    LayerMissing if the system refuses it."""
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise LayerMissing(_failure())
    return Sentence("set-uid programs give it no rights")


def forbid_files() -> Sentence:
    """Switch on landlock with an empty list of what is allowed: no file, no TCP, no signal to
    another process. Raises LayerMissing if the kernel has no landlock or refuses it."""
    libc = _libc()
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_ASK_VERSION)
    if version < 1:
        raise LayerMissing("this kernel has no landlock ({reason})", _failure())

    # A kernel refuses rights that its version does not know.
    rules = _RuleSet(
        files=_FILE_RIGHTS[min(version, 5)],
        network=_NETWORK_RIGHTS if version >= 4 else 0,
        scopes=_SCOPES if version >= 6 else 0,
    )
    size = _rule_set_bytes(version)
    descriptor = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), size, 0)
    if descriptor < 0:
        raise LayerMissing(_failure())

    try:
        if libc.syscall(_LANDLOCK_RESTRICT_SELF, descriptor, 0) != 0:
            raise LayerMissing(_failure())
    finally:
        os.close(descriptor)

    network = Sentence(" or TCP") if version >= 4 else ""
    return Sentence("landlock ABI {version}: no access to files{version2}", version, network)


def _rule_set_bytes(version: int) -> int:
    """Return the bytes of a rule set of this ABI version; an older kernel refuses fields that it does not know."""
    if version >= 6:
        return 24
    return 16 if version >= 4 else 8


def limit_memory(data_mb: int) -> Sentence:
    """Set RLIMIT_DATA: every private writable page of the process, so also what lies outside the V8
    heap. RLIMIT_AS cannot be used: V8 reserves more than 1 TB of addresses for its own memory cage.
    Raises LayerMissing on other systems than Linux."""
    if sys.platform != "linux":
        raise LayerMissing(
            "RLIMIT_DATA covers all private memory on Linux only; the parent watches the memory instead"
        )
    import resource

    data_bytes = data_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
    return Sentence("at most {data_mb} MB of private memory", data_mb)


def limit_files() -> Sentence:
    """Set limits: no file may grow, no core is dumped, few descriptors can be open. Raises
    LayerMissing on Windows."""
    if sys.platform == "win32":
        raise LayerMissing("Windows has no such limits")
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    return Sentence("files cannot grow, no core dump, at most {open_files} descriptors", OPEN_FILES)


def allow_calls() -> Sentence:
    """Allow this thread, and the threads that it starts, only the system calls that a worker needs. Raises
    LayerMissing."""
    if sys.platform != "linux":
        raise LayerMissing("only Linux has it")
    if pyseccomp is None:
        raise LayerMissing("pyseccomp or libseccomp.so.2 is not installed ({why})", _WHY)
    try:
        conditions = _allowed_calls()
        _filter(conditions).load()
    except (OSError, RuntimeError, ValueError) as error:
        raise LayerMissing("the filter could not be made or loaded ({reason})", error) from error
    return Sentence("{allowed} system calls allowed, the others blocked", len(conditions))


def _allowed_calls() -> dict[str, tuple[object, ...]]:
    """Return the system calls that a worker may make, each with the conditions on its arguments; most have none."""
    arg = pyseccomp.Arg
    equal = pyseccomp.EQ
    masked = pyseccomp.MASKED_EQ
    return {
        **dict.fromkeys(ALLOWED, ()),
        **dict.fromkeys(("mmap", "mprotect"), (arg(2, masked, mmap.PROT_EXEC, 0),)),
        "sendto": (arg(4, equal, 0),),
        "clone": (arg(0, masked, _CLONE_THREAD, _CLONE_THREAD),),
        "tgkill": (arg(0, equal, os.getpid()),),
        # Takes the number of any process of the same user, and a limit of 0 s of processor time would end the server:
        # for the worker itself only (0), and to read only. sched_getaffinity takes a number too (V8 gives the number
        # of its own thread), but changes nothing.
        "prlimit64": (arg(0, equal, 0), arg(2, equal, 0)),
    }


def _filter(allowed_calls: Mapping[str, tuple[object, ...]]) -> Any:
    """Return a filter of libseccomp that lets these calls through, and fails all others with EPERM."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name, conditions in allowed_calls.items():
        # Not every architecture has every call; a call that is missing needs no permission.
        with suppress(OSError, RuntimeError, ValueError):
            rules.add_rule(pyseccomp.ALLOW, name, *conditions)
    # A filter cannot read its flags; with this answer libc uses clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    return rules
