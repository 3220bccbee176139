"""A run of the property of erasing, as a program: words are put into every family, used, backed up, merged, undone and
restored; then they are erased, by processes that are killed at any step and by one that is not. It prints what is
wrong. With the URL of a tenant in PostgreSQL, memories are kept there, and an export takes the place of the backup.

    python erasing.py FOLDER FIRST_SEED COUNT [URL]

Each run has a folder of its own in FOLDER. Each step is a process of its own, forked from this one, which has
everything imported.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import io
import os
import sys
import traceback
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy  # noqa: F401 - a search imports it
import opencc  # noqa: F401 - as the words of a text do

import memory_server.cli.forget
import memory_server.process.command_runner
import memory_server.process.logs
import memory_server.runtime.composition
import memory_server.runtime.homes  # noqa: F401
import nlp
from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.short_term import Origin
from memory_server.kernel import files
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Message
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.runtime.app import App, open_memory
from memory_server.storage.entries import sqlite_store, store
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

KILLED = 9
MOST_STEPS = 80
MOST_STEPS_IN_POSTGRESQL = 600
"""Half-steps of an erasing up to which a process is killed."""
SHAPES = (
    "My dentist is Dr. {} on Elm Street.",
    "我的牙医是{}医生，在榆树街。",
    'He said "{}" and\nleft\tby the back door \\ at noon.',
    "{} " + "walked on and on along the shore " * 300,
    "｛{}｝ 張偉 ☕ é",
)
ALICE = SessionIds("alice")
STORE = sys.argv[4] if len(sys.argv) > 4 else None


def in_process(work: Callable[[], Any]) -> int:
    """The exit status of a process that does this: 0, `KILLED`, or 1 with a traceback."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def opened(folder: Path, work: Callable[[App], Any]) -> None:
    async def run() -> None:
        layers = {"project_dir": folder / "project"}
        settings = Settings(seed=1, store=STORE, layers=layers)  # type: ignore[arg-type]
        async with open_memory(folder / "data", settings=settings) as app:
            await work(app)

    asyncio.run(run())


async def fill(app: App, marker: str, rng: Random) -> None:
    """Secrets and what stays, in every family; then what happens to them in use."""

    def secret() -> str:
        return rng.choice(SHAPES).format(marker)

    chat = app.conversation("小明")
    notes = app.knowledge.notes
    knowledge = app.knowledge
    question = secret()
    await chat.short_term.add(
        [Message("user", question), Message("assistant", secret())], origin=Origin(turn="t1")
    )
    await chat.short_term.add(
        [Message("user", "The cat is called Miso."), Message("assistant", "Nice.")]
    )
    await app.conversation("other").short_term.add([Message("user", question)])
    await chat.long_term.add(
        "meeting", f"Ask about {marker}", f"match_keys(context.messages, ['{marker}']) > 0"
    )
    await chat.long_term.add("birthday", "Congratulate", "true")
    note = await notes.remember("tech", "who", secret(), tags=[marker])
    await notes.remember("tech", "pet", "The cat is called Miso.")
    await notes.edit(note.entry.ref, append=f"More about {marker}")
    for text in (
        question,
        f"The phone number of {marker} is known",
        f"The phone number of {marker} is known well",
    ):
        await knowledge.sessions.add(ALICE, text, mode="direct")
    await knowledge.sessions.add(ALICE, "Likes tea in the morning", mode="direct")
    await knowledge.refs.add(secret())
    await knowledge.refs.add("A long log of a build")
    await knowledge.layers["project"].save(f"about-{marker}", secret(), ["people"])
    await knowledge.layers["project"].save("style", "Use tabs", ["code"])
    uses = [recall, undo, forget, reindex, retell, compact]
    if STORE is None:
        await app.memories.backups.make("b1")
        uses += [restore, hurt]
    for use in rng.sample(uses, rng.randint(2, len(uses) - 1)):
        await use(app, marker, rng)


