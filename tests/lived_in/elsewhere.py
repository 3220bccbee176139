"""The same home elsewhere: on a linked machine, and as a copy in another folder or in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from lived_in import texts
from lived_in.events import event_of_a_client
from lived_in.house import House, Output
from postgres import postgres, tenant_of_its_own

from memory_server.storage.link_files import Outbox

SAME = (
    ("list", "--json", "--limit", "1000"),
    ("list", "--archived", "--json", "--limit", "1000"),
    ("history", "--json", "--limit", "500"),
    ("recalls", "--json", "-n", "500"),
    *(
        ("list", "--family", family, "--json", "--limit", "1000")
        for family in ("memories", "triggers", "notes", "refs")
    ),
)
"""What says the same of a copy."""
LINKED = (
    *(
        ("list",),
        ("list", "--json"),
        ("list", "--archived", "--json"),
        ("history",),
        ("history", "--json"),
    ),
    *(
        ("recalls",),
        ("recalls", "--json"),
        ("search", "披萨"),
        ("search", "cat", "--json"),
        ("where",),
    ),
    *(
        ("explain", "--ask", "cat"),
        ("explain", "--ask", "披萨", "--json"),
        ("where", "--json"),
        ("show", "zz"),
    ),
)
"""Commands that look, on a linked machine."""


def is_linked(house: House) -> bool:
    return (house.laptop / ".memory-server" / "link.json").is_file()


def live_on_the_laptop(house: House, rng: Random) -> Output:
    """A person links another machine, works there, and ends the link."""
    house.serve()
    kind = rng.random()
    if not is_linked(house) and kind < 0.7:
        house.laptop.parent.mkdir(exist_ok=True)
        token_file = house.laptop.parent / "token"
        token_file.write_text(house.token)
        token_file.chmod(0o600)
        return house.on_the_laptop(
            "link", f"http://127.0.0.1:{house.port}", "--token-file", str(token_file)
        )
    if kind < 0.1:
        return house.on_the_laptop("unlink")
    if kind < 0.5:
        event = event_of_a_client(house, rng)
        return house.on_the_laptop("hook", "--seconds", "60", stdin=json.dumps(event).encode())
    if kind < 0.75:
        return house.on_the_laptop("remember", stdin=json.dumps(texts.exchange(rng)).encode())
    if kind < 0.8:
        return house.on_the_laptop("link", "--send", "--yes")
    if kind < 0.85 and is_linked(house):
        return _sent_again(house, rng)
    changes = house.changes()
    if changes and kind < 0.9:
        return house.on_the_laptop("undo", rng.choice(changes).id)
    return house.on_the_laptop("forget", "ferry", "--yes")


def _sent_again(house: House, rng: Random) -> Output:
    """A turn was refused once, and a person sends it again."""
    messages = texts.exchange(rng)
    turn_id = f"refused {rng.randrange(1_000_000)}"
    outbox = Outbox(house.laptop)
    body = {"messages": messages, "turn_id": turn_id, "session": "s"}
    outbox.refuse(
        outbox.add({"path": "/v1/remember_turn", "headers": {}, "body": body}),
        "it was refused once",
    )
    return house.on_the_laptop("link", "--retry-refused")


def faults_of_the_laptop(house: House) -> Iterator[str]:
    """What a linked machine says otherwise than the home."""
    if not is_linked(house) or house.rest is None:
        return
    for words in (("list", "--json"), ("list", "--archived", "--json")):
        here = house.command(*words, "--limit", "1000")
        there = house.on_the_laptop(*words, "--limit", "1000")
        text_here = _without_layers(here.text)
        text_there = _without_layers(there.text)
        if text_here != text_there:
            yield f"{' '.join(words)} on a linked machine: {_first_difference(text_here, text_there)} {there.errors}"


def _without_layers(text: str) -> str:
    """Layers are files of the project in which the home is asked; the server has no project."""
    return "\n".join(line for line in text.split("\n") if '"place":"layers/' not in line)


def faults_of_copies(house: House) -> Iterator[str]:
    """What a copy of the home says otherwise."""
    if house.read_only:
        return
    yield from _of_a_copy(house, str(house.folder / "copy"))
    if house.app.home.tenant_names():
        return  # the database of a test is a tenant, which has none of its own
    try:
        postgres()
    except pytest.skip.Exception:
        return
    with tenant_of_its_own() as (_database, tenant):
        yield from _of_a_copy(house, f"{postgres()}#{tenant}")


def _of_a_copy(house: House, store: str) -> Iterator[str]:
    kind = store.partition("://")[0]
    copied = house.command("copy", "--to", store, own=True)
    if copied.status != 0:
        yield f"a copy to {kind}: {copied.text} {copied.errors}"
        return
    for words in SAME:
        here = house.command(*words)
        there = house.command(*words, store=store)
        if here.text != there.text:
            yield f"{' '.join(words)} of a copy in {kind}: {_first_difference(here.text, there.text)} {there.errors}"


def _first_difference(here: str, there: str) -> str:
    for mine, theirs in zip(here.split("\n"), there.split("\n"), strict=False):
        if mine != theirs:
            return f"here {mine[:400]}, there {theirs[:400]}"
    return f"here {here.count(chr(10))} lines, there {there.count(chr(10))}"
