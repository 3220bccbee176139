"""Rules of firing, and why a memory whose trigger fired did not come, in words for people: the sentences of tools,
commands and the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from languages import N_, _, joined, n_
from memory_server.lore.memory import USUAL_ORDER, FiringRules

if TYPE_CHECKING:
    from memory_server.kernel.recorded_recall import RecordedItem, RecordedLeftOut


FOR_GOOD = 100_000
"""Messages of a rule that no chat has: such a rule is for good."""


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


def rules_text(rules: FiringRules) -> str:
    """List the rules that are not as usual; empty if all are."""
    return joined(", ", rule_texts(rules))


def rule_texts(rules: FiringRules) -> Iterator[str]:
    """Yield a text for each rule that differs from the usual one."""
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
    """Yield a text for each rule on groups that differs from the usual one; none without a group."""
    group = rules.group
    if not group.names:
        return
    yield _("group {names}", ", ".join(group.names))
    if group.weight != USUAL_ORDER:
        yield _("weight {weight:g} in its group", group.weight)
    if group.overrides:
        yield _("goes before others of its group")


def _chat_texts(rules: FiringRules) -> Iterator[str]:
    """Yield a text for each rule that counts the messages of a chat: sticky, cooldown, delay,
    once."""
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


_REASONS = {
    "room": N_("no room left"),
    "same_text": N_("the same text came already"),
    "group": N_("another one of its group came"),
    "chance": N_("its probability was against it"),
    "cooldown": N_("it came a few messages ago"),
    "delay": N_("the chat is too short yet"),
    "once": N_("it came in this chat before"),
    "character": N_("it is for other characters"),
    "recursion": N_("it waits for a text of its book"),
}


def reason_text(reason: str) -> str:
    """Return the reason for which a memory was left out, in the reader's language."""
    return _(_REASONS[reason]) if reason in _REASONS else reason
