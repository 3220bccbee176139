"""The command `memory-server`, and `python -m memory_server`."""

from memory_server.shared_process.entrance import shared
from memory_server.shared_process.invocation import installed_packages_first


def main() -> int:
    """Run the command line; the exit status."""
    installed_packages_first()
    if (status := shared()) is not None:
        return status
    from memory_server.cli.parser import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
