"""Who is meant by a call of the toolset `sessions`: user, agent and run, each from the first source that has it. Pure.

docs/how-to/memory-for-several-users.md has the table of sources. One rule holds for ids from all of them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.nesting import DEEPEST, deeper, size

Source = Literal["argument", "header", "session", "setting"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""From the one that counts first."""
FIELDS = ("user_id", "agent_id", "run_id")
EVERY = "*"
"""As agent or run: those of all agents or runs of the user, for reading only."""
MAX_ID_CHARS, MAX_HEADER_CHARS = 100, 4_096
MAX_METADATA_CHARS = 4_096
"""Characters of the metadata of a session."""
_LIKE_NOTHING = re.compile("[^\\S ]|\u2800|(?<=[A-Za-z])[\u200c\u200d\ufe0e\ufe0f]")
"""Other spaces than the usual one, and joiners that emoji need but Latin letters do not."""
METADATA_HEADER = "x-memory-session-metadata"
HEADERS = {f"x-memory-{name.replace('_', '-')}": name for name in FIELDS}


@dataclass(frozen=True, slots=True)
class Identity:
    """What one source says; None: nothing."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


NOBODY = Identity()


@dataclass(slots=True)
class Begun:
    """A session that has begun: what `memory_init_session` said in it, and the headers of its `initialize`."""

    said: Identity = NOBODY
    headers: Identity = NOBODY


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """How a call came: what the headers of its request say, whether it belongs to a session, and to which; None: to
    that of the process, as over standard input."""

    headers: Identity = NOBODY
    lasts: bool = True
    begun: Begun | None = None

    @property
    def header_ids(self) -> Identity:
        """What the headers say: those of the request, and where it names no other user, those with which its session
        began."""
        first = NOBODY if self.begun is None else self.begun.headers
        if self.headers.user_id not in (None, first.user_id):
            return self.headers
        values = {name: getattr(self.headers, name) or getattr(first, name) for name in Identity.__slots__}
        return Identity(**values)


@dataclass(frozen=True, slots=True)
class SessionIds:
    """Who is meant. `agent_id` and `run_id` None: memories of no certain agent or run are written, those of all are
    read. `sources` says where each id comes from, `overridden` which of them replace another one that the headers or
    the session have."""

    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    sources: Mapping[str, Source] = field(default_factory=lambda: NOTHING)
    overridden: tuple[str, ...] = ()

    @property
    def ids(self) -> dict[str, str]:
        """The ids that are set."""
        given = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in given.items() if value is not None}


STDIO, HTTP = RequestInfo(), RequestInfo(lasts=False)


def named(
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Identity:
    """What a source says, checked; None is not given.

    Raises:
        InvalidInput: an id is empty or cannot be used, or the metadata cannot.
    """
    given = zip(FIELDS, (user_id, agent_id, run_id), strict=True)
    ids = {name: checked_id(value, name) for name, value in given if value is not None}
    held = dict(metadata or {})
    if deeper(held) or size(held) > MAX_METADATA_CHARS:
        raise InvalidInput(
            "The metadata has at most {metadata:,} characters and {deepest} levels; shorten it.",
            MAX_METADATA_CHARS,
            DEEPEST,
        )
    return Identity(**ids, metadata=held)


def checked_id(text: str, what: str) -> str:
    """`text` as an id, in NFC.

    Raises:
        InvalidInput: it is empty or too long, or has characters that nobody sees, by which two ids could look the same.
    """
    if not text or text.isspace():
        raise InvalidInput("The {what} is empty; give a name, or leave it out.", what)
    # Imported at first use: settings have ids too, and most processes need none of it.
    from memory_server.kernel.recalled_block import UNSEEN

    normal = unicodedata.normalize("NFC", text)
    if len(normal) > MAX_ID_CHARS:
        raise InvalidInput("The {what} has {normal} characters; use at most {id}.", what, len(normal), MAX_ID_CHARS)
    hidden = any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp", "Cn", "Co") for char in normal)
    if hidden or UNSEEN.search(normal) or _LIKE_NOTHING.search(normal) or normal != normal.strip():
        raise InvalidInput(
            "The {what} holds characters that cannot be seen, or spaces around it; use visible ones.", what
        )
    if what == "user_id" and normal == EVERY:
        raise InvalidInput("`*` is not a user; name one, since no call looks at the memories of several users.")
    return normal


def from_headers(headers: Iterable[tuple[str, str]]) -> Identity:
    """What the headers of a request say: `X-Memory-User-ID`, `-Agent-ID`, `-Run-ID` as percent-decoded UTF-8, and
    `-Session-Metadata` as a JSON object.

    Raises:
        InvalidInput: one of them cannot be used, or comes twice; the request must be refused with this sentence.
    """
    from urllib.parse import unquote_to_bytes

    found: dict[str, str] = {}
    for given, value in headers:
        name = given.lower()
        if name not in HEADERS and name != METADATA_HEADER:
            continue
        if name in found:
            raise InvalidInput("The header {name} comes twice; send it once.", name)
        if len(value) > MAX_HEADER_CHARS:
            raise InvalidInput(
                "The header {name} has more than {header:,} characters; shorten it.", name, MAX_HEADER_CHARS
            )
        try:  # an HTTP library gives each byte as a character, unless it decoded them already
            plain = value.encode() if any(ord(char) > 255 for char in value) else value.encode("latin-1")
            found[name] = unquote_to_bytes(plain).decode()
        except UnicodeError as error:
            raise InvalidInput("The header {name} is not UTF-8; percent-encode its value.", name) from error
    metadata = found.pop(METADATA_HEADER, "{}")
    try:
        values = json.loads(metadata)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InvalidInput(
            'The header {metadata_header} is not a JSON object; write it as {{"channel": "phone"}}.', METADATA_HEADER
        )
    return named(**{HEADERS[name]: value for name, value in found.items()}, metadata=values)


def resolve(sources: Mapping[Source, Identity], *, require_user: bool = False, changes: bool = False) -> SessionIds:
    """Who is meant: each id and the metadata from the first source that has it. Those of a source that names another
    user than the one chosen do not count. `require_user`: the settings do not name the user. `changes`: the call
    changes something, so it concerns one agent and run.

    Raises:
        InvalidInput: no user is named, or a changing call has `*`.
    """
    order = [(source, sources[source]) for source in SOURCES if source in sources]
    users = [(source, said.user_id) for source, said in order if said.user_id]
    if require_user:
        users = [each for each in users if each[0] != "setting"]
    if not users:
        raise InvalidInput("No user is named; give user_id, or call memory_init_session with one first.")
    chosen_from, user_id = users[0]
    alike = [(source, said) for source, said in order if said.user_id in (None, user_id)]
    ids: dict[str, str] = {"user_id": user_id}
    origins: dict[str, Source] = {"user_id": chosen_from}
    for name in FIELDS[1:]:
        for source, said in alike:
            if value := getattr(said, name):
                ids[name], origins[name] = value, source
                break
    if changes and (open_ := [name for name in FIELDS[1:] if ids.get(name) == EVERY]):
        raise InvalidInput("`*` as {open} is for reading only; name one {open}, or leave it out.", open_[0])
    metadata = next((said.metadata for _, said in alike if said.metadata), NOTHING)
    kept = {name: value for name, value in ids.items() if value != EVERY}
    return SessionIds(**kept, metadata=metadata, sources=origins, overridden=_overridden(sources, ids))


def _overridden(sources: Mapping[Source, Identity], ids: Mapping[str, str]) -> tuple[str, ...]:
    """The ids for which the headers or the session say something else; those of the settings are meant to be
    replaced."""
    defaults = [sources[source] for source in ("header", "session") if source in sources]
    return tuple(name for name in ids if any(getattr(said, name) not in (None, ids[name]) for said in defaults))