async def recall(app: App, marker: str, rng: Random) -> None:
    turn = {
        "messages": [{"role": "user", "content": f"What of {marker}?"}],
        "conversation_id": "小明",
    }
    await call(TOOLS["recall_turn"], app.call, turn)
    await app.knowledge.sessions.search(ALICE, f"phone {marker}")
    await app.knowledge.layers["project"].retrieve(marker)


async def undo(app: App, marker: str, rng: Random) -> None:
    chat = app.conversation("小明")
    deletion = await chat.short_term.delete(marker)
    if deletion.change_id and rng.random() < 0.5:
        await chat.archive.undo(deletion.change_id)


async def restore(app: App, marker: str, rng: Random) -> None:
    await app.memories.backups.restore("b1", rng.choice(("merge", "overwrite")))  # type: ignore[arg-type]


async def forget(app: App, marker: str, rng: Random) -> None:
    engines = app.memories.engines
    items, _ = await forgetting.find(engines, [marker], ItemFilter())
    change = await forgetting.forget(engines, items)
    if change and rng.random() < 0.5:
        await forgetting.undo(engines, change, by="undo")


async def reindex(app: App, marker: str, rng: Random) -> None:
    await app.knowledge.notes.reindex()


async def retell(app: App, marker: str, rng: Random) -> None:
    with suppress(Exception):  # it is forgotten
        await app.conversation("小明").long_term.update("meeting", prompt=f"Ask {marker} again")


async def compact(app: App, marker: str, rng: Random) -> None:
    for name in await app.conversations.ids():
        await app.store.compact(name)


async def hurt(app: App, marker: str, rng: Random) -> None:
    """A snapshot that is broken and mended, of which a copy is kept."""
    await compact(app, marker, rng)
    path = app.store.folder("小明") / "short-term-memory.json"
    path.write_bytes(path.read_bytes()[:-20] + b"}, {]")
    os.utime(path, (1, 1))
    await app.conversation("小明").short_term.add([Message("user", "I like tea.")])


def command(folder: Path, *arguments: str) -> int:
    """The status of a command; what it prints comes only with a wrong one."""
    project = os.fspath(folder / "project")
    os.environ |= {"HOME": os.fspath(folder / "home"), "MEMORY_SERVER_LAYERS__PROJECT_DIR": project}
    os.environ |= {
        "MEMORY_SERVER_DATA_DIR": os.fspath(folder / "data"),
        "XDG_CONFIG_HOME": os.fspath(folder / "home"),
    }
    if STORE is not None:
        os.environ["MEMORY_SERVER_STORE"] = STORE
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    output = io.StringIO()
    errors = io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = main(["--no-daemon", *arguments])
    if status not in (0, 2):
        print(f"{arguments} ended with {status}: {output.getvalue()} {errors.getvalue()}")
    return status


def erase(folder: Path, marker: str, kill_at: float = 0) -> None:
    """Erase the marker; the process ends at the step of this number, before or after it (`.5`)."""
    steps = 0

    def dying(work: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == kill_at:
                os._exit(KILLED)
            result = work(*arguments, **options)
            if steps + 0.5 == kill_at:
                os._exit(KILLED)
            return result

        return step

    if kill_at:
        for name in ("replace_file", "take_name", "remove_file", "append_durably", "write_aside"):
            setattr(files, name, dying(getattr(files, name)))
        store.erase = dying(store.erase)
        sqlite_store.empty_free_pages = dying(sqlite_store.empty_free_pages)
        if STORE is not None:
            from memory_server.storage.postgres.connection import Connection

            Connection.execute = dying(Connection.execute)  # type: ignore[method-assign]
    options = ["--for-good", "--yes"]
    expected = {0}
    if STORE is None:
        options.append("--in-backups")
    else:
        expected.add(2)  # one that was killed after its end has left nothing to erase
    status = command(folder, "forget", marker, *options)
    assert status in expected or kill_at, status


def places_of(folder: Path, marker: str) -> list[str]:
    """Where the marker stands, in any case, also in what is packed."""
    places = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and has_text(path, marker)
    ]
    if STORE is None:
        return places
    from postgres_entries import everywhere

    return [*places, *everywhere(marker, STORE.partition("#")[0])]


