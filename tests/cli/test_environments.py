"""Commands where the environment says little: no HOME, no entry in passwd, no folder for temporary files."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from memory_server.shared_process.invocation import ensure_home

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
from memory_server.__main__ import main
sys.argv[0] = "memory-server"
raise SystemExit(main())
"""
VARIABLES = [
    dict(pairs)
    for pairs in product(
        [("HOME", None), ("HOME", "relative")], [("TMPDIR", None), ("TMPDIR", "/nowhere")]
    )
]
COMMANDS = [["remember", "hello"], ["where"], ["doctor"], ["install", "print"]]


@pytest.mark.parametrize("variables", VARIABLES, ids=str)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_works_with_the_data_folder_alone(
    command: list[str], variables: dict[str, str | None], tmp_path: Path
) -> None:
    environ = {name: value for name, value in variables.items() if value is not None}
    environ |= {"MEMORY_SERVER_DATA_DIR": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    environ |= {"MEMORY_SERVER_DAEMON__ENABLED": "false"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PASSWD, *command],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
