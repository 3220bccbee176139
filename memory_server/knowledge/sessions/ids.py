"""Who is meant by a call of the toolset `sessions`: user, agent and run, each from the first source that has it. Pure.

docs/how-to/memory-for-several-users.md has the table of sources. One rule holds for ids from all of them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal, get_args

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import DEEPEST, deeper, size
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import JsonObject, dataclass, frozen

Source = Literal["argument", "header", "session", "setting"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""The sources of ids, in order of precedence."""
FIELDS = ("user_id", "agent_id", "run_id")
EVERY = "*"
"""The value that means all agents or runs of the user, for reading only."""
MAX_ID_CHARS = 100
MAX_HEADER_CHARS = 4_096
MAX_METADATA_CHARS = 4_096
"""Characters of the metadata of a session."""
_LIKE_NOTHING = re.compile("[^\\S ]|\u2800|(?<=[A-Za-z])[\u200c\u200d\ufe0e\ufe0f]")
"""Other spaces than the usual one, and joiners that emoji need but Latin letters do not."""
METADATA_HEADER = "x-memory-session-metadata"
HEADERS = {f"x-memory-{name.replace('_', '-')}": name for name in FIELDS}


@frozen
class Identity:
    """The ids that a source names, or None for an id that it does not name."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    metadata: JsonObject = field(default_factory=lambda: NOTHING)

    def completed_by(self, other: Identity) -> Identity:
        """Return these ids, completed by the ids of another source that are not named here."""
        return Identity(
            self.user_id or other.user_id,
            self.agent_id or other.agent_id,
            run_id=self.run_id or other.run_id,
            metadata=self.metadata or other.metadata,
        )


NOBODY = Identity()


@dataclass(slots=True)
class Begun:
    """A session that has begun: the ids of `memory_init_session` in it, and the headers of its `initialize`."""

    ids: Identity = NOBODY
    headers: Identity = NOBODY


@frozen
class RequestInfo:
    """How a call came: the ids in the headers of its request, whether it belongs to a session, and to which; `begun` is
    None for the session of the process, as over standard input."""

    headers: Identity = NOBODY
    lasts: bool = True
    begun: Begun | None = None

    @property
    def header_ids(self) -> Identity:
        """The ids of the headers of the request, completed by the headers with which its session began if the request
        names no other user."""
        first = NOBODY if self.begun is None else self.begun.headers
        if self.headers.user_id not in (None, first.user_id):
            return self.headers
        return self.headers.completed_by(first)


@frozen
class SessionIds:
    """The ids that a call means. If `agent_id` or `run_id` is None, a call writes memories without an agent or run, and
    reads the memories of all. `sources` says where each id comes from; `overridden` names the ids that replace another
    id of the headers or the session."""

    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: JsonObject = field(default_factory=lambda: NOTHING)
    sources: Mapping[str, Source] = field(default_factory=lambda: NOTHING)
    overridden: tuple[str, ...] = ()

    @property
    def ids(self) -> dict[str, str]:
        """The ids that are set."""
        ids = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in ids.items() if value is not None}


STDIO = RequestInfo()
HTTP = RequestInfo(lasts=False)


def named(
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    metadata: JsonObject | None = None,
) -> Identity:
    """Return the ids of a source, None for an id that it does not name, with its metadata. Raises
    InvalidInput if an id is empty or cannot be used, or the metadata is too long or too deep."""
    ids: dict[str, str] = {}
    for name, value in zip(FIELDS, (user_id, agent_id, run_id), strict=True):
        if value is not None:
            ids[name] = checked_id(value, name)
    values = dict(metadata or {})
    if deeper(values) or size(values) > MAX_METADATA_CHARS:
        raise InvalidInput(
            "The metadata has at most {metadata:,} characters and {deepest} levels; shorten it.",
            MAX_METADATA_CHARS,
            DEEPEST,
        )
    return Identity(**ids, metadata=values)


def checked_id(text: str, field_name: str) -> str:
    """Return `text` as an id, in NFC. Raises InvalidInput if it is empty or too long, is `*` as a
    user, or has invisible characters, by which two ids could look the same."""
    if not text or text.isspace():
        raise InvalidInput("The {what} is empty; give a name, or leave it out.", field_name)
    # Imported at first use: settings have ids too, and most processes need none of it.
    from memory_server.kernel.recalled_block import UNSEEN

    normal = unicodedata.normalize("NFC", text)
    if len(normal) > MAX_ID_CHARS:
        raise InvalidInput(
            "The {what} has {normal} characters; use at most {id}.",
            field_name,
            len(normal),
            MAX_ID_CHARS,
        )

    # Ids that look the same must be the same.
    hidden = any(
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp", "Cn", "Co") for char in normal
    )
    if hidden or UNSEEN.search(normal) or _LIKE_NOTHING.search(normal) or normal != normal.strip():
        raise InvalidInput(
            "The {what} holds characters that cannot be seen, or spaces around it; use visible ones.",
            field_name,
        )

    if field_name == "user_id" and normal == EVERY:
        raise InvalidInput(
            "`*` is not a user; name one, since no call looks at the memories of several users."
        )
    return normal


def from_headers(headers: Iterable[tuple[str, str]]) -> Identity:
    """Read the ids in the headers of a request: `X-Memory-User-ID`, `-Agent-ID`, `-Run-ID` as percent-decoded UTF-8,
    and `-Session-Metadata` as a JSON object.

    Raises:
        InvalidInput: a header cannot be used, or comes twice; the request must be refused with this sentence.
    """
    texts: dict[str, str] = {}
    for header, value in headers:
        name = header.lower()
        if name not in HEADERS and name != METADATA_HEADER:
            continue
        if name in texts:
            raise InvalidInput("The header {name} comes twice; send it once.", name)
        texts[name] = _header_text(name, value)
    metadata = _metadata_of(texts.pop(METADATA_HEADER, "{}"))
    return named(**{HEADERS[name]: text for name, text in texts.items()}, metadata=metadata)


def _header_text(name: str, value: str) -> str:
    """Return the text of a header, percent-decoded. Raise InvalidInput if it is too long, or not
    UTF-8."""
    from urllib.parse import unquote_to_bytes

    if len(value) > MAX_HEADER_CHARS:
        raise InvalidInput(
            "The header {name} has more than {header:,} characters; shorten it.",
            name,
            MAX_HEADER_CHARS,
        )
    try:
        # An HTTP library gives each byte as a character, unless it decoded them already.
        is_decoded = any(ord(char) > 255 for char in value)
        encoded = value.encode("utf-8" if is_decoded else "latin-1")
        return unquote_to_bytes(encoded).decode()
    except UnicodeError as error:
        raise InvalidInput(
            "The header {name} is not UTF-8; percent-encode its value.", name
        ) from error


def _metadata_of(text: str) -> JsonObject:
    """Parse the metadata of a header. Raise InvalidInput if it is not a JSON object."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InvalidInput(
            'The header {metadata_header} is not a JSON object; write it as {{"channel": "phone"}}.',
            METADATA_HEADER,
        )
    return values


