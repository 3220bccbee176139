"""Rules of firing, and why a memory whose trigger fired did not come, in words for people: the sentences of tools,
commands and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from languages import _, joined, n_
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import one_line
from memory_server.lore.reasons import reason_text
from memory_server.lore.rules import USUAL_ORDER, FiringRules

if TYPE_CHECKING:
    from memory_server.kernel.recorded_recall import RecordedItem, RecordedLeftOut

ROOM = "room"
"""The reason of memories for which no room was left."""
FOR_GOOD = 100_000
"""Messages of a rule that no chat has: such a rule is for good."""
_MOST_NAMED = 3
"""Names in a sentence about memories, at most."""


def left_out_text(left_out: RecordedLeftOut) -> str:
    """Describe why a memory of the record of recalls was left out, and how long it is, if that is known."""
    reason = reason_text(left_out.reason)
    if not left_out.chars:
        return reason
    return _("{reason} ({chars})", reason, length_text(left_out.chars))


def length_text(chars: int) -> str:
    """Describe how long a text is."""
    return n_("{count:,} character", "{count:,} characters", chars)


def trigger_text(item: RecordedItem) -> str:
    """Describe how long the text of a trigger is that came, its order, and whether it was cut, as far as that is known."""
    parts = [length_text(item.chars)] if item.chars else []
    if item.order is not None:
        parts.append(_("order {order:g}", item.order))
    if item.is_cut:
        parts.append(_("cut, because there was no room for all of it"))
    return joined(", ", parts)


def no_room_text(names: Sequence[str]) -> str:
    """Describe how many memories were left out because no room was left, and what gives more room; empty if none was."""
    if not names:
        return ""
    shown = ", ".join(map(one_line, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        shown += ", …"
    return n_(
        "{count} memory was left out, because no room was left ({names}); {setting} gives more.",
        "{count} memories were left out, because no room was left ({names}); {setting} gives more.",
        len(names),
        shown,
        way("`maxChars`", "--chars"),
    )


def rules_text(rules: FiringRules) -> str:
    """List the rules that are not as usual; empty if all are."""
    return joined(", ", rule_texts(rules))


def rule_texts(rules: FiringRules) -> Iterator[str]:
    """Yield each rule that is not as usual."""
    if rules.order != USUAL_ORDER:
        yield _("order {order:g}", rules.order)
    yield from _group_texts(rules)

    if rules.probability != 100:
        yield _("comes in {probability:g} % of all cases", rules.probability)
    yield from _chat_texts(rules)

    if rules.ignores_budget:
        yield _("ignores the room of the others")
    if rules.recursion.level:
        yield _("waits for a text of its book")

    if rules.characters.names:
        names = ", ".join(rules.characters.names)
        yield (
            _("not for {names}", names)
            if rules.characters.is_exclude
            else _("only for {names}", names)
        )

    if rules.by_words:
        yield _("found by its words")
    if rules.is_off:
        yield _("switched off")


def _group_texts(rules: FiringRules) -> Iterator[str]:
    group = rules.group
    if not group.names:
        return
    yield _("group {names}", ", ".join(group.names))
    if group.weight != USUAL_ORDER:
        yield _("weight {weight:g} in its group", group.weight)
    if group.overrides:
        yield _("goes before others of its group")


def _chat_texts(rules: FiringRules) -> Iterator[str]:
    """Yield the rules that count the messages of a chat."""
    if rules.sticky >= FOR_GOOD:
        yield _("stays once it came")
    elif rules.sticky:
        yield n_(
            "stays for {count} message in all", "stays for {count} messages in all", rules.sticky
        )

    # After stickiness, the memory stays away from its end on, and not from when it came.
    if rules.cooldown and rules.sticky:
        yield n_("then not for {count} message", "then not for {count} messages", rules.cooldown)
    elif rules.cooldown:
        yield n_(
            "comes again {count} message later at the earliest",
            "comes again {count} messages later at the earliest",
            rules.cooldown,
        )

    if rules.delay:
        yield n_(
            "from {count} message of the chat on",
            "from {count} messages of the chat on",
            rules.delay,
        )

    if rules.once:
        yield _("once in a chat")
