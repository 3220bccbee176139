"""What the world does to a home: time, many of everything, other machines, tenants, editors and broken files."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from lived_in import texts
from lived_in.arguments import some_time
from lived_in.elsewhere import live_on_the_laptop
from lived_in.house import House, Output
from lived_in.life import step
from lived_in.older import damage, edit_by_hand

ZONES = ("Asia/Shanghai", "UTC", "America/St_Johns", "Pacific/Kiritimati", "Europe/London")


@step(4)
def many_exchanges(house: House, rng: Random) -> None:
    """A long evening of talk."""
    room = rng.choice(texts.ROOMS[:6])
    begin_ms = some_time(house, rng)
    for number in range(rng.randrange(5, 45)):
        at_ms = None
        if begin_ms is not None:
            at_ms = begin_ms + number * 60_000
        house.tool(
            "remember_turn", {"messages": texts.exchange(rng, at_ms), "conversation_id": room}
        )


@step(2)
def many_entries(house: House, rng: Random) -> None:
    """A model writes more entries of one family than a page shows."""
    tool, arguments = rng.choice(
        (
            ("remember", {"type": "domain"}),
            ("memory_add", {"user_id": rng.choice(texts.USERS), "mode": "direct"}),
            ("save_to_memory", {}),
            ("save_to_global_memory", {}),
            ("memoryAdd", {"namespace": rng.choice(("short-term", "long-term"))}),
            ("add_long_term_memory", {"prompt": "p", "trigger": rng.choice(texts.TRIGGERS[:3])}),
        )
    )
    names = {"remember": "topic", "memory_add": "", "memoryAdd": "", "add_long_term_memory": "name"}
    contents = {"memory_add": "messages", "add_long_term_memory": "prompt"}
    name = names.get(tool, "key")
    content = contents.get(tool, "content")
    for number in range(rng.randrange(25, 70)):
        entry = dict(arguments)
        if name:
            entry[name] = f"{rng.choice(texts.KEYS)} {number}"
        entry[content] = f"{texts.sentence(rng)[:3_000]} {number}"
        house.tool(tool, entry)


@step(2)
def far_times(house: House, rng: Random) -> None:
    """A clock or an import was wrong by centuries."""
    at_ms = rng.choice((-62_104_000_000_000, -1, 0, 1, 4_102_444_800_000, 253_370_764_800_000))
    house.tool(
        "remember_turn",
        {"messages": texts.exchange(rng, at_ms), "conversation_id": rng.choice(texts.ROOMS)},
    )


@step(1)
def many_rooms(house: House, rng: Random) -> None:
    """A group chat has a conversation for each of its members."""
    for number in range(rng.randrange(5, 50)):
        room = f"qq/user/{10_000 + number}"
        house.tool("remember_turn", {"messages": texts.exchange(rng), "conversation_id": room})


@step(5)
def time_passes(house: House, rng: Random) -> None:
    """Hours or months later everything is started again; at times a clock was set back, or far ahead."""
    hours = rng.choice((1, 7, 26, 100, 24 * 40, 24 * 200, -3, -24 * 30))
    changed: dict[str, Any] = {"now": house.now + timedelta(hours=hours)}
    if rng.random() < 0.3:
        changed["zone"] = rng.choice(ZONES)
    if rng.random() < 0.3:
        changed["language"] = rng.choice(("en", "zh"))
    changed["read_only"] = rng.random() < 0.08
    house.reopen(**changed)


@step(3)
def wrong_clock(house: House, rng: Random) -> None:
    """The clock of the machine is wrong by years for some talk and perhaps the daily work, and then right again."""
    right = house.now
    house.reopen(now=right + timedelta(days=rng.choice((-27 * 365, -400, 400, 10 * 365))))
    for _number in range(rng.randrange(1, 4)):
        room = rng.choice(texts.ROOMS)
        house.tool(
            "remember_turn", {"messages": texts.exchange(rng, None), "conversation_id": room}
        )
    if rng.random() < 0.4:
        upkeep(house, rng)
    house.reopen(now=right)


@step(1)
def upkeep(house: House, rng: Random) -> None:
    """The daily work is done."""
    if not house.read_only:
        house.run(house.app.maintenance.run_if_due())


@step(2)
def tenants(house: House, rng: Random) -> Output:
    """A tenant of the server gets a token, or memories."""
    name = rng.choice(("小明", "work", "ann"))
    kind = rng.random()
    if kind < 0.3:
        return house.command("tokens", "add", f"phone{rng.randrange(3)}", "--tenant", name)
    if kind < 0.5:
        return house.command(
            "tokens", "remove", f"phone{rng.randrange(3)}", *(["--erase", "--yes"] * (kind < 0.4))
        )
    return house.command("remember", "--tenant", name, "--", rng.choice(texts.SENTENCES), own=True)


@step(4)
def laptop(house: House, rng: Random) -> Output:
    """A person works on a linked machine."""
    return live_on_the_laptop(house, rng)


@step(3)
def edited_by_hand(house: House, rng: Random) -> None:
    """A person edits a file of a conversation, or it has records of an older program."""
    house.close()
    try:
        edit_by_hand(house.data, rng)
    finally:
        house.open()


@step(1)
def damaged(house: House, rng: Random) -> Output:
    """A crash, a full disk or a virus scanner leaves a file broken; somebody looks, and at times has it mended."""
    house.close()
    try:
        damage(house.data, rng)
    finally:
        house.open()
    house.command("list")
    if rng.random() < 0.5:
        return house.command("doctor", "--repair")
    return house.command("doctor")
