"""The version of the package, which pyproject.toml reads here, and the commit that it was made from."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would take a tenth of the time of a hook
if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.2.0"

COMMIT_FILE = "commit.txt"
"""The file beside this one that holds the commit in a wheel; distribution/build_hook.py writes it."""


def version_line() -> str:
    """Return the version as people see it: `memory-server 0.2.0 (commit abc1234)`. There is no bracket if the commit is
    not known, as in a copy of the source without git."""
    commit = commit_of_program()
    if commit is None:
        return f"memory-server {__version__}"
    return f"memory-server {__version__} (commit {commit})"


def commit_of_program() -> str | None:
    """Return the short name of the commit: a wheel says it in a file, a clone is asked by git."""
    from pathlib import Path

    package = Path(__file__).resolve().parent
    try:
        return (package / COMMIT_FILE).read_text(encoding="ascii").strip() or None
    except OSError:
        return commit_of_clone(package.parent)


def commit_of_clone(folder: Path) -> str | None:
    """Return the short name of the commit that is checked out in `folder`, or None if `folder` is not itself a clone (a
    repository around it does not count) or git cannot say it."""
    import os
    import subprocess

    if not (folder / ".git").exists():
        return None
    command = ("git", "-C", str(folder), "rev-parse", "--short=7", "HEAD")
    # A variable such as GIT_DIR, which git sets for its hooks, would name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return done.stdout.strip() or None