def has_text(path: Path, marker: str) -> bool:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        with suppress(OSError, zlib.error, EOFError):
            data += gzip.decompress(data)
    if path.suffix == ".zlib":
        with suppress(zlib.error):
            data += zlib.decompress(data)
    return any(form in path.name or form.encode() in data for form in (marker, marker.lower()))


async def check(app: App, marker: str, rng: Random) -> None:
    """What stays is there, nothing is broken, and nothing brings back what was erased."""
    engines = app.memories.engines
    items, _ = await forgetting.find(engines, [], ItemFilter())
    remaining = {(item.family, item.text) for item in items}
    for family, text in (
        ("memories", "user: The cat is called Miso.\nassistant: Nice."),
        ("triggers", "Congratulate"),
        ("notes", "The cat is called Miso."),
        ("sessions", "Likes tea in the morning"),
        ("refs", "A long log of a build"),
        ("layers", "Use tabs"),
    ):
        if (family, text) not in remaining:
            print(f"{text!r} of {family} is gone")
    for engine in engines:
        for examine in await engine.examinations():
            for finding in await examine():
                if finding.grade == "error":
                    print(f"doctor: {finding.what}")
        await engine.history(limit=1000)
    if STORE is None:
        await app.memories.backups.restore("b1", "merge")
        await app.memories.backups.restore("b1", "overwrite")
    items, _ = await forgetting.find(engines, [marker], ItemFilter(archived=None))
    if items:
        print(f"it came back: {items}")


def report_places(fault: str, folder: Path, marker: str) -> None:
    places = places_of(folder, marker)
    if places:
        print(f"{fault} {places}")


def run(folder: Path, seed: int) -> None:
    rng = Random(seed)
    marker = f"Zq{rng.randrange(10**6):06}xw"
    for name in ("data", "project", "home"):
        (folder / name).mkdir()
    exported = folder.with_name(f"{folder.name}.jsonl")
    if in_process(lambda: opened(folder, lambda app: fill(app, marker, rng))):
        print("it could not be filled")
    if len(places_of(folder, marker)) < 4:
        print("it was not stored")
    if STORE and in_process(lambda: command(folder, "export", str(exported))):
        print("it could not be exported")
    status = KILLED
    steps = MOST_STEPS if STORE is None else MOST_STEPS_IN_POSTGRESQL
    for kill_at in [rng.randint(2, steps) / 2 for _ in range(rng.randint(0, 3))]:
        if status == KILLED:
            status = in_process(lambda at=kill_at: erase(folder, marker, at))  # type: ignore[misc]
            outcome = "killed at" if status == KILLED else "ended before"
            print(f"{outcome} {kill_at}", file=sys.stderr)
    if status not in (0, KILLED):
        print(f"an erasing failed otherwise, with {status}")
    if status == KILLED and in_process(lambda: erase(folder, marker)):
        print("the last erasing failed")
    report_places("found in", folder, marker)
    if STORE and in_process(lambda: command(folder, "import", str(exported))):
        print("it could not be imported")
    if in_process(lambda: opened(folder, lambda app: check(app, marker, rng))):
        print("it could not be checked")
    report_places("found afterwards in", folder, marker)


if __name__ == "__main__":
    nlp.load()
    gc.collect()
    gc.freeze()
    first_seed = int(sys.argv[2])
    for seed in range(first_seed, first_seed + int(sys.argv[3])):
        folder = Path(sys.argv[1]) / str(seed)
        folder.mkdir()
        run(folder, seed)
