"""The command `memory-server`, and `python -m memory_server`."""

import os
import sys

from memory_server.process.entrance import shared
from memory_server.process.invocation import ensure_home, installed_packages_first


def main() -> int:
    """Run the command line, and return the exit status. If the shared process did what was asked, end this process."""
    installed_packages_first()
    ensure_home(os.environ)
    # Pydantic looks for plugins in all installed packages, some milliseconds of each hook; this program needs none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if (status := shared()) is not None:
        # Nothing is open and nothing waits to be written: what Python does at its end takes 2 ms of each hook.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    from memory_server.cli.parser import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
