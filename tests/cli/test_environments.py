"""Commands where the environment says little: no HOME, no entry in passwd, no folder for temporary files."""

from __future__ import annotations

import json
import os
import pwd
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from memory_server.process.invocation import ensure_home

pytestmark = pytest.mark.skipif(os.name != "posix", reason="passwd is of POSIX")


@pytest.mark.parametrize(
    ("home", "in_passwd", "expected"),
    [
        ("/home/ana", None, "/home/ana"),
        ("/home/ana", "/home/other", "/home/ana"),
        (None, "/home/other", "/home/other"),
        ("", "/home/other", "/home/other"),
        ("relative", "/home/other", "/home/other"),
        (None, "", "/"),
        (None, None, "/"),
        ("", None, "/"),
    ],
)
def test_there_is_always_a_home(
    home: str | None, in_passwd: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(user_id: int) -> pwd.struct_passwd:
        if in_passwd is None:
            raise KeyError
        return pwd.struct_passwd(("ana", "x", user_id, 0, "", in_passwd, "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", entry)
    environ = {} if home is None else {"HOME": home}
    ensure_home(environ)
    assert environ["HOME"] == expected


WITHOUT_PASSWD = """
import pwd, sys

def nobody(user_id):
    raise KeyError(user_id)

pwd.getpwuid = nobody
pwd.getpwnam = nobody
"""
COMMAND = """
from memory_server.__main__ import main
sys.argv[0] = "memory-server"
raise SystemExit(main())
"""
LIBRARY = """
import asyncio
from memory_server import InvalidInput, Message, open_memory

async def add():
    async with open_memory(*sys.argv[1:]) as memory:
        await memory.conversation("a").short_term.add([Message("user", "hello")])

try:
    asyncio.run(add())
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
PROMPT = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hello"})
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        },
    }
)
PROGRAMS = {
    "remember": ([COMMAND, "remember", "hello"], ""),
    "where": ([COMMAND, "where"], ""),
    "doctor": ([COMMAND, "doctor"], ""),
    "install": ([COMMAND, "install", "print"], ""),
    "hook": ([COMMAND, "hook"], PROMPT),
    "serve": ([COMMAND, "serve"], f"{INITIALIZE}\n"),
    "library": ([LIBRARY, "data"], ""),
}
"""Code, with its arguments, and what it reads."""
HOMES = [None, "", "relative", "~", "/nowhere/home", "/dev/null"]
TEMPORARY_FOLDERS = [None, "relative", "/nowhere", "/dev/null"]
XDG_FOLDERS = [None, "", "/nowhere/xdg", "/dev/null"]
PLACES = list(product(HOMES, TEMPORARY_FOLDERS, XDG_FOLDERS))
SAMPLE = random.Random(1).sample(PLACES, len(PROGRAMS))


def run_in(
    places: tuple[str | None, ...], words: list[str], stdin: str, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code with arguments as a user without an entry in passwd, where the variables name these places."""
    home, temporary_folder, xdg_folder = places
    named = {"HOME": home, "TMPDIR": temporary_folder}
    for kind in ("CONFIG_HOME", "DATA_HOME", "CACHE_HOME", "RUNTIME_DIR"):
        named[f"XDG_{kind}"] = xdg_folder
    environ = {name: value for name, value in named.items() if value is not None}
    code, *arguments = words
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_PASSWD + code, *arguments],
        env=environ | {"PATH": os.environ["PATH"]} | variables,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


IN_SHORT = list(zip(SAMPLE, PROGRAMS, strict=True))
IN_FULL = random.Random(2).sample(list(product(PLACES, PROGRAMS)), 60)


@pytest.mark.parametrize(
    ("places", "program"),
    [*IN_SHORT, *(pytest.param(*pair, marks=pytest.mark.full) for pair in IN_FULL)],
)
def test_a_program_works_with_the_data_folder_alone(
    places: tuple[str | None, ...], program: str, tmp_path: Path
) -> None:
    done = run_in(
        places,
        *PROGRAMS[program],
        tmp_path,
        MEMORY_SERVER_DATA_DIR=str(tmp_path / "data"),
        MEMORY_SERVER_DAEMON__ENABLED="false",
    )
    assert done.returncode == 0, done.stderr
    if program == "serve":
        assert '"result"' in done.stdout


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_the_library_says_that_it_needs_a_folder_where_there_is_no_home(
    home: str | None, tmp_path: Path
) -> None:
    """It sets no variable of the program that it is a part of."""
    done = run_in((home, None, None), [LIBRARY], "", tmp_path)
    assert done.returncode == 1
    assert "InvalidInput: This user has no home folder; name a data folder" in done.stderr
