"""What users may set of notes, layers, refs and sessions: defaults, bounds and meanings. `config/settings.py` makes
sections of these classes, so a new limit is a field here and the line that obeys it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from annotated_types import Ge, Gt, Le, Len

from languages import _
from memory_server.kernel.options import OptionCheck
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import MAX_SUMMARY_CHARS
from memory_server.knowledge.ranking import LEAST_SHARE
from memory_server.knowledge.sessions.ids import Identity, checked_id

Role = Literal["owner", "admin", "worker"]
ROLES: tuple[Role, ...] = get_args(Role)
"""The roles, from most to fewest rights."""
PATTERNS: dict[str, Role] = {"owner*": "owner", "admin*": "admin", "worker*": "worker"}
"""The role of a caller by the beginning of its name, as in the seed."""
Namespace = Literal["short-term", "long-term"]
NAMESPACES: tuple[Namespace, ...] = get_args(Namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeSettings:
    """Notes and other knowledge that is found by words."""

    project: Annotated[str, Len(1, 200)] | None = None
    """Name of the project, for all folders; by default the repository of the folder."""
    least_share: Annotated[float, Ge(0), Le(1)] = LEAST_SHARE
    """Matches below this share of the best match are left off, and counted."""
    durability: Literal["full", "normal"] = "full"
    """`full`: a change is on disk when a call returns; `normal`: a power loss may take the last ones."""
    cache_mb: Annotated[int, Ge(1), Le(1024)] = 16
    """MB of the database that a connection keeps in memory."""
    audit_days: Annotated[float, Gt(0)] = 365.0
    """Days for which the record of changes is kept, without texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSettings:
    """Notes."""

    documents: Path | None = None
    """Folder in which pages of notes are kept current; without it, `memory-server knowledge document` writes them."""
    unasked_chars: Annotated[int, Ge(0), Le(20_000)] = 600
    """Characters of notes and layers that come to each turn unasked, if `toolsets` names them; 0: none."""


def _folder_name(text: str) -> str:
    if not re.fullmatch(r"[^/\\]*[^/\\.][^/\\]*", text):
        raise ValueError(_("it should be the name of one folder"))
    return text


def _session_folder(text: str) -> str:
    if not re.fullmatch(r"[\w-]{1,64}", text):
        raise ValueError(_("it should have 1 to 64 letters, digits, `_` and `-`"))
    if text in ("memory", "archive"):
        raise ValueError(_("`{text}` is a folder of its own; give the session another name", text))
    return text


def _from_json(setting: Any) -> Any:
    """Parse a setting that is a mapping; in the environment it is JSON."""
    if isinstance(setting, str) and setting.strip()[:1] == "{":
        return json.loads(setting)
    return setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSettings:
    """Layers: knowledge of the project and of all projects as Markdown files."""

    folder: Annotated[str, OptionCheck(_folder_name)] = ".multi-agent-mcp"
    """Name of the folder of the files, in the project and in the user's home folder."""
    project_dir: Path | None = None
    """Folder of the project; by default the nearest one upwards with `.git` or the files."""
    session_id: Annotated[str, OptionCheck(_session_folder)] | None = None
    """Session whose entries are meant; those of a project are in a folder of that name."""
    max_entries: Annotated[int, Ge(1)] = 1_000
    """Entries of a layer; above that, those used longest ago go into the archive. `MCP_MEMORY_MAX_ENTRIES` also sets
    it."""
    ttl_days: Annotated[float, Gt(0)] = 90.0
    """Days without use after which an entry goes into the archive. `MCP_MEMORY_TTL_DAYS` also sets it."""
    role: Role = "owner"
    """Rights of this server: a worker deletes and restores nothing."""
    roles: Annotated[Mapping[str, Role], OptionCheck(_from_json, first=True)] = field(
        default_factory=PATTERNS.copy
    )
    """Role of a caller by its name, in the environment as JSON; the lower one of this and `role` counts."""


class Bounds(NamedTuple):
    """The bounds of a namespace: how long a ref is found, in days, how many refs there are, and how long a content
    is."""

    days: float
    entries: int
    content_chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefSettings:
    """Refs: long texts outside of the context."""

    backend: Literal["sqlite", "memory"] = "sqlite"
    """`sqlite`: kept in the data folder; `memory`: forgotten when the server ends, for tests."""
    short_term_days: Annotated[float, Gt(0)] = 14.0
    """Days for which a short-term text is found."""
    short_term_entries: Annotated[int, Ge(1)] = 2_000
    """Short-term texts at most; the oldest go into the archive."""
    short_term_content_chars: Annotated[int, Ge(1)] = 200_000
    """Characters of a short-term text; the rest is cut off."""
    long_term_days: Annotated[float, Gt(0)] = 3_650.0
    """Days for which a long-term text is found."""
    long_term_entries: Annotated[int, Ge(1)] = 20_000
    """Long-term texts at most."""
    long_term_content_chars: Annotated[int, Ge(1)] = 500_000
    """Characters of a long-term text."""
    summary_chars: Annotated[int, Ge(1), Le(MAX_SUMMARY_CHARS)] = 1_200
    """Characters of a summary, the beginning of the text."""
    top_k: Annotated[int, Ge(1), Le(100)] = 5
    """Results of a search that names no `limit`."""
    min_score: Annotated[float, Ge(0), Le(1)] = 0.15
    """Score below which nothing is found."""
    include_content: bool = False
    """Whether results have a preview where `includeContent` is left out."""
    preview_chars: Annotated[int, Ge(1), Le(20_000)] = 1_200
    """Characters of a preview."""

    def bounds(self, namespace: Namespace) -> Bounds:
        """Return the bounds of a namespace."""
        if namespace == "short-term":
            return Bounds(
                self.short_term_days, self.short_term_entries, self.short_term_content_chars
            )
        return Bounds(self.long_term_days, self.long_term_entries, self.long_term_content_chars)


_User = OptionCheck(partial(checked_id, field_name="user_id"))
_Agent = OptionCheck(partial(checked_id, field_name="agent_id"))
_Run = OptionCheck(partial(checked_id, field_name="run_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Memories of users, agents and runs. These ids count where neither a call nor its connection names others."""

    user_id: Annotated[str, Len(1), _User] | None = "default_user"
    """The user."""
    agent_id: Annotated[str, _Agent] | None = None
    """The agent, of this user."""
    run_id: Annotated[str, _Run] | None = None
    """The run, of this user."""
    require_user: bool = False
    """Whether a call fails if only this setting names a user."""
    min_similarity: Annotated[float, Ge(-1), Le(1)] = 0.3
    """The least cosine of a memory that is found by meaning."""

    @property
    def ids(self) -> Identity:
        """The ids that are set here."""
        return Identity(self.user_id, self.agent_id, self.run_id)
