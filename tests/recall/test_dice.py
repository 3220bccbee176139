"""Dice of macros: each face comes, none outside, and the same place in the same chat rolls the same."""

from __future__ import annotations

from collections import Counter

from memory_server.lore.macros import _rolled, _share

SEEDS = 3_000


def test_shares_lie_evenly_from_0_to_below_1() -> None:
    shares = [_share("seed", number) for number in range(SEEDS)]
    assert all(0 <= share < 1 for share in shares)
    tenths = Counter(int(share * 10) for share in shares)
    assert set(tenths) == set(range(10))
    assert min(tenths.values()) > SEEDS / 10 * 0.8
    assert _share("seed", 1, 2) != _share("seed", 12)


def test_every_face_of_a_die_comes_and_no_other() -> None:
    rolls = Counter(
        _rolled("d6", lambda _number, seed=seed: _share("seed", seed)) for seed in range(SEEDS)
    )
    assert set(rolls) == {"1", "2", "3", "4", "5", "6"}
    assert min(rolls.values()) > SEEDS / 6 * 0.8


def test_the_sum_of_dice_has_its_addend() -> None:
    assert _rolled("2d6+1", lambda _number: 0.0) == "3"
    assert _rolled("2d6+1", lambda _number: 0.999) == "13"
    assert _rolled("6", lambda _number: 0.999) == "6"
    assert _rolled("0d6", lambda _number: 0.0) is None
