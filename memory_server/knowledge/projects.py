"""Projects: a note of the type project-tech belongs to a project, which is a place and not a name. Pure.

The key of a project is the URL of its repository (`github.com/acme/shop`), or the folder of it (`/home/ana/shop`; in a
store that several machines use with the machine's name, `laptop-5f3a9c:~/shop`), or a name that the user gave it
(`name:shop`). Before places were told apart, a note had the base name of a folder (`shop`) only. Such a note is moved
to its place once; if several folders have the name, its key becomes `?shop`, and it waits until a person says which
project it belongs to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

from memory_server.kernel.values import frozen

NAMED = "name:"
UNSETTLED = "?"
NO_PROJECT = ""
"""For the setting `knowledge.project`: no project, whatever the folder is."""


@frozen
class Project:
    """A project. `former_keys` are keys that only notes of this project can have; `names` are the names of its folder,
    which other folders may have too."""

    key: str
    former_keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def named_by_user(name: str) -> Project:
    """Return the project of the setting `knowledge.project`, whose notes had only its name before."""
    return Project(NAMED + name, former_keys=(name,))


_INNER_URL = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:/{1,2}|@", re.IGNORECASE)
"""The beginning of a URL within a path, as a mirror has it: `https://mirror/https://user:token@host/path`; servers make
one slash of two."""
_AFTER_PATH = re.compile(r"[?#;]")
_TOKEN = re.compile(r"[:@&=\\\x00-\x1f]|\b(gh[a-z]_|github_pat_|gl[a-z]{2,5}-|ATBB|ATCTT)\w{10}")
"""What a path of a repository does not have, and a user, password or token may: the marks of a URL, and how tokens of
GitHub, GitLab and Bitbucket begin ("About authentication to GitHub"; "Token overview" of GitLab; "API tokens" of
Bitbucket)."""


def path_without_secrets(path: str) -> str | None:
    """Remove what may be a password or token from the path of a repository's URL, also if it is percent-encoded. If the
    path holds a URL, as with a mirror, return the host and path of that URL behind `//`. Return None if no such path is
    left."""
    plain = path
    for _round in range(3):
        plain = unquote(plain)
    address = _AFTER_PATH.split(_INNER_URL.split(plain)[-1])[0]
    if _TOKEN.search(address):
        return None
    if _INNER_URL.search(plain):
        return f"//{address}"
    if _AFTER_PATH.search(plain):
        return address
    return path


def public_key(key: str) -> str | None:
    """Remove a password or token from the key of a project; an older version took it from the URL of a mirror. Return
    None if nothing can be kept. Keys that are not URLs, such as paths and names, stay."""
    host, _slash, path = key.partition("/")
    if "." not in host or not path or key.startswith((NAMED, UNSETTLED)):
        return key
    public_path = path_without_secrets(path)
    if public_path is None or public_path.startswith("//"):
        return public_path and public_path.removeprefix("//").removesuffix(".git")
    return f"{host}/{public_path}"


def unsettled(name: str) -> str:
    """Return the key of notes whose project is not settled, because several folders have this name."""
    return UNSETTLED + name


def is_bare_name(key: str) -> bool:
    """Return whether a key is only the name of a folder, as before projects had places."""
    return bool(key) and not re.search(r"[/\\:]", key) and not key.startswith(UNSETTLED)


def name_of(key: str) -> str:
    """Return the name of a project, which other projects may have too."""
    return _parts_of(key)[-1]


def shown_names(keys: Iterable[str]) -> Mapping[str, str]:
    """Return a name for each key: the fewest last parts of its path that tell it from the other
    keys, or the whole key if another one ends in it."""
    every = sorted({key for key in keys if key})
    parts = {key: _parts_of(key) for key in every}
    names = dict.fromkeys(every, "")
    unnamed = every
    length = 1

    # Names grow part by part, until each of them belongs to a single key.
    while unnamed:
        endings = {key: "/".join(parts[key][-length:]) for key in every}
        uses = Counter(endings.values())
        for key in unnamed:
            # Another key ends in this whole key, so only the whole key names it.
            if length > len(parts[key]):
                names[key] = key
            elif uses[endings[key]] == 1:
                names[key] = endings[key]

        unnamed = [key for key in unnamed if not names[key]]
        length += 1
    return names


def projects_taken(word: str, keys: Collection[str]) -> list[str]:
    """Return the keys whose notes a person takes by a word: notes that have only this name, and the project whose whole
    key it is. The name of another project is not enough to take its notes."""
    return [key for key in (unsettled(word), word) if key and key in keys]


def projects_meant(word: str, keys: Collection[str]) -> list[str]:
    """Return the keys that a person means by a word: the equal key, or all keys with this name or ending."""
    if word in keys:
        return [word]
    ending = _parts_of(word)
    return [key for key in sorted(keys) if key and _parts_of(key)[-len(ending) :] == ending]


def _parts_of(key: str) -> list[str]:
    """Return the parts of a project's key by which it is shown, without `.git`: the folders of its path, or the whole
    key if it is not a path."""
    if key.startswith(UNSETTLED):
        return [key.removeprefix(UNSETTLED)]
    parts = [part for part in re.split(r"[/\\]", key.removeprefix(NAMED)) if part]
    if not parts:
        return [key]
    parts[-1] = parts[-1].removesuffix(".git") or parts[-1]
    return parts
