"""Notes of two folders with one name never meet, by any way to them; a worktree is its repository; and a command says
where notes of before belong. With the programs as people run them, and repositories that git made."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_program import in_process
from hook_transcripts import event, transcript, user

NOTE = "The vault password is rotated each Monday at seven"


class Desk:
    """One machine with a data folder and folders of work."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch, name: str = "data") -> None:
        self.top = top
        self.data = top / name
        self._patch = monkeypatch

    def repository(self, name: str, origin: str | None = None) -> Path:
        folder = self.top / name
        folder.mkdir(parents=True)
        self.git(folder, "init", "-q")
        self.git(folder, "commit", "-q", "--allow-empty", "-m", "x")
        if origin is not None:
            self.git(folder, "remote", "add", "origin", origin)
        return folder

    @staticmethod
    def git(folder: Path, *words: str) -> None:
        me = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *me, *words], cwd=folder, check=True, capture_output=True)

    def run(self, folder: Path, *words: str, stdin: Any = None, status: int = 0) -> str:
        """What a command prints in a folder."""
        self._patch.chdir(folder)
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(stdin).encode())))
        ended, out, err = in_process("--data-dir", str(self.data), *words)
        assert ended == status, err
        return out + err

    def call(self, folder: Path, tool: str, **arguments: Any) -> Any:
        return json.loads(self.run(folder, "call", tool, json.dumps(arguments)))

    def remember(self, folder: Path, topic: str, content: str) -> None:
        self.call(folder, "remember", type="project-tech", topic=topic, content=content)

    def recalled(self, folder: Path, query: str) -> list[str]:
        return [note["content"] for note in self.call(folder, "recall", query=query)["memories"]]

    def hooked(self, folder: Path, prompt: str, work: Path | None = None) -> str:
        """What the hook adds to a prompt; `work`: where the session is, if not where the hook runs."""
        hook_event = event(
            "UserPromptSubmit", prompt=prompt, session_id="s", cwd=str(work or folder)
        )
        return self.run(folder, "hook", stdin=hook_event)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "home").mkdir()
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("MEMORY_SERVER_TOOLSETS", "default,notes")
    return Desk(tmp_path, monkeypatch)


def _rename_projects(data: Path, name: str) -> None:
    """Let notes have the name of a folder only, as the version before this one kept them."""
    with sqlite3.connect(data / ".memory-server" / "knowledge.sqlite3") as connection:
        connection.execute("UPDATE entries SET project = ? WHERE project <> ''", (name,))
    connection.close()


def test_two_folders_of_one_name_share_nothing(desk: Desk) -> None:
    acme = desk.repository("acme/backend")
    globex = desk.repository("globex/backend")
    desk.remember(acme, "vault rotation", NOTE)
    assert desk.hooked(globex, "When is the vault password rotated?") == ""
    assert NOTE in desk.hooked(acme, "When is the vault password rotated?")
    assert NOTE in desk.hooked(
        globex, "When is the vault password rotated?", work=acme
    )  # the event says where
    desk.remember(globex, "vault rotation", "Globex has no vault")
    assert desk.recalled(acme, "vault") == [NOTE]
    assert desk.recalled(globex, "vault") == ["Globex has no vault"]
    assert desk.call(globex, "list_notes")["total_count"] == 1
    pages = desk.run(globex, "knowledge", "document", "--output", str(desk.top / "pages"))
    assert pages
    assert NOTE not in (desk.top / "pages" / "project-tech.md").read_text("utf-8")
    listed = desk.run(acme, "knowledge", "list")
    assert "notes (acme/backend)" in listed
    assert "notes (globex/backend)" in listed
    counts = [
        json.loads(line) for line in desk.run(acme, "knowledge", "projects", "--json").splitlines()
    ]
    assert {row["name"]: row["notes"] for row in counts} == {"acme/backend": 1, "globex/backend": 1}