def resolve(
    sources: Mapping[Source, Identity], *, require_user: bool = False, changes: bool = False
) -> SessionIds:
    """Decide which ids a call means: each id and the metadata come from the first source that has them. A source that
    names another user than the chosen user does not count. With `require_user`, the settings do not name the user. With
    `changes`, the call changes something, so it concerns a single agent and run.

    Raises:
        InvalidInput: no user is named, or a changing call has `*`.
    """
    in_order = {source: sources[source] for source in SOURCES if source in sources}

    users = {source: identity.user_id for source, identity in in_order.items() if identity.user_id}
    if require_user:
        users.pop("setting", None)
    if not users:
        raise InvalidInput(
            "No user is named; give user_id, or call memory_init_session with one first."
        )

    source_of_user, user_id = next(iter(users.items()))
    # An agent or run of one user means nothing for another.
    of_user = {
        source: identity
        for source, identity in in_order.items()
        if identity.user_id in (None, user_id)
    }

    ids: dict[str, str] = {"user_id": user_id}
    origins: dict[str, Source] = {"user_id": source_of_user}
    for name in ("agent_id", "run_id"):
        for source, identity in of_user.items():
            value = getattr(identity, name)
            if value:
                ids[name] = value
                origins[name] = source
                break
        if changes and ids.get(name) == EVERY:
            raise InvalidInput(
                "`*` as {open} is for reading only; name one {open}, or leave it out.", name
            )

    metadata = next(
        (identity.metadata for identity in of_user.values() if identity.metadata), NOTHING
    )
    certain_ids = {name: value for name, value in ids.items() if value != EVERY}
    return SessionIds(
        **certain_ids, metadata=metadata, sources=origins, overridden=_overridden(sources, ids)
    )


def _overridden(sources: Mapping[Source, Identity], ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the ids for which the headers or the session have another value. Ids of the settings are
    defaults, so replacing them is not reported."""
    defaults = [sources[source] for source in ("header", "session") if source in sources]
    names = []
    for name, value in ids.items():
        if any(getattr(identity, name) not in (None, value) for identity in defaults):
            names.append(name)
    return tuple(names)
