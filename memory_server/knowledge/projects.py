"""Projects: a note of the type project-tech belongs to one, which is a place and not a name. Pure.

The key of a project is the URL of its repository (`github.com/acme/shop`), or the folder of it (`/home/ana/shop`; in a
store that several machines use with the machine's name, `laptop-5f3a9c:~/shop`), or a name that the user gave it
(`name:shop`). Before places were told apart, a note had the base name of a folder (`shop`) only. Such a note is moved
to its place once; if several folders have the name, its key becomes `?shop`, and it waits until somebody says whose it
is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from memory_server.kernel.values import dataclass

NAMED = "name:"
UNSETTLED = "?"
NO_PROJECT = ""
"""For the setting `knowledge.project`: no project, whatever the folder is."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `former_keys`: those that only notes of this project can have; `names`: those of its folder, which
    other folders may have too."""

    key: str
    former_keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def named_by_user(name: str) -> Project:
    """The project of the setting `knowledge.project`, whose notes had its name alone before."""
    return Project(NAMED + name, former_keys=(name,))


def unsettled(name: str) -> str:
    """The key of notes of one of several folders of this name."""
    return UNSETTLED + name


def is_bare_name(key: str) -> bool:
    """Whether a key is nothing but the name of a folder, as before places were told apart."""
    return bool(key) and not re.search(r"[/\\:]", key) and not key.startswith(UNSETTLED)


def name_of(key: str) -> str:
    """The name of a project, which others may have too."""
    return _parts_of(key)[-1]


def shown_names(keys: Iterable[str]) -> Mapping[str, str]:
    """A name for each key: as many of the last parts of it as tell it from the others."""
    every = sorted({key for key in keys if key})
    parts = {key: _parts_of(key) for key in every}
    names = dict.fromkeys(every, "")
    unnamed = every
    length = 1
    while unnamed:
        endings = {key: "/".join(parts[key][-length:]) for key in every}
        uses = Counter(endings.values())
        for key in unnamed:
            if length > len(parts[key]):
                names[key] = key
            elif uses[endings[key]] == 1:
                names[key] = endings[key]
        unnamed = [key for key in unnamed if not names[key]]
        length += 1
    return names


def projects_taken(word: str, keys: Collection[str]) -> list[str]:
    """The keys whose notes a person takes by a word: those of notes that have nothing but this name, else the project
    whose whole key it is. The name of another project is not enough to take its notes away."""
    return [key for key in (unsettled(word), word) if key and key in keys]


def projects_meant(word: str, keys: Collection[str]) -> list[str]:
    """The keys that a person means by a word: the one that is it, else all that have it as their name or ending."""
    if word in keys:
        return [word]
    ending = _parts_of(word)
    return [key for key in sorted(keys) if key and _parts_of(key)[-len(ending) :] == ending]


def _parts_of(key: str) -> list[str]:
    if key.startswith(UNSETTLED):
        return [key.removeprefix(UNSETTLED)]
    parts = [part for part in re.split(r"[/\\]", key.removeprefix(NAMED)) if part]
    if not parts:
        return [key]
    parts[-1] = parts[-1].removesuffix(".git") or parts[-1]
    return parts
