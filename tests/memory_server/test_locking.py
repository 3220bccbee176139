"""The lock across processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memory_server.storage import locking
from memory_server.storage.locking import LockAttempt, try_lock

HOLD = """
import sys
from pathlib import Path
from memory_server.storage.locking import try_lock
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


def test_a_waiter_gets_the_lock_when_it_is_released(path: Path) -> None:
    lock = try_lock(path)
    assert lock is not None
    came = threading.Event()
    attempt = LockAttempt(path, came.set)
    assert not came.wait(0.02)
    lock.release()
    assert came.wait(BOUND)
    got = attempt.take()
    assert got is not None
    assert try_lock(path) is None
    got.release()


def test_a_lock_that_comes_after_its_waiter_gave_up_is_given_back(path: Path) -> None:
    lock = try_lock(path)
    assert lock is not None
    came = threading.Event()
    waiters_before = threading.active_count()
    attempt = LockAttempt(path, came.set)
    assert attempt.take() is None
    lock.release()
    # The late waiter takes and releases; who comes behind it gets the lock.
    behind = threading.Event()
    patient = LockAttempt(path, behind.set)
    assert behind.wait(BOUND)
    got = patient.take()
    assert got is not None
    got.release()
    for thread in threading.enumerate():
        if thread.name == "wait-for-lock":
            thread.join(BOUND)
    assert threading.active_count() == waiters_before
    assert not came.is_set()
    free = try_lock(path)
    assert free is not None
    free.release()


def test_an_attempt_that_was_given_up_can_be_resumed_until_it_is_over(path: Path) -> None:
    lock = try_lock(path)
    assert lock is not None
    given_up, came = threading.Event(), threading.Event()
    attempt = LockAttempt(path, given_up.set)
    assert attempt.take() is None
    assert attempt.resume(came.set)
    lock.release()
    assert came.wait(BOUND)
    assert not given_up.is_set()
    got = attempt.take()
    assert got is not None
    assert not attempt.resume(came.set)
    got.release()


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_the_lock_of_a_process_that_ends_or_is_killed_is_free_at_once(path: Path, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert try_lock(path) is None
        came = threading.Event()
        attempt = LockAttempt(path, came.set)
        if end == "is killed":
            holder.kill()
        else:
            holder.communicate("")
        assert came.wait(BOUND)
    lock = attempt.take()
    assert lock is not None
    lock.release()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rm -rf` of the folder between opening and locking: whoever makes the file anew would not be kept out."""
    real = locking.portalocker.lock

    def lock_after_removal(file: object, flags: object) -> None:
        path.unlink()
        path.touch()
        real(file, flags)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(locking.portalocker, "lock", lock_after_removal)
        assert try_lock(path) is None
    lock = try_lock(path)
    assert lock is not None
    lock.release()


def test_a_waiter_whose_file_was_removed_waits_for_the_new_one(path: Path) -> None:
    held = try_lock(path)
    assert held is not None
    came = threading.Event()
    attempt = LockAttempt(path, came.set)
    path.unlink()
    second = try_lock(path)
    assert second is not None
    held.release()
    assert not came.wait(0.1)
    second.release()
    assert came.wait(BOUND)
    lock = attempt.take()
    assert lock is not None
    assert try_lock(path) is None
    lock.release()
