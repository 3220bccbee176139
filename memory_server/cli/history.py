"""Show who changed what and when, newest first (`history`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from memory_server.cli.families import limit_of
from memory_server.cli.inspection import named_conversation
from memory_server.cli.terminal import hint, print_plain, say
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import OF_CONVERSATIONS
from memory_server.kernel.lifecycle import (
    USUAL_STEPS,
    Kept,
    Lifecycle,
    PastChange,
    engine_of,
    newest_first,
)
from memory_server.kernel.streams import write
from memory_server.kernel.times import iso
from memory_server.operations.whereabouts import whereabouts
from memory_server.runtime.app import CallerView
from memory_server.tools.archive import HistoryEntry
from memory_server.tools.base.result import SHOWN_ZONE


def engines_of(
    view: CallerView, flags: Namespace, keeps: Kept | None = None
) -> Sequence[Lifecycle]:
    """Choose the engines whose changes are meant. `-c` means conversations, `--family` the engine of that family, and
    otherwise `keeps` says it; `--before` keeps only the engine of that change. Raises InvalidInput if the family has
    no history."""
    engines: Sequence[Lifecycle] = view.memories.engines
    if getattr(flags, "before", None) is not None:
        engines = [engine_of(engines, flags.before)]

    if flags.family == "layers":
        raise InvalidInput(
            "memory-server keeps no history of layer files; if they are in a repository, git does."
        )

    if hasattr(flags, "conversation") or flags.family in OF_CONVERSATIONS:
        keeps = "conversations"
    elif flags.family is not None:
        keeps = "knowledge"
    if keeps is None:
        return engines
    return [engine for engine in engines if engine.keeps == keeps]


async def past_changes(
    engines: Sequence[Lifecycle],
    flags: Namespace,
    conversation: str | None,
    *,
    now_ms: int,
    limit: int,
    most_steps: int,
) -> list[PastChange]:
    """Return the newest changes of these engines first, each with at most `most_steps` of its steps. `limit` counts
    for each engine, or with a family for each of its places. `now_ms` is the present."""
    sequences: list[Sequence[PastChange]] = []
    before = getattr(flags, "before", None)

    for engine in engines:
        places: Sequence[str | None] = [conversation]
        if flags.family is not None and engine.keeps == "knowledge":
            # Only the places of this family, because the engine keeps several families.
            places = [
                name for name in await engine.places() if name.partition("/")[0] == flags.family
            ]

        for name in places:
            changes = await engine.history(name, before=before, limit=limit, most_steps=most_steps)
            if engine.keeps == "conversations":
                sequences += _by_place(changes)
            else:
                sequences.append(changes)
    return newest_first(sequences, now_ms)


def _by_place(changes: Sequence[PastChange]) -> Iterable[Sequence[PastChange]]:
    by_place: dict[str, list[PastChange]] = {}
    for change in changes:
        by_place.setdefault(change.place, []).append(change)
    return by_place.values()


async def history(view: CallerView, flags: Namespace, keeps: Kept | None = None) -> None:
    """Show the changes of all engines, or of the engine that `keeps` names. Raises InvalidInput if
    a family has no history, or --limit is below 1."""
    limit = limit_of(flags, 20)
    most_steps = USUAL_STEPS
    if flags.steps is not None:
        most_steps = max(1, flags.steps)
    only = await named_conversation(view, flags)

    engines = engines_of(view, flags, keeps)
    changes = await past_changes(
        engines, flags, only, now_ms=view.clock(), limit=limit + 1, most_steps=most_steps
    )

    # One more change than shown was read, to know whether there are more.
    shown = changes[:limit]
    if flags.json:
        for change in shown:
            write(_change_json(change))
        return

    SHOWN_ZONE.set(view.zone)
    # Each conversation has its own sequence of changes; all knowledge shares one sequence.
    places_total = 1
    sequences = 1
    if flags.before is None and only is None:
        places = {engine.keeps: await engine.places() for engine in engines}
        places_total = sum(map(len, places.values()))
        sequences = len(places.get("conversations", ())) + bool(places.get("knowledge"))

    for change in shown:
        shown_place = ""
        if places_total > 1:
            shown_place = change.place
        print_plain(HistoryEntry.of(change).line(shown_place))

    if any(change.more_steps for change in shown):
        hint("A larger --steps shows more steps of a change.")
    if not changes:
        say("The history has no changes; {whereabouts}", await whereabouts(view))

    # `--before` continues one sequence of changes only.
    elif len(changes) > limit:
        if sequences == 1:
            hint("More: --before {last}", changes[limit - 1].id)
        else:
            hint("More: -c ID, or a larger --limit")


def _change_json(change: PastChange) -> dict[str, Any]:
    line: dict[str, Any] = {
        "change": change.id,
        "place": change.place,
        "at": iso(change.at_ms),
        "by": change.by,
        "steps": [asdict(step) for step in change.steps],
    }
    if change.more_steps:
        line["moreSteps"] = change.more_steps
    return line
