"""File names and arguments are UTF-8, whatever the locale. Knows nothing of what the program does."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def begin_again_in_utf8_mode() -> None:
    """Where the locale makes Python take them for another encoding, start this program again in its UTF-8 mode.

    Only on Linux: macOS and Windows have no other encoding for file names. The arguments come from the kernel, because
    what Python read in GBK does not always become the same bytes again. A terminal keeps its own encoding.
    """
    if sys.platform == "linux" and sys.getfilesystemencoding() != "utf-8":
        given = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
        if os.isatty(1):
            os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *given])
