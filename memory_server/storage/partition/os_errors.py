"""What the system says about a disk, as advice for people."""

from __future__ import annotations

import errno

from memory_server.storage.partition.folders import FileRefused


def advice_on(error: OSError) -> str:
    """What is wrong and what to do, without a full stop."""
    if isinstance(error, FileRefused):
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; make room and try again"
    if error.errno == errno.ENOLCK:
        return (
            "locks do not work on this disk, so two programs could lose each other's writes; choose another --data-dir"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "it cannot be written; check its owner and permissions or choose another --data-dir"
    return f"{error.strerror or error}; see that it is a folder on a disk that works, or choose another --data-dir"
