"""Over a link a project is the repository by its URL; a folder without one is that of its machine alone."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_program import in_process
from hook_transcripts import event
from http_server import give, serving
from linked_machines import token_file
from stdio_process import command, running

NOTE = "The vault password is rotated each Monday at seven"


class LinkedDesk:
    """A machine of its own, with another home folder, that is linked to a server."""

    def __init__(self, home: Path, url: str, token: str, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.data = home / "data"
        self._patch = patch
        home.mkdir()
        self._run(home, "link", url, "--token-file", str(token_file(home, token)))

    def repository(self, name: str, origin: str | None = None) -> Path:
        folder = self.home / name
        folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        if origin is not None:
            subprocess.run(["git", "remote", "add", "origin", origin], cwd=folder, check=True)
        return folder

    def _run(self, folder: Path, *words: str, stdin: Any = None) -> str:
        self._patch.setenv("HOME", str(self.home))
        self._patch.setenv("XDG_CONFIG_HOME", str(self.home))
        self._patch.chdir(folder)
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(stdin).encode())))
        status, out, err = in_process("--data-dir", str(self.data), *words)
        assert status == 0, err
        return out

    def remember(self, folder: Path, content: str) -> None:
        arguments = {"type": "project-tech", "topic": "vault rotation", "content": content}
        self._run(folder, "call", "remember", json.dumps(arguments))

    def recalled(self, folder: Path) -> list[str]:
        answer = json.loads(self._run(folder, "call", "recall", '{"query": "vault"}'))
        return [note["content"] for note in answer["memories"]]

    def hooked(self, folder: Path) -> str:
        prompt = "When is the vault password rotated?"
        prompt_event = event("UserPromptSubmit", prompt=prompt, session_id="s", cwd=str(folder))
        return self._run(folder, "hook", stdin=prompt_event)

    def send(self) -> None:
        self._run(self.home, "link", "--send", "--yes")

    def recalled_in_a_window(self, folder: Path) -> str:
        """What a client gets that started the server in a folder."""
        self._patch.setenv("HOME", str(self.home))
        self._patch.chdir(folder)
        with running(command(self.data)) as client:
            answer = client.connect().call("recall", query="vault")
        return json.dumps(answer)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a server that was started in a repository of its own, and a token for the memories of its owner."""
    started_in = tmp_path / "started-in"
    started_in.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=started_in, check=True)
    token = give(started_in / "server", "a")
    with serving(started_in / "server", ready=False, toolsets="default,notes") as served:
        yield served.url, token


def test_a_repository_is_the_same_on_two_machines_by_its_url(
    server: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = LinkedDesk(tmp_path / "ana", *server, monkeypatch)
    desktop = LinkedDesk(tmp_path / "ana2", *server, monkeypatch)
    laptop_shop = laptop.repository("shop", "git@github.com:acme/shop.git")
    desktop_shop = desktop.repository("work/shop-clone", "https://github.com/acme/shop")
    laptop.remember(laptop_shop, NOTE)
    assert laptop.recalled(laptop_shop) == desktop.recalled(desktop_shop) == [NOTE]
    assert NOTE in desktop.hooked(desktop_shop)
    assert NOTE in desktop.recalled_in_a_window(desktop_shop)


def test_folders_of_one_path_without_a_url_stay_apart(
    server: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = LinkedDesk(tmp_path / "ana", *server, monkeypatch)
    desktop = LinkedDesk(tmp_path / "ana2", *server, monkeypatch)
    laptop_shop = laptop.repository("shop")
    desktop_shop = desktop.repository("shop")
    globex = laptop.repository("globex/shop")
    laptop.remember(laptop_shop, NOTE)
    desktop.remember(desktop_shop, "The desktop has no vault")
    assert laptop.recalled(laptop_shop) == [NOTE]
    assert desktop.recalled(desktop_shop) == ["The desktop has no vault"]
    assert laptop.recalled(globex) == []
    assert laptop.hooked(globex) == ""
    assert NOTE in laptop.hooked(laptop_shop)
    assert NOTE not in laptop.recalled_in_a_window(globex)
    assert NOTE in laptop.recalled_in_a_window(laptop_shop)


def test_what_was_noted_before_the_link_belongs_to_the_same_folder_after_it(
    server: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_TOOLSETS", "default,notes")
    laptop = LinkedDesk(tmp_path / "ana", *server, monkeypatch)
    shop = laptop.repository("shop")
    globex = laptop.repository("globex/shop")
    laptop._run(laptop.home, "unlink")
    laptop.remember(shop, NOTE)
    laptop._run(laptop.home, "link", server[0], "--token-file", str(laptop.home / "token"))
    laptop.send()
    assert laptop.recalled(shop) == [NOTE]
    assert laptop.recalled(globex) == []
