"""Resource limits of the process. Source: getrlimit(2), Linux."""

from __future__ import annotations

import sys

from sandbox.worker.layers.errors import LayerMissing

OPEN_FILES = 32
"""The worker has some ten descriptors open; V8 and Python need none after the start."""


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
