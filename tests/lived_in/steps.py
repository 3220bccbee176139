"""What people, models and programs do in a home: one function for each kind of event, which makes all its choices with
its own `rng`."""

from __future__ import annotations

import json
import re
from random import Random

from lived_in import texts
from lived_in.arguments import arguments_for, some_time
from lived_in.counts import kept_texts
from lived_in.events import event_of_a_client
from lived_in.forms import form_of_the_page
from lived_in.house import House, Output
from lived_in.imported import written_file
from lived_in.life import step

from memory_server.tools import TOOLS

CHANGING = tuple(name for name, tool in TOOLS.items() if not tool.read_only)

# --- talk ----------------------------------------------------------------------------------------------------


@step(14)
def hook(house: House, rng: Random) -> Output:
    """A client calls its hook."""
    event = event_of_a_client(house, rng)
    words = ["hook", "--seconds", "60"]
    if rng.random() < 0.2:
        words += ["--chars", str(rng.choice((1, 80, 2_000)))]
    return house.command(*words, stdin=json.dumps(event).encode(), own=rng.random() < 0.15)


@step(6)
def remember(house: House, rng: Random) -> Output:
    """A companion stores a turn with the command."""
    words = ["remember"]
    if rng.random() < 0.5:
        words += ["-c", rng.choice(texts.ROOMS)]
    if rng.random() < 0.4:
        words += ["--session", f"s{rng.randrange(4)}"]
    if rng.random() < 0.3:
        words += ["--turn", f"turn {rng.randrange(6)}"]
    if rng.random() < 0.3:
        words += ["--other-words", ", ".join(texts.other_words(rng))]
    messages = json.dumps(texts.exchange(rng, some_time(house, rng)))
    return house.command(*words, stdin=messages.encode(), own=rng.random() < 0.1)


@step(4)
def recall(house: House, rng: Random) -> Output:
    """A companion asks before it answers."""
    words = ["recall", "--flashbacks", str(rng.randrange(3))]
    if rng.random() < 0.5:
        words += ["-c", rng.choice(house.conversations() or ["default"])]
    if rng.random() < 0.5:
        words += ["--session", f"s{rng.randrange(4)}"]
    if rng.random() < 0.3:
        words.append("--json")
    if rng.random() < 0.3:
        words += ["--other-words", ", ".join(texts.other_words(rng))]
    return house.command(
        *words, "--", rng.choice((*texts.QUESTIONS, texts.sentence(rng).replace("\0", "")))
    )


@step(20)
def tool(house: House, rng: Random) -> None:
    """A model calls a tool that changes something."""
    name = rng.choice(CHANGING)
    house.tool(name, arguments_for(house, TOOLS[name], rng), session=rng.choice((None, "s1", "s2")))


@step(6)
def rest(house: House, rng: Random) -> None:
    """A program calls a tool over HTTP."""
    name = rng.choice(list(TOOLS))
    headers = {}
    if rng.random() < 0.5:
        headers["x-memory-session"] = f"s{rng.randrange(3)}"
    if rng.random() < 0.3:
        headers["x-memory-folder"] = rng.choice(("/srv/shop", "/tmp"))
    response = house.ask(name, arguments_for(house, TOOLS[name], rng), **headers)
    assert response.status_code < 500 or response.status_code in (503, 507), response.text


@step(3)
def branch(house: House, rng: Random) -> None:
    """A chat program opens a branch of a chat: it asks what its trunk said before it, and gets nothing of its siblings."""
    trunk = rng.choice(house.conversations() or ["default"])
    with_turns = [memory for memory in house.memories(trunk) if memory.turn]
    shared = [memory for memory in with_turns if rng.random() < 0.5]
    name = f"{trunk[:100]} branch {rng.randrange(3)}"
    about = {
        "conversation_id": name,
        "messages": texts.exchange(rng)[:1],
        "also": [trunk],
        "alsoTurns": {trunk: [memory.turn for memory in shared]},
    }
    answer = house.ask("recall_turn", about)
    if answer.status_code == 200:
        tiers = answer.json()["shortTerm"]
        came = [*tiers["topRelevant"], *tiers["nextRelevant"], *tiers["randomFlashback"]]
        of_trunk = {item["id"] for item in came if item.get("keptIn") == trunk}
        turns = {memory.turn for memory in shared}
        siblings = {memory.id for memory in house.memories(trunk) if memory.turn not in turns}
        assert not of_trunk & siblings, (trunk, of_trunk & siblings)
    if rng.random() < 0.5:
        turn = {"messages": texts.exchange(rng), "turn_id": f"t{rng.randrange(6)}"}
        house.ask("remember_turn", {"conversation_id": name, **turn})


# --- the page ------------------------------------------------------------------------------------------------


@step(12)
def form(house: House, rng: Random) -> None:
    """A person sends a form of the page."""
    address, fields = form_of_the_page(house, rng)
    response = house.post(address, fields)
    assert response.status_code in (200, 303, 404, 422), (
        address,
        response.status_code,
        response.text[-2_000:],
    )


# --- commands ------------------------------------------------------------------------------------------------


