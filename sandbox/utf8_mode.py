"""Makes file names and arguments UTF-8 in every locale. Does not know what the program does."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def begin_again_in_utf8_mode() -> None:
    """Start this program again in Python's UTF-8 mode, if the locale made Python use another encoding.

    Only on Linux: macOS and Windows have one encoding for file names. The arguments are read from the kernel, because
    arguments that Python decoded as GBK do not always give the same bytes back. A terminal keeps its own encoding.
    """
    if sys.platform == "linux" and sys.getfilesystemencoding() != "utf-8":
        given = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
        if os.isatty(1):
            os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *given])
