"""The lock across processes."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from memory_server.kernel import files as folders
from memory_server.kernel.files import try_lock

HOLD = """
import sys
from pathlib import Path
from memory_server.kernel.files import try_lock
lock = try_lock(Path(sys.argv[1]))
print("held" if lock else "not held", flush=True)
sys.stdin.read()
"""
BOUND = 20.0
"""Seconds after which a test fails that waits for something which takes milliseconds."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_one_holder_at_a_time_also_within_a_process(path: Path) -> None:
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    first.release()
    second = try_lock(path)
    assert second is not None
    second.release()


def test_the_lock_file_is_private_and_stays(path: Path) -> None:
    lock = try_lock(path)
    assert lock is not None
    lock.release()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b""


def test_a_lock_in_no_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        try_lock(tmp_path / "nowhere" / "lock")


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_the_lock_of_a_process_that_ends_or_is_killed_is_free_at_once(path: Path, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert try_lock(path) is None
        if end == "is killed":
            holder.kill()
        else:
            holder.communicate("")
        holder.wait(BOUND)
    lock = try_lock(path)
    assert lock is not None
    lock.release()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rm -rf` of the folder between opening and locking: whoever makes the file anew would not be kept out."""
    try_lock_file = folders.try_lock_file

    def lock_after_removal(descriptor: int) -> bool:
        path.unlink()
        path.touch()
        return try_lock_file(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "try_lock_file", lock_after_removal)
        assert try_lock(path) is None
    lock = try_lock(path)
    assert lock is not None
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="this is the call of other systems")
@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES, errno.EPERM, errno.ENOSYS])
def test_no_error_of_the_system_is_taken_for_a_lock(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them mean that another process has the lock; who waits for it gets it or an error."""

    def refused(*_: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr("fcntl.flock", refused)
    if number in (errno.EAGAIN, errno.EACCES):
        assert try_lock(path) is None
    else:
        with pytest.raises(OSError, match="locks"):
            try_lock(path)
    with path.open("ab") as file, pytest.raises(OSError, match="refused"):
        folders.lock_file(file.fileno())
