"""How many messages a trigger looks at, as far as its text says so."""

from __future__ import annotations

import pytest

from sandbox.javascript.literals import SCOPES, depth_of, given_by_a_hook


@pytest.mark.parametrize(
    ("trigger", "depth"),
    [
        ("match_keys(context.messages, ['a']) > 0", 4),
        ("match_keys(context.messages, ['a'], 'user', 8) >= 3", 8),
        ("match_keys(context.messages, ['a', /b, 99/], \"any\", 12 ) > 0 && match_keys(context, ['c'], 'user', 6)", 12),
        ("match_keys(context.messages, ['a'], 'user', 2)", 4),
        ("match_keys(context.messages, ['a'], 'user', 0)", None),
        ("match_keys_all(context.messages, ['a'], 'any', null)", None),
        ("context.messages.slice(-9).some(message => /x/.test(message.content))", 9),
        ("context.messages.at(-7)?.role === 'user'", 7),
        ("on_day(3, 12)", 4),
        ("true", 4),
    ],
)  # fmt: skip
def test_the_depth_of_a_trigger_is_the_greatest_that_it_names(
    trigger: str, depth: int | None
) -> None:
    assert depth_of(trigger) == depth


@pytest.mark.parametrize("scope", SCOPES)
def test_the_depth_after_each_scope_is_read(scope: str) -> None:
    assert depth_of(f"match_keys(context.messages, [/a/], '{scope}', 9)") == 9
    assert "scanned" in SCOPES


@pytest.mark.parametrize(
    ("depths", "given"), [([], 4), (["2"], 4), (["8", "20"], 20), (["80"], 50), (["5", "0"], 50)]
)
def test_a_hook_gives_as_many_messages_as_one_of_the_triggers_looks_at(
    depths: list[str], given: int
) -> None:
    triggers = [f"match_keys(context.messages, ['a'], 'any', {depth})" for depth in depths]
    assert given_by_a_hook(triggers) == given
