"""Powers that the kernel takes away on request: two one-way switches of a Linux process, landlock, and resource limits.

Sources: prctl(2), landlock(7), getrlimit(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from sandbox.errors import LayerMissing

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


class _RuleSet(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise LayerMissing("only Linux has it")
    return ctypes.CDLL(None, use_errno=True)


def _failure() -> str:
    return os.strerror(ctypes.get_errno())


def die_with_parent(parent: int) -> str:
    """The kernel kills this process when the thread that started it ends.

    Raises LayerMissing; ProcessLookupError when the parent has already ended.
    """
    if _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise LayerMissing(_failure())
    if os.getppid() != parent:
        raise ProcessLookupError("the parent ended before the worker was ready")
    return "killed by the kernel when the parent ends"


def no_new_privileges() -> str:
    """No program this process could start would have more rights than it. Needed for the next two layers."""
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise LayerMissing(_failure())
    return "no set-uid program helps it"


def forbid_files() -> str:
    """Landlock with an empty list of what is allowed: no file, no TCP, no signal to another process."""
    libc = _libc()
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_ASK_VERSION)
    if version < 1:
        raise LayerMissing(f"this kernel has no landlock ({_failure()})")
    rules = _RuleSet(
        files=_FILE_RIGHTS[min(version, 5)],
        network=_NETWORK_RIGHTS if version >= 4 else 0,
        scopes=_SCOPES if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8  # an older kernel refuses fields it does not know
    descriptor = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), size, 0)
    if descriptor < 0:
        raise LayerMissing(_failure())
    try:
        if libc.syscall(_LANDLOCK_RESTRICT_SELF, descriptor, 0) != 0:
            raise LayerMissing(_failure())
    finally:
        os.close(descriptor)
    return f"landlock ABI {version}: no files" + (", no TCP" if version >= 4 else "")


def limit_memory(data_mb: int) -> str:
    """RLIMIT_DATA: every private writable page of the process, so also what lies outside the V8 heap.

    RLIMIT_AS cannot be used: V8 reserves more than 1 TB of addresses for its own memory cage.
    """
    if sys.platform != "linux":
        raise LayerMissing("RLIMIT_DATA covers all private memory on Linux only; the parent watches the memory instead")
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (data_mb * 2**20, data_mb * 2**20))
    return f"at most {data_mb} MB of private memory"


def limit_files() -> str:
    """No file may grow, no core is dumped, few descriptors can be open."""
    if sys.platform == "win32":
        raise LayerMissing("Windows has no such limits")
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    return f"no file grows, no core dump, at most {OPEN_FILES} descriptors"
