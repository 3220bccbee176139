"""What all tests share: async tests run on asyncio, hypothesis has no deadline (the machines are shared), no test
leaves a log handler to the next, none opens a connection to another machine, and one that measures time runs alone."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from one_machine import OUTSIDE, REFUSED, guard_connections, turn

# The tests read English, whatever the reader's locale is.
os.environ["LANGUAGE"] = "en"
os.environ.pop("MEMORY_SERVER_LANGUAGE", None)
# A shell ignores SIGINT for what it starts in the background, and a program under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No test shares a process with the developer's windows, or with another test; see the fixture `shared`.
os.environ["XDG_RUNTIME_DIR"] = os.devnull

hypothesis.settings.register_profile("short", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("short")


guard_connections()


@pytest.fixture(autouse=True)
def outside() -> Iterator[list[str]]:
    """Fails a test that tried to leave this machine, since the program may have coped with the refusal."""
    yield OUTSIDE
    tried = ", ".join(OUTSIDE)
    OUTSIDE.clear()
    assert not tried, f"{REFUSED}, but this one tried {tried}; let it ask a server on 127.0.0.1."


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    # The folder of each worker lies in the folder of the run.
    folder = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]
    with turn(folder, alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """A command that runs in the test's process logs to the standard error of that test, which is closed after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project and a home folder for this test: layers of this project and of this user stay as they are."""
    _go_elsewhere(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def elsewhere_together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        _go_elsewhere(tmp_path_factory.mktemp("elsewhere"), patch)
        yield


def _go_elsewhere(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "work" / ".git").mkdir(parents=True)
    patch.setenv("HOME", str(folder / "home"))
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.chdir(folder / "work")


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lets the commands of this test share a process; gives the folder of its socket."""
    place = tmp_path_factory.mktemp("run")
    place.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("MEMORY_SERVER_DAEMON__IDLE_MINUTES", "0.5")
    yield place / "memory-server"
    from memory_server.cli.daemon import running

    for _, known in running():
        if known:
            os.kill(known["pid"], signal.SIGKILL)


@pytest.fixture(params=["own", pytest.param("shared", marks=pytest.mark.full)])
def process(request: pytest.FixtureRequest) -> str:
    """Whether the commands of this test run in processes of their own, or share one."""
    if request.param == "shared":
        if sys.platform not in ("linux", "darwin"):
            pytest.skip("this system has no Unix sockets")
        request.getfixturevalue("shared")
    return str(request.param)
