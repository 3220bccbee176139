"""What a caller of layers may do. Pure. No authentication: a name that a caller gives can only take away."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal, get_args

from memory_server.core.errors import InvalidInput
from memory_server.core.phrases import shown

Role = Literal["owner", "admin", "worker"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the one that may most."""
PATTERNS: Mapping[str, Role] = {"owner*": "owner", "admin*": "admin", "worker*": "worker"}
"""Who has which role, by the beginning of a name, as in the seed."""


def role_of(caller: str | None, server: Role, patterns: Mapping[str, Role] = PATTERNS) -> Role:
    """The lower one of the server's role and that of `caller`, by the first pattern that fits; unknown names have the
    server's."""
    claimed = next((role for pattern, role in patterns.items() if fnmatchcase(caller or "", pattern)), server)
    return max(server, claimed, key=ROLES.index)


def refuse_worker(caller: str | None, server: Role, patterns: Mapping[str, Role], what: str) -> None:
    """Refuse `what`, such as `deletes entries`, to a worker. Raises InvalidInput: the caller or the server is a
    worker."""
    if role_of(caller, server, patterns) == "worker":
        name = shown(caller, 60) if caller and server != "worker" else "This server"
        raise InvalidInput(f"{name} is a worker; an owner or admin {what}.")
