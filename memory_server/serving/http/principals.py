"""Who calls: a value that the middleware makes for each request, from its token and its headers. No header chooses a
tenant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import Scope

from memory_server.conversations.model import MAX_ID_CHARS, conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import zone_named
from memory_server.kernel.values import frozen
from memory_server.knowledge.projects import Project
from memory_server.knowledge.sessions.ids import HEADERS, HTTP, METADATA_HEADER, RequestInfo
from memory_server.knowledge.sessions.ids import from_headers as sessions_from

READ = "read"
WRITE = "write"
OPERATOR = "operator"
ALL = frozenset((READ, WRITE, OPERATOR))
CONVERSATION = "X-Memory-Conversation"
SESSION = "X-Memory-Session"
FOLDER = "X-Memory-Folder"
PROJECT = "X-Memory-Project"
TIMEZONE = "X-Memory-Timezone"
OF_SESSIONS = {name.encode() for name in (*HEADERS, METADATA_HEADER)}
"""Headers of memories that are apart within a tenant."""
_KEY = "memory_server.caller"


@frozen
class Principal:
    """The caller of a request. `tenant` is None for the data folder itself. `usual`: the conversation of calls that
    name none, if it is not the conversation of the settings. `session`: the session that the header names, else the
    name of the token: what a device said another device finds at once. `timezone`: where the readers live, if not
    where the tenant does. `folder`: where the caller works, `project`: its project. `name`: the name of
    the token. `wire`: who is meant within the tenant; each request says it again, since no connection lasts. `size`:
    bytes of the request's body."""

    tenant: str | None
    scopes: frozenset[str]
    usual: str | None = None
    session: str | None = None
    folder: str | None = None
    project: Project | None = None
    name: str | None = None
    timezone: str | None = None
    wire: RequestInfo = HTTP
    size: int = 0

    def enter(self, scope: Scope) -> None:
        """Make this the caller of a request."""
        scope[_KEY] = self


class AccessToken(Protocol):
    """What a token allows: in the memories of `tenant` (None: the data folder itself) what `scopes` names."""

    @property
    def name(self) -> str: ...

    @property
    def tenant(self) -> str | None: ...

    @property
    def scopes(self) -> Collection[str]: ...

    @property
    def timezone(self) -> str | None: ...


class Tokens(Protocol):
    """Where the tokens of this server are kept."""

    def find(self, token: str) -> AccessToken | None:
        """Return what a token allows now, or None if it allows nothing."""

    def tokens(self) -> Sequence[AccessToken]:
        """Return all tokens. Raises InvalidInput: they cannot be read, or others may write them."""


def has_entered(scope: Scope) -> bool:
    """Tell whether the request passed the middleware with a token."""
    return _KEY in scope


def caller_of(scope: Scope) -> Principal:
    """Return the caller of a request that has passed the middleware."""
    caller: Principal = scope[_KEY]
    return caller


def wire_from(headers: Headers, *, sessions: bool) -> RequestInfo:
    """Return who is meant within the tenant. Raises InvalidInput: a header cannot be used, or asks
    for a separation that this server does not make, because it does not offer `sessions`."""
    user_headers = [name for name, _ in headers.raw if name in OF_SESSIONS]
    if not user_headers:
        return HTTP
    if not sessions:
        header = user_headers[0].decode().title()
        raise InvalidInput(
            "The header {header} needs the toolset sessions, which is not offered; remove it.",
            header,
        )
    return RequestInfo(sessions_from(headers.items()), lasts=False)


def named_in(headers: Headers, header: str, most: int = MAX_ID_CHARS) -> str | None:
    """Return the conversation, session, folder or project that a header names, percent-encoded UTF-8 of at most so
    many characters, or None without the header. Raises InvalidInput: it cannot be used."""
    values = headers.getlist(header)
    if len(values) > 1:
        raise InvalidInput("The header {header} is there more than once; send it once.", header)
    if not values:
        return None
    try:
        # An HTTP library gives each byte as a character; programs send UTF-8 also as it is.
        name = unquote_to_bytes(values[0].encode("latin-1")).decode()
    except UnicodeError as error:
        raise InvalidInput("The header {header} is not percent-encoded UTF-8.", header) from error
    return conversation_id_of(name, f"header {header}", most)


def timezone_in(headers: Headers) -> str | None:
    """Return the time zone that the header names. Raises InvalidInput: it cannot be used, or the zone is unknown."""
    name = named_in(headers, TIMEZONE)
    if name is None:
        return None
    return zone_named(name).key
