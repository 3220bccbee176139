"""Where homes are built: an empty folder with a user and a project, and what many homes use one after the other."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from lived_in.house import House

from memory_server.cli.parser import parser
from memory_server.config import Settings
from memory_server.runtime.runtime import sandbox_of
from sandbox import TriggerSandbox


@contextmanager
def lived_in(folder: Path, runner: asyncio.Runner, sandbox: TriggerSandbox) -> Iterator[House]:
    """An empty home in an empty folder, with a user's home folder and a project beside the data."""
    (folder / "work" / ".git").mkdir(parents=True)
    (folder / "home").mkdir()
    environment = {
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
        "XDG_CACHE_HOME": str(folder / "home" / ".cache"),
        "XDG_RUNTIME_DIR": os.devnull,
    }
    before = Path.cwd()
    house = House(folder, runner, sandbox)
    os.chdir(folder / "work")
    logging.getLogger().addHandler(house.log)
    try:
        # To make the parser takes longer than most commands; it is the same each time.
        one_parser = mock.patch("memory_server.cli.parser.parser", cache(parser))
        # Each look writes a page; when triggers fire next is not what it looks for.
        soon = mock.patch("memory_server.cli.web.FIRINGS_SECONDS", 1.0)
        with mock.patch.dict(os.environ, environment), one_parser, soon:
            house.open()
            try:
                yield house
            finally:
                house.close()
    finally:
        logging.getLogger().removeHandler(house.log)
        os.chdir(before)


@contextmanager
def workshop() -> Iterator[tuple[asyncio.Runner, TriggerSandbox]]:
    """The loop and the sandbox that many homes use one after the other."""
    with asyncio.Runner() as runner:
        sandbox = sandbox_of(Settings(timezone="Asia/Shanghai"))
        try:
            yield runner, sandbox
        finally:
            runner.run(sandbox.aclose())