def test_an_export_that_is_imported_keeps_them_apart(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = desk.repository("acme/backend")
    globex = desk.repository("globex/backend")
    desk.remember(acme, "vault rotation", NOTE)
    desk.remember(globex, "vault rotation", "Globex has no vault")
    desk.run(acme, "export", str(desk.top / "all.jsonl"))
    importer = Desk(desk.top, monkeypatch, "other")
    assert "2 new" in importer.run(desk.top, "import", str(desk.top / "all.jsonl"))
    assert importer.recalled(acme, "vault") == [NOTE]
    assert importer.recalled(globex, "vault") == ["Globex has no vault"]


def test_a_worktree_is_its_repository_also_after_it_was_removed(desk: Desk) -> None:
    shop = desk.repository("shop")
    work = desk.top / "shop-pay-123"
    desk.git(shop, "worktree", "add", "-q", str(work), "-b", "pay")
    desk.remember(shop, "refunds", "Refunded orders count as fulfilled")
    assert desk.recalled(work, "refunded orders") == ["Refunded orders count as fulfilled"]
    desk.remember(work, "webhooks", "Webhooks arrive twice in staging")
    transcript_path = desk.top / "t.jsonl"
    transcript_path.write_bytes(transcript(user("I stopped at the webhooks.", "p1")))
    ended = event(
        "Stop",
        cwd=str(work),
        transcript_path=str(transcript_path),
        session_id="t",
        last_assistant_message="Good.",
    )
    desk.run(work, "hook", stdin=ended)
    desk.git(shop, "worktree", "remove", "--force", str(work))
    assert desk.recalled(shop, "webhooks in staging") == ["Webhooks arrive twice in staging"]
    begun = desk.run(
        shop, "hook", stdin=event("SessionStart", cwd=str(shop), source="startup", session_id="u")
    )
    assert "I stopped at the webhooks." in begun


def test_notes_of_before_come_to_the_folder_and_of_two_folders_they_wait(desk: Desk) -> None:
    acme = desk.repository("acme/backend")
    globex = desk.repository("globex/backend")
    shop = desk.repository("shop")
    desk.remember(shop, "vault rotation", NOTE)
    _rename_projects(desk.data, "shop")
    assert NOTE in desk.hooked(shop, "When is the vault password rotated?")
    _rename_projects(desk.data, "backend")
    desk.run(globex, "remember", "We begin.")  # so something was said in the other one
    assert desk.recalled(acme, "vault") == []
    answer = desk.call(acme, "recall", query="vault")
    assert "1 note from before" in answer["note"]
    assert "memory-server knowledge assign backend" in answer["note"]
    assert "one of several folders" in desk.run(acme, "knowledge", "projects")
    assert "Would assign 1 note to acme/backend." in desk.run(
        acme, "knowledge", "assign", "backend", "--dry-run"
    )
    assert "Assigned 1 note to acme/backend. Change k" in desk.run(
        acme, "knowledge", "assign", "backend"
    )
    assert desk.recalled(acme, "vault") == [NOTE]
    assert desk.recalled(globex, "vault") == []
    assert "note" not in desk.call(acme, "recall", query="vault")
    desk.remember(globex, "port", "8080")
    output = desk.run(acme, "knowledge", "assign", "backend", status=2)  # nothing waits any more
    assert f"may be `{globex}`" in output.replace("\n", " ")
    assert desk.recalled(globex, "8080") == ["8080"]
    assert "Assigned 1 note to globex/backend." in desk.run(
        shop, "knowledge", "assign", "1", "--to", str(globex)
    )
    assert desk.recalled(globex, "vault") == [NOTE]


def test_a_repository_that_was_moved_gets_its_notes_by_a_command(desk: Desk) -> None:
    shop = desk.repository("shop")
    desk.remember(shop, "vault rotation", NOTE)
    moved = desk.top / "work" / "shop"
    moved.parent.mkdir()
    shutil.move(shop, moved)
    assert desk.recalled(moved, "vault") == []
    assert "Assigned 1 note to work/shop." in desk.run(moved, "knowledge", "assign", str(shop))
    assert desk.recalled(moved, "vault") == [NOTE]
    assert desk.run(moved, "undo", "--family", "notes", "--yes")
    assert desk.recalled(moved, "vault") == []


def test_a_repository_with_a_url_may_be_anywhere(desk: Desk) -> None:
    shop = desk.repository("one", "git@github.com:acme/shop.git")
    desk.remember(shop, "vault rotation", NOTE)
    two = desk.repository("elsewhere/two", "https://ana:secret@github.com/acme/shop")
    assert desk.recalled(two, "vault") == [NOTE]
    fork = desk.repository("fork/one", "git@github.com:ana/shop.git")
    assert desk.recalled(fork, "vault") == []
    assert "secret" not in desk.run(shop, "knowledge", "projects")
    desk.git(shop, "remote", "set-url", "origin", "git@github.com:acme/bookshop.git")
    assert desk.recalled(shop, "vault") == []
    assert "Assigned 1 note to" in desk.run(shop, "knowledge", "assign", "github.com/acme/shop")
    assert desk.recalled(shop, "vault") == [NOTE]


def test_a_url_that_comes_later_takes_the_notes_along(desk: Desk) -> None:
    shop = desk.repository("shop")
    desk.remember(shop, "vault rotation", NOTE)
    desk.git(shop, "remote", "add", "origin", "git@github.com:acme/shop.git")
    assert desk.recalled(shop, "vault") == [NOTE]
    assert "github.com/acme/shop" in desk.run(shop, "knowledge", "projects")


def test_folders_without_git_are_places_and_the_home_folder_is_none(desk: Desk) -> None:
    for name in ("tmp1", "tmp2"):
        (desk.top / name).mkdir()
    desk.remember(desk.top / "tmp1", "vault rotation", NOTE)
    assert desk.recalled(desk.top / "tmp1", "vault") == [NOTE]
    assert desk.recalled(desk.top / "tmp2", "vault") == []
    assert desk.hooked(desk.top / "home", "When is the vault password rotated?") == ""
    memories = desk.call(desk.top / "home", "recall", query="vault")["memories"]
    assert [(note["content"], note["project"]) for note in memories] == [(NOTE, "tmp1")]
    text = desk.run(desk.top / "home", "call", "--text", "recall", '{"query": "vault"}')
    assert "## vault rotation (project-tech, tmp1)" in text
    assert desk.call(desk.top / "home", "list_notes")["notes"][0]["project"] == "tmp1"


WRONG = [
    (["assign"], "needs a project or the ids of notes"),
    (["assign", "nothing-of-that-name"], "There is no entry nothing-of-that-name"),
    (["assign", "backend"], "may be `"),
    (["assign", "shop", "--to", "nowhere"], "neither a folder nor one project that has notes"),
    (["assign", "1", "--to", "backend"], "neither a folder nor one project that has notes"),
    (["assign", "4"], "is not a note of the type project-tech"),
    (["projects", "words"], "needs no words"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG)
def test_what_is_not_clear_is_refused_in_one_sentence_and_changes_nothing(
    desk: Desk, words: list[str], sentence: str
) -> None:
    for name in ("acme/backend", "globex/backend", "shop"):
        desk.remember(desk.repository(name), "vault rotation", f"of {name}")
    desk.call(desk.top / "shop", "remember", type="tech", topic="t", content="true anywhere")
    before = desk.run(desk.top, "knowledge", "projects")
    output = desk.run(
        desk.top / "shop", "knowledge", *words, status=1 if "There is no" in sentence else 2
    )
    assert sentence in output.replace("\n", " ")
    assert desk.run(desk.top, "knowledge", "projects") == before


def test_the_home_folder_is_no_project_to_assign_to(desk: Desk) -> None:
    desk.remember(desk.repository("shop"), "t", "text")
    output = desk.run(desk.top / "home", "knowledge", "assign", "shop", status=2)
    assert "This folder does not belong to a project" in output


def test_pages_of_claude_code_become_notes_of_the_repository_of_their_sessions(desk: Desk) -> None:
    acme = desk.repository("acme/backend")
    globex = desk.repository("globex/backend")
    for folder in (acme, globex):
        project_folder = desk.top / "projects" / str(folder).replace("/", "-")
        (project_folder / "memory").mkdir(parents=True)
        line = {"type": "user", "uuid": folder.parent.name, "sessionId": "s", "cwd": str(folder)}
        line |= {
            "timestamp": "2026-05-28T20:00:00.000Z",
            "message": {"role": "user", "content": "hello there"},
        }
        (project_folder / "s.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        (project_folder / "memory" / "MEMORY.md").write_text(
            f"## Vault\nof {folder.parent.name}\n", encoding="utf-8"
        )
    desk.run(desk.top, "import", str(desk.top / "projects"))
    assert desk.recalled(acme, "vault") == ["of acme"]
    assert desk.recalled(globex, "vault") == ["of globex"]


def test_a_folder_of_transcripts_that_two_working_folders_have_is_of_neither(desk: Desk) -> None:
    acme = desk.repository("a/b")
    globex = desk.repository("a-b")
    project_folder = desk.top / "projects" / "-a-b"
    (project_folder / "memory").mkdir(parents=True)
    for folder in (acme, globex):
        line = {"type": "user", "uuid": folder.name, "sessionId": folder.name, "cwd": str(folder)}
        line |= {
            "timestamp": "2026-05-28T20:00:00.000Z",
            "message": {"role": "user", "content": "hello there"},
        }
        (project_folder / f"{folder.name}.jsonl").write_text(
            json.dumps(line) + "\n", encoding="utf-8"
        )
    (project_folder / "memory" / "MEMORY.md").write_text(
        "## Vault\nof one of them\n", encoding="utf-8"
    )
    desk.run(desk.top, "import", str(desk.top / "projects"))
    assert desk.recalled(acme, "vault") == desk.recalled(globex, "vault") == []
    assert "of one of them" in desk.run(acme, "knowledge", "list")
