"""What all tests share: async tests run on asyncio, hypothesis has no deadline (the machines are shared), no test
leaves a log handler to the next, none opens a connection to another machine, and one that measures time runs alone.
Trigger workers, imported modules of servers and the parser of the command line serve one test after the other."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from lacking_programs import LackingPrograms
from one_machine import OUTSIDE, REFUSED, TimeAlone, guard_connections, turn

if TYPE_CHECKING:
    from cli_program import CommandLine

# The tests read English, whatever the reader's locale is.
os.environ["LANGUAGE"] = "en"
os.environ.pop("MEMORY_SERVER_LANGUAGE", None)
# A shell ignores SIGINT for what it starts in the background, and a program under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No test shares a process with the developer's windows, or with another test; see the fixture `shared`.
os.environ["XDG_RUNTIME_DIR"] = os.devnull

MEMORY = "/dev/shm"
MEMORY_BYTES = 4 * 2**30
"""The files of a run of all tests take some 2 GB of it."""
# Every write that a store acknowledges waits for the disk, 1 to 4 ms, and each test makes and removes a folder. Files
# in memory need no wait; what a power failure leaves of a file, tests/crash simulate.
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

hypothesis.settings.register_profile("short", deadline=None, max_examples=10, derandomize=True)
hypothesis.settings.register_profile("usual", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("usual")


def pytest_configure(config: pytest.Config) -> None:
    """`make test`, which leaves out the long forms, tries fewer examples of each property too."""
    is_short = "not full" in config.getoption("markexpr")
    if is_short and not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("short")
    config.pluginmanager.register(LackingPrograms(config))


guard_connections()
# Programs of the tests write as those of users do: the variable would hide what is lost in a buffer.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_collection_finish() -> None:
    """The modules and the tests stay to the end, so the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def outside() -> Iterator[list[str]]:
    """Fails a test that tried to leave this machine, since the program may have coped with the refusal."""
    yield OUTSIDE
    tried = ", ".join(OUTSIDE)
    OUTSIDE.clear()
    assert not tried, f"{REFUSED}, but this one tried {tried}; let it ask a server on 127.0.0.1."


_TIME_ALONE = TimeAlone()


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are alone come first, in one row: the other workers wait once, and not for each of them."""
    items.sort(key=lambda item: not _is_alone(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    # The folder of each worker lies in the folder of the run.
    folder = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]
    if not _is_alone(item):
        with turn(folder, alone=False):
            return (yield)
    next_is_alone = nextitem is not None and _is_alone(nextitem)
    with _TIME_ALONE.turn(folder, is_kept=next_is_alone):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def one_parser() -> Iterator[None]:
    """The parser of the command line, which takes 8 ms to make, is made once for each language."""
    from languages import spoken
    from memory_server.cli import parser

    make_parser = parser.parser

    @cache
    def parser_in(language: str) -> parser.CommandParser:
        return make_parser()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "parser", lambda: parser_in(spoken()))
        yield


HOOK_PATIENCE = 300.0
"""Seconds that a hook has more in a test, where others use the machine too."""


@pytest.fixture(scope="session", autouse=True)
def patient_hooks() -> Iterator[None]:
    """A hook whose seconds are over ends its process, with status 0. A hook of a test runs in the process of all
    tests, which would end without a word."""
    from memory_server.cli.hook.command import _Deadline

    start = _Deadline.__init__

    def start_late(deadline: _Deadline, seconds: float, waited: float) -> None:
        start(deadline, seconds + HOOK_PATIENCE, waited)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Deadline, "__init__", start_late)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Each HTTP client reads the certificates of the system, 30 ms, although the tests ask over plain HTTP. Here the
    clients share what was read. Who makes a context to change it, as a link to a server does, gets one of its own."""
    from httpx2._transports import default

    make_context = default.create_ssl_context

    @cache
    def usual_context(_certificates: tuple[str | None, ...], trust_env: bool) -> ssl.SSLContext:
        return make_context(trust_env=trust_env)

    def shared_context(
        verify: Any = True, cert: Any = None, trust_env: bool = True
    ) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            return make_context(verify=verify, cert=cert, trust_env=trust_env)
        certificates = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        return usual_context(certificates, trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", shared_context)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_programs() -> Iterator[None]:
    """The process that forks programs ends with the tests."""
    yield
    from forked_programs import end_template

    end_template()


OWN_WORKERS = ("test_sandbox_processes.py", "test_sandbox_zones.py")
"""Modules that are about the processes of trigger workers; those of tests/attacks are too."""


@pytest.fixture(scope="module", autouse=True)
def kept_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sandboxes of this module take the trigger workers that others have left."""
    path = request.path
    if sys.platform != "linux" or path.name in OWN_WORKERS or path.parent.name == "attacks":
        yield
        return
    from kept_workers import keeping_workers

    with keeping_workers():
        yield


@pytest.fixture(scope="session", autouse=True)
def ended_workers() -> Iterator[None]:
    """The trigger workers that wait for another test end with the tests."""
    yield
    if "kept_workers" in sys.modules:
        from kept_workers import end_kept_workers

        end_kept_workers()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """A command that runs in the test's process logs to the standard error of that test, which is closed after it."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
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
def cli(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command `memory-server` in this process: `cli("list")` runs it in the home of this test. A module that needs
    other circumstances has a fixture of this name, which takes this one."""
    from cli_program import CommandLine

    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return CommandLine(capfd, monkeypatch)


@pytest.fixture
def workbench(cli: CommandLine) -> CommandLine:
    """The command `trigger-sandbox` in this process."""
    from sandbox.cli import main

    return cli.of(main)


@pytest.fixture
def shared(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Lets the commands of this test share a process; gives the folder of its socket."""
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("MEMORY_SERVER_DAEMON__IDLE_MINUTES", "0.5")
    yield folder / "memory-server"
    from memory_server.cli.daemon import running

    for _, figures in running():
        if figures:
            os.kill(figures["pid"], signal.SIGKILL)


@pytest.fixture(params=["own", pytest.param("shared", marks=pytest.mark.full)])
def process(request: pytest.FixtureRequest) -> str:
    """Whether the commands of this test run in processes of their own, or share one."""
    if request.param == "shared":
        if sys.platform not in ("linux", "darwin"):
            pytest.skip("this system has no Unix sockets")
        request.getfixturevalue("shared")
    return str(request.param)
