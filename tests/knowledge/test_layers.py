"""Layers: what agents save, find, archive and restore, who may do what, and what `git status` says."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from knowledge.conftest import NOW, Clock
from knowledge_past import cleaned

from memory_server import open_memory
from memory_server.config import Settings, load
from memory_server.kernel.errors import (
    InvalidInput,
    MemoryNotFound,
    MemoryPaused,
    NothingToKeep,
    StorageError,
)
from memory_server.kernel.files import is_ours
from memory_server.kernel.messages import Message
from memory_server.kernel.private import Pause
from memory_server.kernel.times import DAY_MS, iso
from memory_server.knowledge import layers as layers_module
from memory_server.knowledge.entry import Hits
from memory_server.knowledge.layers import Layer, LayerOptions
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.options import PATTERNS, ROLES
from memory_server.knowledge.policies import role_of
from memory_server.knowledge.service import Knowledge
from memory_server.memories.turns import noted_block
from memory_server.runtime.app import App
from memory_server.storage.entries.markdown_folder import MarkdownFolder
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.storage.repositories import checkout_at
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio


def family(tmp_path: Path, clock: Clock, home: str = "home", **options: Any) -> Knowledge:
    folders = {
        name: lambda name=name: MarkdownFolder(tmp_path / name / "memory", locks=tmp_path / "locks")
        for name in ("project", "global")
    }
    store = SqliteStore(tmp_path / home / "k.sqlite3", clock)
    return Knowledge(store, clock, layer_options=LayerOptions(folders=folders, **options))  # type: ignore[arg-type]


@pytest.fixture
async def knowledge(tmp_path: Path, clock: Clock) -> AsyncIterator[Knowledge]:
    family_of_layers = family(tmp_path, clock)
    yield family_of_layers
    await family_of_layers.aclose()


@pytest.fixture
def project(knowledge: Knowledge) -> Layer:
    return knowledge.layers["project"]


async def keys(layer: Layer, *, archive: bool = False) -> list[str]:
    entries, _ = await layer.page(archive=archive)
    return sorted(entry.key or "" for entry in entries)


async def keys_found(layer: Layer, query: str, **options: Any) -> list[str]:
    hits = await layer.retrieve(query, **options)
    return [hit.entry.key or "" for hit in hits.hits]


async def block_for(app: App, messages: list[Message]) -> str:
    block, _ = await noted_block(app.memories, messages)
    return block


async def test_the_same_key_is_updated_and_its_tags_stay_unless_given(
    project: Layer, clock: Clock
) -> None:
    first = await project.save("api-auth", "JWT", ["api", "auth"])
    clock.now += DAY_MS
    second = await project.save("api-auth", "OAuth")
    assert first.result is True
    assert second.result is False
    assert second.entry.body == "OAuth"
    assert second.entry.tags == ("api", "auth")
    assert second.entry.updated_ms - second.entry.created_ms == DAY_MS
    assert (await project.save("api-auth", "OAuth", [])).entry.tags == ()
    assert (await project.save("api-auth", "OAuth", [])).result is False
    assert await keys(project) == ["api-auth"]


async def test_found_by_words_and_tags_with_the_reason(project: Layer) -> None:
    await project.save("api-auth", "認証方式は JWT を採用", ["decision"])
    await project.save("pool", "数据库连接池最多 20", ["db"])
    matches = await project.retrieve("認証")
    (hit,) = matches.hits
    assert hit.entry.key == "api-auth"
    assert matches.total == 1
    assert hit.why.startswith("认证 in content") or hit.why.startswith("認証 in content")
    assert (await project.retrieve("認証", tags=["DB"])) == Hits()
    assert await keys_found(project, "api", tags=["decision", "x"]) == ["api-auth"]


async def test_a_part_of_a_word_is_found_after_whole_words(project: Layer) -> None:
    await project.save("api-auth-decision", "tokens are in a header")
    await project.save("gateway", "Authentication is done by the gateway")
    await project.save("pool", "The pool has 20 connections")
    matches = await project.retrieve("auth")
    assert [hit.entry.key for hit in matches.hits] == ["api-auth-decision", "gateway"]
    assert matches.total == 2
    assert matches.hits[1].why.startswith("its text holds the query as it is")
    assert await keys_found(project, "auth", limit=1) == ["api-auth-decision"]
    assert await keys_found(project, "thenticat") == ["gateway"]
    assert await keys_found(project, "auth", tags=["x"]) == []


async def test_layers_do_not_see_each_other(knowledge: Knowledge, project: Layer) -> None:
    await project.save("k", "披萨")
    assert await knowledge.layers["global"].retrieve("披萨") == Hits()
    assert await keys_found(knowledge.layers["project"], "披萨") == ["k"]


async def test_an_unknown_key_names_close_ones_and_the_archive(
    project: Layer, clock: Clock
) -> None:
    await project.save("api-auth-decision", "JWT")
    with pytest.raises(MemoryNotFound, match="did you mean `api-auth-decision`"):
        await project.get("api-auth-decison")
    with pytest.raises(MemoryNotFound, match="list_memory_entries shows all keys"):
        await project.get("zzz")
    await project.clean_up()
    clock.now += 91 * DAY_MS
    await archive_all(project)
    with pytest.raises(
        MemoryNotFound, match="in the archive, and restore_from_memory_archive brings it back"
    ):
        await project.get("api-auth-decision")


async def archive_all(layer: Layer) -> None:
    """What is not used, while something else is."""
    await layer.save("used", "now")
    await layer.clean_up()


async def test_what_nobody_used_for_90_days_goes_into_the_archive_and_comes_back(
    project: Layer, clock: Clock
) -> None:
    await project.save("old", "披萨")
    await project.save("read", "寿司")
    clock.now += 60 * DAY_MS
    await project.retrieve("寿司")
    clock.now += 31 * DAY_MS
    await project.save("used", "now")
    assert [(entry.key, reason) for entry, reason in await project.clean_up(dry_run=True)] == [
        ("old", "expired")
    ]
    assert await keys(project) == ["old", "read", "used"]
    assert [entry.key for entry, _ in await project.clean_up()] == ["old"]
    assert await project.clean_up() == []
    assert await keys(project, archive=True) == ["old"]
    assert await project.retrieve("披萨") == Hits()
    assert await keys_found(project, "披萨", archive=True) == ["old"]
    restored = await project.restore("old")
    assert restored.body == "披萨"
    assert restored.archived_ms is None
    assert await project.clean_up() == []
    assert await keys(project, archive=True) == []


async def test_a_fresh_clone_and_a_return_from_leave_archive_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    first = family(tmp_path, clock)
    for number in range(5):
        await first.layers["project"].save(f"k{number}", "text")
    clock.now += 400 * DAY_MS
    assert await first.layers["project"].clean_up() == []  # nobody was here
    await first.aclose()
    on_another_machine = family(tmp_path, clock, home="another machine")
    layer = on_another_machine.layers["project"]
    assert await layer.clean_up(dry_run=True) == []
    assert await layer.clean_up() == []
    clock.now += 89 * DAY_MS
    await layer.get("k0")
    assert await layer.clean_up() == []
    clock.now += 2 * DAY_MS
    await layer.get("k0")
    assert len(await layer.clean_up()) == 4
    await on_another_machine.aclose()


@pytest.mark.parametrize(
    ("options", "by", "archived"),
    [
        ({"tidy": True}, "upkeep", ["layers/project"]),
        ({}, "upkeep", []),
        ({}, "cleanup", ["layers/project"]),
    ],
)
async def test_without_the_toolset_only_a_person_cleans_up_the_files(
    tmp_path: Path, clock: Clock, options: dict[str, Any], by: str, archived: list[str]
) -> None:
    knowledge = family(tmp_path, clock, **options)
    layer = knowledge.layers["project"]
    await layer.save("old", "披萨")
    for _ in range(2):
        clock.now += 60 * DAY_MS
        await layer.save("used", "now")
    cleaned = [cleaned async for cleaned in KnowledgeLifecycle(knowledge).clean_up(by=by)]
    assert [place.place for place in cleaned if place.left] == archived
    await knowledge.aclose()


async def test_too_many_entries_send_the_least_used_into_the_archive(
    tmp_path: Path, clock: Clock
) -> None:
    knowledge = family(tmp_path, clock, max_entries=3)
    layer = knowledge.layers["project"]
    for key in "abc":
        clock.now += 1000
        await layer.save(key, f"text {key}")
    clock.now += 1000
    await layer.get("a")
    clock.now += 1000
    receipt = await layer.save("d", "text d")
    assert len(receipt.entries) == 2
    assert await keys(layer) == ["a", "c", "d"]
    assert await keys(layer, archive=True) == ["b"]
    clock.now += 1000
    await layer.restore("b")
    assert await keys(layer) == ["a", "b", "d"]
    assert await keys(layer, archive=True) == ["c"]
    await layer.save("a", "again")
    assert await keys(layer, archive=True) == ["c"]
    # Files that people add are moved by the clean-up.
    for key in "xyz":
        (tmp_path / "project" / "memory" / f"{key}.md").write_text(f"---\nkey: {key}\n---\nx\n")
    assert [reason for _, reason in await layer.clean_up()] == ["over_limit"] * 3
    assert len(await keys(layer)) == 3
    await knowledge.aclose()


async def test_who_saves_is_told_how_many_others_went_into_the_archive(
    tmp_path: Path, elsewhere: None
) -> None:
    settings = Settings.model_validate({"toolsets": "layers", "layers": {"max_entries": 1}})
    said = []
    async with open_memory(tmp_path / "data", settings=settings) as app:
        for key in ("a", "a", "b"):
            arguments = {"key": key, "content": "text"}
            answer = await call(TOOLS["save_to_memory"], app.call, arguments)
            said.append(answer.structured["message"].partition(".")[2])
    assert said == ["", "", " 1 entry went into the archive."]


async def test_one_run_of_the_clean_up_moves_500_at_most(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert layers_module.MOST_AT_ONCE == 500
    monkeypatch.setattr(layers_module, "MOST_AT_ONCE", 50)
    knowledge = family(tmp_path, clock)
    memory = tmp_path / "project" / "memory"
    memory.mkdir(parents=True)
    for number in range(60):
        (memory / f"k{number}.md").write_text(
            f"---\nkey: k{number}\nupdated_at: 2020-01-01\n---\nx\n"
        )
    layer = knowledge.layers["project"]
    assert await layer.clean_up() == []
    clock.now += 100 * DAY_MS
    await layer.save("used", "now")
    assert len(await layer.clean_up()) == 50
    assert len(await layer.clean_up()) == 10
    await knowledge.aclose()


async def test_a_delete_leaves_no_copy(project: Layer, tmp_path: Path) -> None:
    await project.save("k", "text")
    await project.delete("k")
    assert list((tmp_path / "project").rglob("*.md")) == []
    with pytest.raises(MemoryNotFound):
        await project.delete("k")


async def test_restoring_over_a_live_entry_is_refused(project: Layer, clock: Clock) -> None:
    await project.save("k", "old")
    clock.now += 91 * DAY_MS
    await archive_all(project)
    await project.save("k", "new")
    with pytest.raises(InvalidInput, match="is there already; delete or rename it first"):
        await project.restore("k")
    assert (await project.get("k")).body == "new"
    with pytest.raises(MemoryNotFound, match="did you mean `k`"):
        await project.delete("k") and await project.restore("kk")  # type: ignore[func-returns-value]


ROLE_CASES = [
    (None, "owner", "owner"),
    ("admin_1", "owner", "admin"),
    ("worker_3", "owner", "worker"),
    ("owner", "worker", "worker"),
    ("admin_1", "worker", "worker"),
    ("owner_1", "admin", "admin"),
    ("somebody", "admin", "admin"),
    ("Worker-1", "owner", "worker"),
    (" WORKER", "owner", "worker"),
    ("Admin", "owner", "admin"),
    ("", "owner", "owner"),
]


@pytest.mark.parametrize(("caller", "server", "role"), ROLE_CASES)
def test_a_claim_can_only_take_away(caller: str | None, server: Any, role: str) -> None:
    assert role_of(caller, server) == role
    assert ROLES.index(role_of(caller, server, PATTERNS)) >= ROLES.index(server)


async def test_a_worker_deletes_and_restores_nothing(
    tmp_path: Path, clock: Clock, project: Layer
) -> None:
    await project.save("k", "text")
    for refused in (
        project.delete("k", caller="worker_3"),
        project.restore("k", caller="worker_3"),
    ):
        with pytest.raises(
            InvalidInput,
            match=r"^worker_3 is a worker; an owner or admin (deletes|restores) entries\.$",
        ):
            await refused
    assert await keys(project) == ["k"]
    server = family(tmp_path, clock, role="worker", roles={"boss": "owner"})
    with pytest.raises(InvalidInput, match=r"^This server is a worker; "):
        await server.layers["project"].delete("k", caller="boss")
    await server.layers["project"].save("k", "workers save")
    await server.aclose()
    await project.delete("k", caller="admin_1")


async def test_promote_moves_an_entry_to_all_projects(
    knowledge: Knowledge, project: Layer, tmp_path: Path
) -> None:
    await project.save("k", "text", ["a"])
    moved = await knowledge.layers.promote("k")
    assert moved.body == "text"
    assert moved.tags == ("a",)
    assert await keys(project) == []
    assert await keys(knowledge.layers["global"]) == ["k"]
    await project.save("k", "other")
    with pytest.raises(InvalidInput, match="A global entry `k` is in the way"):
        await knowledge.layers.promote("k")
    assert await keys(project) == ["k"]
    with pytest.raises(MemoryNotFound):
        await knowledge.layers.promote("nothing")


async def test_a_summary_tells_what_is_there(project: Layer, tmp_path: Path) -> None:
    await project.save("a", "text", ["x", "y"])
    await project.save("b", "text", ["y"])
    (tmp_path / "project" / "memory" / "broken.md").write_text("---\nkey: [\n---\n")
    summary = await project.summary()
    assert summary["total_entries"] == 2
    assert summary["unique_tags"] == ["x", "y"]
    assert summary["tag_count"] == 2
    assert summary["oldest_entry"] == iso(NOW)
    assert summary["newest_entry"] == iso(NOW)
    assert summary["storage_dir"] == str(tmp_path / "project" / "memory")
    assert list(summary["unreadable"]) == ["broken.md"]
    archived = await project.summary(archive=True)
    assert archived["total_entries"] == 0
    assert archived["archive_dir"] == str(tmp_path / "project" / "memory" / "archive")
    assert archived["unreadable"] is None


BAD: list[tuple[str, str, str]] = [
    ("", "x", "The key is empty"),
    (" \n", "x", "The key is empty"),
    ("k" * 201, "x", "201 characters; shorten it to at most 200"),
    ("a\nb", "x", "a line break or another control character"),
    ("k", " \n ", "The content is empty"),
    ("k", "x" * 100_001, "too long: 100,001"),
]


@pytest.mark.parametrize(("key", "content", "reason"), BAD, ids=[reason for *_, reason in BAD])
async def test_bad_input_changes_nothing(
    project: Layer, tmp_path: Path, key: str, content: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as failure:
        await project.save(key, content)
    assert str(failure.value).endswith(".")
    assert not (tmp_path / "project").exists()


async def test_other_bad_input(
    project: Layer, knowledge: Knowledge, clock: Clock, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="too long: 51, and at most 50 tags"):
        await project.save("k", "x", [str(number) for number in range(51)])
    with pytest.raises(InvalidInput, match="longest tag is too long"):
        await project.save("k", "x", ["t" * 101])
    with pytest.raises(InvalidInput, match="The query is empty"):
        await project.retrieve(" ")
    with pytest.raises(NothingToKeep):
        await project.save("k", "<private>x</private>")
    alone = Knowledge(knowledge.store, clock)
    with pytest.raises(
        InvalidInput, match=r"^No project is known here; start the server in one or set"
    ):
        alone.layers["project"]
    assert not (tmp_path / "project").exists()


async def test_what_is_private_is_not_saved(project: Layer) -> None:
    assert (
        await project.save("k", "the key is <private>1234</private> here")
    ).entry.body == "the key is  here"


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


async def test_100_retrievals_leave_git_status_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    git(repository, "init", "-q")
    monkeypatch.chdir(repository / "src")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    async with open_memory(tmp_path / "data", settings=Settings(toolsets="layers")) as app:
        layer = app.knowledge.layers["project"]
        for number in range(20):
            await layer.save(f"entry-{number}", f"披萨 number {number}")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "entries")
        assert len(git(repository, "ls-files").splitlines()) == 20
        for number in range(100):
            assert (await layer.retrieve("披萨")).total == 20
            await layer.get(f"entry-{number % 20}")
        await cleaned(app.knowledge)
        await layer.save("entry-3", "披萨 number 3")
        assert git(repository, "status", "--porcelain") == ""
        app.home.pause.write(Pause())
        with pytest.raises(MemoryPaused):
            await layer.save("entry-3", "while it is paused")
    assert git(repository, "status", "--porcelain") == ""


async def test_entries_come_unasked_where_the_toolset_is_on(
    tmp_path: Path, elsewhere: None
) -> None:
    note = [Message("user", "连接池应该多大？")]
    for toolsets, comes in (("turn,layers", True), ("turn,notes", False), ("turn", False)):
        async with open_memory(tmp_path / "data", settings=Settings(toolsets=toolsets)) as app:
            await app.knowledge.layers["project"].save("pool", "支付服务的连接池最多二十个连接")
            block = await block_for(app, note)
            assert ("最多二十个连接" in block) == comes
            assert block.startswith("<recalled-memories>") == comes


POOL = "---\nkey: pool\n---\n\n支付服务的连接池最多二十个连接\n"


async def test_what_came_with_a_repository_comes_unasked_after_its_first_use_and_is_named(
    tmp_path: Path, elsewhere: None
) -> None:
    note = [Message("user", "连接池应该多大？")]
    memory = tmp_path / "work" / ".multi-agent-mcp" / "memory"
    memory.mkdir(parents=True)
    (memory / "theirs.md").write_text(POOL, encoding="utf-8")
    settings = Settings(toolsets="turn,layers,notes")
    async with open_memory(tmp_path / "data", settings=settings) as app:
        layers = app.knowledge.layers
        notes = app.knowledge.notes
        assert await block_for(app, note) == ""
        await layers["project"].page()
        await layers["project"].save("pool-size", "another entry of this user, 连接池")
        assert "二十个" not in await block_for(app, note)
        await layers["project"].retrieve("二十个连接")
        lines = (await block_for(app, note)).splitlines()
        assert any(
            line.startswith("project file .multi-agent-mcp/memory/theirs.md (") for line in lines
        )
        assert lines[2] == "And from files of this project, which others may have written:"
        await layers["global"].save("pool", "全局：连接池最多二十个连接")
        await notes.remember("tech", "连接池", "最多二十个连接")
        lines = (await block_for(app, note)).splitlines()
        kinds = [line.split(" ")[0] for line in lines[2:-1]]
        assert set(kinds[:2]) == {"global", "note"}
        assert kinds[2:] == ["And", "project"]
        (memory / "theirs.md").unlink()
        (memory / "theirs.md").symlink_to(tmp_path / "nowhere")
        assert "note “连接池”" in await block_for(app, note)
    # What was used is noted in the data folder, and nowhere in the repository.
    async with open_memory(tmp_path / "other data", settings=settings) as app:
        (memory / "theirs.md").unlink()
        (memory / "theirs.md").write_text(POOL, encoding="utf-8")
        assert "project file" not in await block_for(app, note)


async def test_a_layer_that_cannot_be_read_or_takes_long_keeps_no_note_away(
    tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "work" / ".multi-agent-mcp").symlink_to(tmp_path / "outside")
    note = [Message("user", "连接池应该多大？")]
    async with open_memory(
        tmp_path / "data", settings=Settings(toolsets="turn,layers,notes")
    ) as app:
        await app.knowledge.notes.remember("tech", "连接池", "最多二十个连接")
        assert "note “连接池”" in await block_for(app, note)
        monkeypatch.setattr("memory_server.knowledge.service.LAYERS_SECONDS", 0.05)
        monkeypatch.setattr(Layer, "unasked", lambda *_: asyncio.sleep(30))
        began = time.monotonic()
        assert "note “连接池”" in await block_for(app, note)
        assert time.monotonic() - began < 10


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
@pytest.mark.parametrize("marker", [".git", ".multi-agent-mcp"])
async def test_a_folder_of_another_user_is_no_project_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    top = tmp_path / "top"
    memory = top / ".multi-agent-mcp" / "memory"
    memory.mkdir(parents=True)
    (top / marker).mkdir(exist_ok=True)
    (top / "src").mkdir()
    (memory / "pool.md").write_text(POOL, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(top / "src")

    def give(user: int, *paths: Path) -> None:
        for path in paths:
            os.chown(path, user, -1)

    async def keys_or_error(**layer_settings: Any) -> str | list[str]:
        async with open_memory(tmp_path / "data", settings=Settings(layers=layer_settings)) as app:  # type: ignore[arg-type]
            try:
                return await keys_found(app.knowledge.layers["project"], "连接池")
            except (InvalidInput, StorageError) as error:
                return str(error)

    assert await keys_or_error() == ["pool"]
    everything = (top, top / ".multi-agent-mcp", memory, memory / "pool.md", top / marker)
    give(65534, top / ".multi-agent-mcp", top / marker)
    assert "No project is known here" in await keys_or_error()
    assert checkout_at(Path()) is None
    give(0, *everything)
    give(65534, memory / "pool.md")
    assert await keys_or_error() == []
    give(65534, memory)
    assert "memory belongs to another user" in await keys_or_error()
    give(65534, *everything)
    assert await keys_or_error(project_dir=top) == ["pool"]
    give(0, *everything)
    give(65534, memory)
    assert "memory belongs to another user" in await keys_or_error(project_dir=top)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no owners")
def test_in_a_folder_that_everybody_may_write_only_the_owner_tells_whose_a_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o777)
    assert is_ours(tmp_path / "file")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert not is_ours(tmp_path / "file")
    tmp_path.chmod(0o1777)
    assert is_ours(tmp_path / "file") == (me == 0)
    tmp_path.chmod(0o755)
    assert is_ours(tmp_path / "file") == (me == 0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "repository/.multi-agent-mcp/memory"),
        ({"session_id": "s-1"}, "repository/.multi-agent-mcp/s-1/memory"),
        ({"folder": ".knowledge"}, "repository/.knowledge/memory"),
        ({"project_dir": "elsewhere"}, "elsewhere/.multi-agent-mcp/memory"),
    ],
)
async def test_where_the_files_are(
    settings: dict[str, Any], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "src").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "repository" / "src")
    if "project_dir" in settings:
        settings = settings | {"project_dir": tmp_path / "elsewhere"}
    async with open_memory(tmp_path / "data", settings=Settings(layers=settings)) as app:  # type: ignore[arg-type]
        assert app.knowledge.layers["project"].folder.place == tmp_path / expected
        name = settings.get("folder", ".multi-agent-mcp")
        assert app.knowledge.layers["global"].folder.place == tmp_path / "home" / name / "memory"


async def test_the_home_folder_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".multi-agent-mcp" / "memory").mkdir(parents=True)
    (tmp_path / "somewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "somewhere")
    async with open_memory(tmp_path / "data") as app:
        with pytest.raises(InvalidInput, match="No project is known here"):
            app.knowledge.layers["project"]


def test_variables_of_the_original_count_where_ours_are_not_set(tmp_path: Path) -> None:
    of_the_original = {"MCP_MEMORY_MAX_ENTRIES": "50", "MCP_MEMORY_TTL_DAYS": "7"}
    no_settings = tmp_path / "none.toml"
    no_settings.write_text("")
    assert load(of_the_original, config_file=no_settings).layers.max_entries == 50
    assert load(of_the_original, config_file=no_settings).layers.ttl_days == 7
    assert (
        load(
            of_the_original | {"MEMORY_SERVER_LAYERS__TTL_DAYS": "30"}, config_file=no_settings
        ).layers.ttl_days
        == 30
    )
    assert load({"MCP_MEMORY_TTL_DAYS": "30.5"}, config_file=no_settings).layers.ttl_days == 30.5
    assert load({"MCP_MEMORY_TTL_DAYS": ""}, config_file=no_settings).layers.ttl_days == 90


@pytest.mark.parametrize("variable", ["MCP_MEMORY_MAX_ENTRIES", "MCP_MEMORY_TTL_DAYS"])
@pytest.mark.parametrize("text", ["abc", "0", "-3", "inf", "1,000", "many", "٣x"])
def test_a_variable_of_the_original_that_cannot_be_used_is_named(
    tmp_path: Path, variable: str, text: str
) -> None:
    no_settings = tmp_path / "none.toml"
    no_settings.write_text("")
    with pytest.raises(InvalidInput) as refused:
        load({variable: text}, config_file=no_settings)
    assert f"(from {variable})" in str(refused.value)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    "wrong", [{"session_id": "memory"}, {"session_id": "a/b"}, {"folder": "a/b"}, {"folder": ".."}]
)
def test_settings_that_leave_the_folder_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Settings(layers=wrong)  # type: ignore[arg-type]


async def test_upkeep_leaves_files_of_another_program_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / ".multi-agent-mcp" / "memory"
    memory.mkdir(parents=True)
    for number in range(3):
        (memory / f"k{number}.md").write_text("---\nupdated_at: 2020-01-01\n---\nx\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for toolsets, moved in (("notes", 0), ("layers", 2)):
        settings = Settings(
            toolsets=toolsets, layers={"max_entries": 1, "project_dir": tmp_path / "p"}
        )  # type: ignore[arg-type]
        async with open_memory(tmp_path / "data", settings=settings) as app:
            assert len(await cleaned(app.knowledge, by="upkeep")) == moved
    assert len(os.listdir(memory)) == 2
