"""The state of a chat: sticky, cooldown, delay and once as in SillyTavern's timed effects, and taking it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from sample_memories import NOW, state_of, trigger

from memory_server.conversations.changes import ChatMoved, Commit, apply, taking_back
from memory_server.conversations.model import ConversationState
from memory_server.lore.chat_state import (
    MOST_CHATS,
    MOST_FIRINGS,
    Came,
    ChatState,
    ChatStep,
    Effect,
    Firing,
    advanced,
    firing_key,
    timed_effects_of,
)
from memory_server.lore.memory import PLAIN, FiringRules, TriggerRemoved, TriggerSet

KEY = "sword"


@dataclass(frozen=True)
class Line:
    """A chat by the numbers of its messages: whether the key is said at each of them (`x`) or not (`.`), and whether
    the memory comes (`#`) or not (`.`)."""

    rules: FiringRules
    messages: Sequence[int]
    key_is_said: str
    comes: str


def played(rules: FiringRules, messages: Sequence[int], key_is_said: str) -> str:
    """Where the memory comes in such a chat."""
    state = ChatState()
    moments = ""
    for count, fires in zip(messages, key_is_said, strict=True):
        timing = timed_effects_of(rules, state.firings.get(KEY), count)
        comes = not timing.holds_back and (fires == "x" or timing.is_sticky)
        memory = [Came(KEY, rules)]
        if comes:
            state = advanced(state, memory, [], messages=count, now_ms=NOW + count)
            moments += "#"
        else:
            state = advanced(state, [], memory, messages=count, now_ms=NOW + count)
            moments += "."
    return moments


ONE_TO_EIGHT = range(1, 9)
LINES = {
    "without rules it comes where it is said": Line(PLAIN, ONE_TO_EIGHT, "x.x...xx", "#.#...##"),
    "sticky: it stays for so many messages": Line(
        FiringRules(sticky=3), ONE_TO_EIGHT, "x.......", "###....."
    ),
    "sticky: said again while it stays makes it stay no longer": Line(
        FiringRules(sticky=3), ONE_TO_EIGHT, "x.x.....", "###....."
    ),
    "sticky: said after it begins anew": Line(
        FiringRules(sticky=3), ONE_TO_EIGHT, "x..x....", "######.."
    ),
    "cooldown: it does not come for so many messages": Line(
        FiringRules(cooldown=3), ONE_TO_EIGHT, "xxxxxxxx", "#..#..#."
    ),
    "cooldown begins at the end of sticky": Line(
        FiringRules(sticky=2, cooldown=3), ONE_TO_EIGHT, "xxxxxxxx", "##...##."
    ),
    "delay: not before the chat has so many": Line(
        FiringRules(delay=4), ONE_TO_EIGHT, "xxxxxxxx", "...#####"
    ),
    "once: in one message of the chat": Line(
        FiringRules(once=True), ONE_TO_EIGHT, "x.xxxxxx", "#......."
    ),
    "once: the same message again is the same": Line(
        FiringRules(once=True), (1, 1, 1, 2), "xxxx", "###."
    ),
    "once goes before sticky": Line(
        FiringRules(once=True, sticky=3), (1, 1, 2, 3, 4), "xx..x", "##..."
    ),
    "a swipe: a chat that did not get longer has no cooldown": Line(
        FiringRules(cooldown=5), (3, 3, 4, 3), "xxxx", "##.#"
    ),
    "a swipe: a chat that did not get longer has nothing sticky": Line(
        FiringRules(sticky=5), (3, 3, 4), "x..", "#.."
    ),
    "messages taken back end what began in them": Line(
        FiringRules(sticky=5), (3, 4, 2, 3), "x...", "##.."
    ),
    "protected: the cooldown after stickiness stays though the chat went back": Line(
        FiringRules(sticky=2, cooldown=4), (1, 2, 3, 2, 3, 6, 7), "x.xxxxx", "##....#"
    ),
    "messages that nobody searched count too": Line(
        FiringRules(sticky=2, cooldown=3), (1, 5, 7, 8), "xxxx", "#..#"
    ),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_memory_comes_in_a_chat_as_its_rules_say(line: Line) -> None:
    assert played(line.rules, line.messages, line.key_is_said) == line.comes


def test_delay_holds_back_what_is_sticky_too() -> None:
    rules = FiringRules(sticky=9, delay=4)
    sticky = Firing(2, NOW, sticky=Effect(2, 11))
    assert timed_effects_of(rules, sticky, 3).holds_back
    assert not timed_effects_of(rules, sticky, 4).holds_back


class TimedEffects:
    """SillyTavern's timed effects, written down a second time: metadata of a chat with one entry."""

    def __init__(self, sticky: int, cooldown: int) -> None:
        self.lengths = {"sticky": sticky, "cooldown": cooldown}
        self.metadata: dict[str, tuple[int, int, bool]] = {}

    def comes(self, count: int, *, fires: bool) -> bool:
        active: set[str] = set()
        for kind in ("sticky", "cooldown"):
            effect = self.metadata.get(kind)
            if effect is None:
                continue
            start, end, is_protected = effect
            if (count <= start and not is_protected) or not self.lengths[kind]:
                del self.metadata[kind]
            elif count >= end:
                del self.metadata[kind]
                if kind == "sticky" and self.lengths["cooldown"]:
                    self.metadata["cooldown"] = (count, count + self.lengths["cooldown"], True)
                    active.add("cooldown")
            else:
                active.add(kind)
        comes = "sticky" in active or (fires and "cooldown" not in active)
        if comes:
            for kind, length in self.lengths.items():
                if length and kind not in self.metadata:
                    self.metadata[kind] = (count, count + length, False)
        return comes


