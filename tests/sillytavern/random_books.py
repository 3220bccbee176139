"""Small lorebooks of several fields, by chance."""

from __future__ import annotations

from random import Random
from typing import Any

from sillytavern.entries import (
    LONG,
    Json,
    entry,
    job,
)
from sillytavern.lore_jobs import Job

_SPOKEN = ("lantern", "mill", "boat", "fog", "amber", "oak", "rain", "Ann", "north")
_KEYS = (*_SPOKEN, "the mill", "/boat|fog/", r"/oak[\s\S]*rain/", "Oak", "am")
_ODD_KEYS = ("<user>", "")
"""SillyTavern counts these in a group as they are written, and finds an empty one everywhere."""


def random_job(seed: int) -> Job:
    """A small book of several fields, with a chat, its settings and sometimes little room. What differs on purpose is
    left out: chance, ties in the draw of a group, two groups of one entry, a cooldown in a group, several levels without
    recursion, and levels of entries that never come."""
    random = Random(seed)
    is_recursive = random.random() < 0.7
    deepest_level = 3 if is_recursive else 1
    entries = [_random_entry(random, uid, deepest_level) for uid in range(random.randint(2, 8))]
    texts = [" ".join(random.choices(_SPOKEN, k=random.randint(0, 3))) or "-" for _ in range(12)]
    scans = sorted(random.sample(range(1, 13), 6))
    if random.random() < 0.2:
        scans.insert(3, scans[1])  # somebody went back in the chat
    settings = {
        "world_info_depth": random.randint(1, 4),
        "world_info_include_names": random.random() < 0.8,
        "world_info_recursive": is_recursive,
        "world_info_case_sensitive": random.random() < 0.2,
        "world_info_match_whole_words": random.random() < 0.8,
        "world_info_use_group_scoring": random.random() < 0.2,
        "world_info_max_recursion_steps": random.choice((0, 0, 0, 1, 2, 3)),
    }
    room = random.choice((50_000, 50_000, 2_400, 3_000))
    return job(f"random {seed}", entries, *texts, scans=scans, settings=settings, room=room)


def _random_entry(random: Random, uid: int, deepest_level: int) -> Json:
    def often(value: Any, usual: Any = None, chance: float = 0.25) -> Any:
        return value if random.random() < chance else usual

    said = " ".join(random.sample(_SPOKEN, random.randint(0, 2)))
    group = often(random.choice("gh"), "")
    possible_keys = _KEYS if group else (*_KEYS, *_ODD_KEYS)
    keys = random.sample(possible_keys, random.randint(0, 3))
    depth = often(random.randint(0, 6))
    is_off = often(True, False, 0.05)
    never_comes = is_off or depth == 0 or not any(keys)
    level = often(random.randint(1, deepest_level), 0, 0.2)
    return entry(
        uid,
        *keys,
        text=f"Text {uid} {said}." + often(LONG[: random.randint(50, 330)], "", 0.6),
        constant=often(True, False, 0.15),
        keysecondary=often(random.sample(possible_keys, random.randint(1, 2)), [], 0.35),
        selectiveLogic=random.randrange(4),
        selective=often(False, True, 0.1),
        order=random.choice((1, 50, 100, 100, 200, 0)) if not group else uid,
        group=group,
        groupOverride=bool(group),  # without it the draw decides
        useGroupScoring=often(random.random() < 0.8),
        scanDepth=depth,
        caseSensitive=often(random.random() < 0.5),
        matchWholeWords=often(random.random() < 0.5),
        sticky=often(random.randint(1, 4)),
        cooldown=None if group else often(random.randint(1, 4)),
        delay=often(random.randint(1, 6), None, 0.1),
        excludeRecursion=often(True, False, 0.15),
        preventRecursion=often(True, False, 0.15),
        delayUntilRecursion=0 if never_comes else level,
        disable=is_off,
    )
