"""Where the work of a window is: as its client says it, and not where its process was started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stdio_process import INITIALIZE, Client, command, request, running, tool

from memory_server.process.workspace import folder_of_roots, workspace_of

Says = str
"""How a client says which folder is open: a variable, or `roots`."""
WAYS = ("CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS", "CURSOR_PROJECT_DIR", "roots")
NOTE = {"type": "project-tech", "topic": "deployment"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("shop", "bank"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


class Window:
    """A window whose client has the folder `opened` (None: none), and says so in this way."""

    def __init__(self, client: Client, opened: Path | None, says: Says) -> None:
        self.client = client
        self.opened = opened
        self.says = says
        self.asked = 0

    def call(self, name: str, /, **arguments: Any) -> tuple[str, bool]:
        """The text of the result, and whether it is an error."""
        self.client.send(tool("call", name, **arguments))
        while True:
            message = self.client.read()
            if message.get("method") == "roots/list":
                self.asked += 1
                roots = [] if self.opened is None else [{"uri": self.opened.as_uri()}]
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}}
                self.client.send(answer)
            elif message.get("id") == "call":
                result = message["result"]
                return result["content"][0]["text"], result["isError"]


@contextmanager
def window(data: Path, opened: Path | None, says: Says, *flags: str) -> Iterator[Window]:
    environment = {} if says == "roots" else {says: str(opened)}
    capabilities = {"roots": {"listChanged": True}} if says == "roots" else {}
    flags = flags or ("--toolsets", "notes,default")
    with running(command(data, *flags), environment) as client:
        opening = INITIALIZE | {"capabilities": capabilities}
        client.send(request("initialize", "initialize", **opening))
        assert client.read()["id"] == "initialize"
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield Window(client, opened, says)


@pytest.mark.parametrize("says", WAYS)
def test_two_windows_of_one_process_each_have_the_project_that_is_open(
    home: Path, tmp_path: Path, says: Says
) -> None:
    data = tmp_path / "data"
    with window(data, home / "shop", says) as shop, window(data, home / "bank", says) as bank:
        shop.call("remember", **NOTE, content="make ship on Mondays")
        assert "make ship" not in bank.call("recall", query="deployment")[0]
        assert bank.call("remember", **NOTE, content="by ansible")[0].startswith("Created")
        assert "make ship" in shop.call("recall", query="deployment")[0]
        assert shop.asked == bank.asked == (1 if says == "roots" else 0)


@pytest.mark.parametrize("says", WAYS)
def test_the_project_file_of_the_folder_that_is_open_is_obeyed(
    home: Path, tmp_path: Path, says: Says
) -> None:
    (home / "shop/.memory-server.toml").write_text('conversation = "shop-talk"\n')
    data = tmp_path / "data"
    message = {"role": "user", "content": "The counter is green"}
    with window(data, home / "shop", says) as shop:
        _text, failed = shop.call("remember_turn", messages=[message])
        assert not failed
    folders = [path for path in data.rglob("*") if "shop-talk" in path.name]
    assert folders


def test_a_project_file_that_cannot_be_used_is_told_and_nothing_is_stored_elsewhere(
    home: Path, tmp_path: Path
) -> None:
    (home / "shop/.memory-server.toml").write_text("conversation = 3\n")
    message = {"role": "user", "content": "The counter is green"}
    with window(tmp_path / "data", home / "shop", "roots") as shop:
        for _again in range(2):
            text, failed = shop.call("remember_turn", messages=[message])
            assert failed
            assert ".memory-server.toml" in text


def test_another_folder_that_is_opened_in_a_window_is_where_the_work_is(
    home: Path, tmp_path: Path
) -> None:
    with window(tmp_path / "data", home / "shop", "roots") as either:
        either.call("remember", **NOTE, content="make ship on Mondays")
        either.opened = home / "bank"
        changed = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        either.client.send(changed)
        assert "make ship" not in either.call("recall", query="deployment")[0]
        assert either.asked == 2


@pytest.mark.parametrize("says", ["roots", "SOMETHING_ELSE"])
def test_where_no_folder_is_open_a_note_of_a_project_is_refused(
    home: Path, tmp_path: Path, says: Says
) -> None:
    with window(tmp_path / "data", None, says) as nowhere:
        text, failed = nowhere.call("remember", **NOTE, content="make ship")
        assert failed
        assert text.startswith("No project is known here")
        _text, failed = nowhere.call("remember", **NOTE | {"type": "tech"}, content="x y")
        assert not failed


def test_a_variable_that_names_no_folder_does_not_count(home: Path, tmp_path: Path) -> None:
    for value in ("${workspaceFolder}", "C:\\work\\shop", "shop", str(home / "gone")):
        with window(tmp_path / "data", Path(value), "CLAUDE_PROJECT_DIR") as nowhere:
            assert nowhere.call("remember", **NOTE, content="make ship")[1]


def test_the_first_of_several_folders_counts_and_a_link_leads_to_the_same_place(
    home: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (home / "link").symlink_to(home / "shop")
    several = Path(f"{home / 'shop'},{home / 'bank'}")
    with window(data, several, "WORKSPACE_FOLDER_PATHS") as shop:
        shop.call("remember", **NOTE, content="make ship on Mondays")
    for says in ("CLAUDE_PROJECT_DIR", "roots"):
        with window(data, home / "link", says) as same:
            assert "make ship" in same.call("recall", query="deployment")[0]


def test_where_says_which_folder_is_meant_and_who_said_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from memory_server.cli.parser import main

    (home / "shop/.memory-server.toml").write_text('conversation = "shop-talk"\n')
    flags = ["--data-dir", str(tmp_path / "data"), "where"]
    main(flags)
    assert "project   not known here" in capsys.readouterr().out
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(home / "shop"))
    main(flags)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"project {home / 'shop'}, by the variable CLAUDE_PROJECT_DIR" in printed
    assert "here shop-talk" in printed
    main([*flags, "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["folder"] == facts["project"] == str(home / "shop")
    assert facts["folderFrom"] == "CLAUDE_PROJECT_DIR"
    assert facts["conversation"] == "shop-talk"


def test_what_a_client_says_and_nobody_can_read_names_no_folder(tmp_path: Path) -> None:
    many = [str(tmp_path), *(f"/{number:0>50}" for number in range(120))]
    environ = {"WORKSPACE_FOLDER_PATHS": ",".join(many)}
    assert workspace_of(environ).folder == tmp_path
    unreadable = ["file:///" + "a" * 300, "file://[x/y", "file:///a%00b"]
    assert folder_of_roots(unreadable) is None
    assert folder_of_roots([*unreadable, tmp_path.as_uri()]) == tmp_path