def test_two_thousand_chats_go_as_in_sillytavern() -> None:
    rng = Random(7)
    times_it_came = 0
    for _ in range(2_000):
        rules = FiringRules(sticky=rng.randrange(5), cooldown=rng.randrange(5))
        count = 0
        messages: list[int] = []
        for _step in range(12):
            count = max(1, count + rng.choice((0, 1, 1, 1, 2, -2)))
            messages.append(count)
        key_is_said = "".join(rng.choice("x.") for _ in messages)
        original = TimedEffects(rules.sticky, rules.cooldown)
        expected = ""
        for count, fires in zip(messages, key_is_said, strict=True):
            expected += "#" if original.comes(count, fires=fires == "x") else "."
        line = played(rules, messages, key_is_said)
        assert line == expected, (rules, messages, key_is_said)
        times_it_came += line.count("#")
    assert 4_000 < times_it_came < 20_000


def test_the_number_of_memories_of_a_chat_is_bounded_and_the_last_ones_stay() -> None:
    state = ChatState()
    many = [Came(str(number), FiringRules(cooldown=9)) for number in range(MOST_FIRINGS + 5)]
    state = advanced(state, many, [], messages=1, now_ms=NOW)
    assert len(state.firings) == MOST_FIRINGS
    assert "0" not in state.firings
    assert str(MOST_FIRINGS + 4) in state.firings


def test_the_number_of_chats_is_bounded_and_the_last_ones_stay() -> None:
    state = ConversationState("chat")
    for number in range(MOST_CHATS + 5):
        apply(state, [ChatMoved(f"s{number}", None, ChatState(1, NOW + number))])
    assert len(state.chats) == MOST_CHATS
    assert "s4" not in state.chats
    assert f"s{MOST_CHATS + 4}" in state.chats


def test_a_key_has_no_word_of_the_name_and_tells_conversations_apart() -> None:
    assert "Sword" not in firing_key("Sword", "chat")
    assert firing_key("Sword", "chat") != firing_key("Sword", "default")
    assert firing_key("Sword", "chat") == firing_key("Sword", "chat")


# --- taking back ----------------------------------------------------------------------------------------------

COOLING = FiringRules(cooldown=9)


def recalled(state: ConversationState, name: str, count: int) -> Commit:
    """A recall in which this memory came."""
    before = state.chats.get("s")
    memories = [Came(firing_key(name, "chat"), COOLING)]
    after = advanced(before or ChatState(), memories, [], messages=count, now_ms=NOW + count)
    change = ChatMoved.of("s", ChatStep.between(before, after))
    apply(state, [change])
    return Commit(count, NOW + count, "recall_turn", (change,))


def test_the_only_recall_of_a_chat_is_taken_back_whole() -> None:
    state = ConversationState("chat")
    commit = recalled(state, "a", 1)
    apply(state, taking_back(state, commit))
    assert state.chats == {}


def test_the_last_recall_is_taken_back_to_what_was_before() -> None:
    state = ConversationState("chat")
    recalled(state, "a", 1)
    before = dict(state.chats)
    apply(state, taking_back(state, recalled(state, "b", 2)))
    assert state.chats == before


def test_an_earlier_recall_is_taken_back_and_later_ones_stay() -> None:
    state = ConversationState("chat")
    first = recalled(state, "a", 1)
    recalled(state, "b", 2)
    apply(state, taking_back(state, first))
    assert set(state.chats["s"].firings) == {firing_key("b", "chat")}
    assert state.chats["s"].messages == 2


def test_what_came_again_later_stays() -> None:
    state = ConversationState("chat")
    first = recalled(state, "a", 1)
    recalled(state, "a", 20)
    firing = state.chats["s"].firings[firing_key("a", "chat")]
    assert firing.earlier_than(20) == (1, NOW + 1)
    with pytest.raises(Exception, match="Nothing of this change is left"):
        taking_back(state, first)
    assert state.chats["s"].firings[firing_key("a", "chat")] == firing


def test_taken_back_gives_the_former_firing() -> None:
    before = ChatState(1, NOW, {"a": Firing(1, NOW, cooldown=Effect(1, 3))})
    after = ChatState(5, NOW + 5, {"a": Firing(5, NOW + 5, before=(1, NOW))})
    now = replace(after, messages=6, firings={**after.firings, "b": Firing(6, NOW + 6)})
    undoing = ChatStep.between(before, after).taken_back(now)
    assert undoing is not None
    state = undoing.applied(now)
    assert state is not None
    assert state.firings == {"a": before.firings["a"], "b": Firing(6, NOW + 6)}
    assert state.messages == 6


def test_a_step_twice_is_the_same_as_once() -> None:
    before = ChatState(1, NOW, {"a": Firing(1, NOW)})
    after = ChatState(
        2, NOW + 1, {"a": Firing(2, NOW + 1, before=(1, NOW)), "b": Firing(2, NOW + 1)}
    )
    step = ChatStep.between(before, after)
    assert step.applied(before) == after
    assert step.applied(step.applied(before)) == after


def test_of_a_memory_that_is_gone_no_chat_knows_when_it_came() -> None:
    sword = trigger("a")
    state = state_of(sword)
    recalled(state, "a", 1)
    recalled(state, "b", 2)
    apply(state, [TriggerRemoved(sword)])
    assert set(state.chats["s"].firings) == {firing_key("b", "chat")}
    apply(state, [TriggerSet(sword, None)])
    assert firing_key("a", "chat") not in state.chats["s"].firings
