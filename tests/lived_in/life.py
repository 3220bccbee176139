"""A life: a list of steps, each the name of an event and the seed of its choices; so it can be cut and replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from lived_in.house import House, Output

Act = Callable[[House, Random], Output | None]
STEPS: dict[str, Act] = {}
WEIGHTS: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a life."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}:{self.seed}"

    def take(self, house: House) -> Output | None:
        return STEPS[self.name](house, Random(f"{self.name} {self.seed}"))


def step(weight: int) -> Callable[[Act], Act]:
    """Registers what happens in a step; of two steps, the one with twice the weight comes twice as often."""

    def registered(act: Act) -> Act:
        STEPS[act.__name__] = act
        WEIGHTS[act.__name__] = weight
        return act

    return registered


def random_life(rng: Random, length: int) -> list[Step]:
    names = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return [Step(name, rng.randrange(100_000)) for name in names]


def life_of_every_kind(rng: Random) -> list[Step]:
    """A life with one step of each kind: a short one that is drawn by weight has few of the rare ones."""
    names = rng.sample(list(WEIGHTS), len(WEIGHTS))
    return [Step(name, rng.randrange(100_000)) for name in names]


def steps_of(text: str) -> list[Step]:
    """The steps that a failing run printed."""
    pairs = [word.rpartition(":") for word in text.split()]
    return [Step(name, int(seed)) for name, _colon, seed in pairs]
