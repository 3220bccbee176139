"""What is true now, in a home with clocks that move: plans that come on their day, and memories that correct others."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from lived_in import texts
from lived_in.house import House
from lived_in.life import step

from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.kernel.times import local, milliseconds
from memory_server.tools.base.tool import ToolFailed

_ROOM = "what is true now"


@step(3)
def plan(house: House, rng: Random) -> None:
    """Somebody tells a plan, and talks again before its day, on it and after it; the clock may be set back."""
    days = rng.choice((2, 3, 6))
    name = f"museum {rng.randrange(1_000_000)}"
    text = rng.choice(texts.TRUE_NOW[:2]).format(days=days, name=name)
    right = house.now
    day = _today(house) + timedelta(days=days)
    if _say(house, text) is None:
        return
    may_show = house.app.paused() is None
    try:
        house.reopen(now=right + timedelta(days=days - 1))
        assert not _shown(house, name), "the day before its day"

        house.reopen(now=right + timedelta(days=days))
        if _today(house) != day:
            return  # a clock was put forward or back meanwhile
        fate = rng.choice(("comes", "comes", "muted", "forgotten"))
        ids = [memory.id for memory in house.memories(_ROOM) if name in memory.text]
        if fate == "muted":
            house.command("mute", "--everywhere", "-c", _ROOM, *ids)
        elif fate == "forgotten":
            house.tool("forget", {"ids": ids, "conversation_id": _ROOM, "confirm": True})
        gone = fate == "forgotten" and not any(name in m.text for m in house.memories(_ROOM))
        muted = fate == "muted" and all(m.muted for m in house.memories(_ROOM) if m.id in ids)
        shown = _shown(house, name)
        assert shown == (may_show and not gone and not muted and not house.read_only), fate
        assert not _shown(house, name), "a second time"

        house.reopen(now=right + timedelta(days=days + rng.choice((-1, 1, 40))))
        assert not _shown(house, name), "on another day"
    finally:
        house.reopen(now=right)


@step(3)
def correction(house: House, rng: Random) -> None:
    """A model says that something is no longer so, or a rule finds it; a person may say that both are true, or forget
    the newer one."""
    number = rng.randrange(1_000_000)
    now_ms = milliseconds(house.now)
    is_found = rng.random() < 0.5
    pair = texts.TRUE_NOW[5:7] if is_found else texts.TRUE_NOW[2:4]
    older_text, newer_text = (text.format(number=number) for text in pair)
    older = _say(house, older_text, now_ms - 3 * 86_400_000)
    if older is None:
        return
    named = {} if is_found else {"corrects": [older]}
    newer = _say(house, newer_text, now_ms - 86_400_000, **named)
    if newer is None:
        return
    assert _corrects(house, older)
    asked = {"recentMessages": [{"role": "user", "content": f"Where is my locker {number}?"}]}
    answer = house.tool(
        "search_short_term_memories", {**asked, "conversation_id": _ROOM, "reinforce": False}
    )
    if not isinstance(answer, ToolFailed):
        tiers = answer.structured
        came = [item["id"] for item in (*tiers["topRelevant"], *tiers["nextRelevant"])]
        assert older not in came

    fate = rng.choice(("stays", "both are true", "forgotten", "erased"))
    if fate == "both are true":
        house.post(f"/do/keep_both?{urlencode({'c': _ROOM})}", {"id": newer})
    elif fate != "stays":
        for_good = ["--for-good"] if fate == "erased" else []
        house.command("forget", newer, "--yes", *for_good)
    if fate in ("forgotten", "erased") and any(m.id == newer for m in house.memories(_ROOM)):
        return  # it could not be forgotten
    assert _corrects(house, older) == (fate == "stays"), fate


def _today(house: House) -> date:
    return local(milliseconds(house.now), ZoneInfo(house.zone)).date()


def _say(house: House, text: str, at_ms: int | None = None, **more: object) -> str | None:
    """Tell a turn; the id of its memory, or None if nothing is kept."""
    message = {"role": "user", "content": text, **({} if at_ms is None else {"timestamp": at_ms})}
    answer = house.tool("remember_turn", {"messages": [message], "conversation_id": _ROOM, **more})
    if isinstance(answer, ToolFailed):
        return None
    memory_id: str | None = answer.structured.get("id")
    return memory_id


def _shown(house: House, name: str) -> bool:
    """Whether a turn that has nothing to do with a plan is shown it."""
    turn = {"messages": [{"role": "user", "content": "hm"}], "conversation_id": _ROOM}
    answer = house.tool("recall_turn", turn)
    if isinstance(answer, ToolFailed):
        return False
    lines = answer.structured["prompt"].splitlines()
    return any(name in line and line.startswith(("Today: ", "今天：")) for line in lines)


def _corrects(house: House, older: str) -> bool:
    """Whether a memory says otherwise than this one."""
    return older in newer_by_older(house.memories(_ROOM))