@step(5)
def forget(house: House, rng: Random) -> Output:
    """A person has something forgotten, perhaps for good."""
    words = ["forget", rng.choice(_words_of(house, rng)), "--yes"]
    if rng.random() < 0.4:
        words.append("--for-good")
        if rng.random() < 0.5:
            words.append("--in-backups")
    if rng.random() < 0.2:
        words += [
            "--family",
            rng.choice(("memories", "triggers", "notes", "layers", "sessions", "refs")),
        ]
    if rng.random() < 0.2:
        words.append("--dry-run")
    return house.command(*words, own=rng.random() < 0.15)


@step(4)
def undo(house: House, rng: Random) -> Output:
    changes = house.changes()
    if changes and rng.random() < 0.8:
        return house.command("undo", rng.choice(changes).id)
    forgotten = house.all_shelved()
    if forgotten and rng.random() < 0.7:
        memory = rng.choice(forgotten).memory
        return house.command("undo", "--memory", getattr(memory, "id", None) or memory.name)
    words = ["undo", "--since", "2026-03-01"]
    if rng.random() < 0.5:
        words.append("--dry-run")
    return house.command(*words)


@step(3)
def undo_twice(house: House, rng: Random) -> Output | None:
    """A person takes a change back, sees that it was right, and takes that back too: all is as it was."""
    changes = house.changes()
    if not changes:
        return None
    before = kept_texts(house)
    undone = house.command("undo", rng.choice(changes).id, language="en")
    again = re.search(r"; change ([\w-]+)\.", undone.text)
    if undone.status != 0 or undone.errors or again is None:
        return undone
    redone = house.command("undo", again[1], language="en")
    if redone.status == 0 and not redone.errors:
        after = kept_texts(house)
        lost = sorted(before - after)
        new = sorted(after - before)
        assert not lost + new, (
            f"undone twice, lost {str(lost)[:600]}, new {str(new)[:600]}: {undone.text} {redone.text}"
        )
    return redone


@step(4)
def backup(house: House, rng: Random) -> Output:
    names = house.backups()
    kind = rng.choice(("make", "restore", "overwrite", "delete", "dry-run"))
    if kind == "make" or not names:
        if rng.random() < 0.3:
            return house.command("backup", "before-move")
        return house.command("backup")
    if kind == "delete":
        return house.command("backup delete", rng.choice(names))
    flags = {"overwrite": ["--overwrite"], "dry-run": ["--dry-run"]}.get(kind, [])
    return house.command("backup restore", rng.choice(names), *flags)


@step(5)
def keep(house: House, rng: Random) -> Output:
    """A person pins, mutes, pauses, cleans up or mends."""
    memories = house.all_memories()
    some = "zz"
    if memories:
        some = rng.choice(memories).id
    return house.command(
        *rng.choice(
            (
                ["pin", some],
                ["pin", some[:3], "--off"],
                ["mute", some],
                ["mute", some, "--folder"],
                ["mute", some, "--everywhere"],
                ["mute", some, "--off"],
                ["edit", some, "the", "that"],
                ["pause", "--for", "2h"],
                ["pause"],
                ["resume"],
                ["resume"],
                ["cleanup"],
                ["cleanup", "--dry-run"],
                ["doctor", "--repair"],
                ["doctor", "--reindex"],
                ["knowledge", "reindex", "--verbose"],
                ["knowledge", "cleanup"],
                ["knowledge", "document", "--output", str(house.folder / "pages"), "--force"],
            )
        )
    )


@step(4)
def knowledge(house: House, rng: Random) -> Output:
    """A person changes one entry."""
    entries = house.entries()
    if not entries:
        return house.command("knowledge", "list")
    _place, entry = rng.choice(entries)
    name = entry.key or entry.ref or str(entry.id)
    return house.command(
        "knowledge", rng.choice(("delete", "restore", "promote", "show")), "--", name
    )


@step(5)
def import_file(house: House, rng: Random) -> Output:
    """Memories of another program come in."""
    flags, name = written_file(house, rng)
    if rng.random() < 0.2:
        flags.append("--dry-run")
    return house.command("import", str(name), *flags, own=rng.random() < 0.1)


@step(2)
def add_trigger(house: House, rng: Random) -> Output:
    source = house.folder / "mother.js"
    source.write_text(rng.choice(texts.TRIGGERS), "utf-8")
    return house.command(
        "add-trigger", str(source), "--prompt", texts.sentence(rng).replace("\0", "")
    )


@step(3)
def own_export(house: House, rng: Random) -> Output:
    """What is exported is imported again, now or later."""
    name = house.folder / f"kept{rng.randrange(2)}.jsonl"
    if name.exists() and rng.random() < 0.5:
        return house.command("import", str(name))
    return house.command("export", str(name), "--force")


def _words_of(house: House, rng: Random) -> list[str]:
    """Words or ids that somebody may want to be forgotten."""
    words = ["Halloran", "披萨", "米酱", "ferry", "Berlin 1,180", "zzz", "4711", "🙂"]
    for room in house.conversations()[:3]:
        memories = house.memories(room)
        if memories:
            words.append(rng.choice(memories).id)
    return words
