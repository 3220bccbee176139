"""Everything that can be set, with defaults and bounds; docs/reference/settings.md is generated from this file."""

from __future__ import annotations

import dataclasses
import json
from datetime import MAXYEAR, MINYEAR, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import normalize
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    field_validator,
)

from languages import _
from memory_server.conversations.model import DEFAULT_CONVERSATION, conversation_id_of
from memory_server.conversations.recall.parameters import (
    USUAL,
    Parameters,
    RecallParameters,
    RetentionParameters,
)
from memory_server.kernel.errors import InvalidInput, ReadOnly
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.times import MINUTE_MS, is_zone, zone_named
from memory_server.knowledge.options import (
    KnowledgeSettings,
    LayerSettings,
    NoteSettings,
    RefSettings,
    SessionSettings,
)
from memory_server.storage.options import PostgresSettings, StorageSettings
from sandbox import SandboxLimits


def _with_commas(value: Any) -> Any:
    """Return a list as a text with commas, and any other value unchanged."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value


Names = Annotated[str | None, BeforeValidator(_with_commas)]
"""Names with commas between; in the file a list is the natural form."""
GIVEN: Any = Field({}, validate_default=True)
"""A section of which nothing is set: so it is made with the others, and costs nothing before."""


class Section(BaseModel):
    # The docstrings below a field are for readers and docs/: pydantic would parse this file for them at every start.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


_SIGNED_WITH_A_PAIR = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)


def _usable_algorithms(value: str) -> str:
    """Return the names of algorithms, with commas between them. Raise ValueError for one without a public key."""
    for name in value.split(","):
        if name not in _SIGNED_WITH_A_PAIR:
            raise ValueError(
                _(
                    "`{name}` is not one of {signed_with_a_pair}",
                    name,
                    ", ".join(_SIGNED_WITH_A_PAIR),
                )
            )
    return value


def _from_json(example: str) -> BeforeValidator:
    """Make a validator that reads a text as JSON: in the environment, a setting is a text. Its error shows `example`."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(_("write it as JSON, such as {example}", example)) from error

    return BeforeValidator(read)


def _known_zone(value: str) -> str:
    """Return the name of a time zone unchanged. Raise ValueError if it is unknown."""
    if not is_zone(value):
        raise ValueError(
            _("`{value}` is not an IANA time zone; write for example `Asia/Shanghai`", value)
        )
    return value


Zone = Annotated[str, AfterValidator(_known_zone)]


class JwtSettings(Section):
    """JWTs of an identity provider: each names the tenant of its holder."""

    issuer: str | None = None
    """The `iss` of every token; turns JWTs on."""
    audience: str | None = None
    """The `aud` of every token; by default `http.public_url`, with or without `/mcp`."""
    jwks: str | None = None
    """The provider's keys: a URL that begins with https:// (or http://), or a file."""
    algorithms: Annotated[Names, AfterValidator(lambda value: _usable_algorithms(value or ""))] = (
        "RS256,ES256,EdDSA"
    )
    """Accepted algorithms, with commas between."""
    tenant_claim: str = "sub"
    """The claim that names the tenant."""
    read_scope: str | None = None
    """Scope that a token needs; by default none."""
    write_scope: str | None = None
    """Scope that changes need; by default none."""
    operator_scope: str | None = None
    """Scope that reading `/metrics` needs; by default no JWT can read it."""


class HttpSettings(Section):
    """`memory-server serve --http`: MCP and a plain call over HTTP, for one user or many."""

    listen: str = "127.0.0.1:8460"
    """`[HOST:]PORT` of `serve --http` if the command line gives none."""
    token: str | None = Field(None, repr=False)
    """The one token that allows everything, at least 32 characters. Set it in the environment."""
    tokens: Path | None = None
    """File of the tokens of `memory-server tokens`; by default `.memory-server/tokens.jsonl` in the data folder."""
    open: bool = False
    """Whether anyone on this machine may call without a token; only on a loopback address."""
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")
    """URL at which clients see this server, such as https://memory.example.com."""
    hosts: Names = None
    """Further names that the header `Host` may have, with commas between."""
    origins: Names = None
    """Origins of web pages that may call, such as https://app.example.com, with commas between."""
    requests_per_minute: int = Field(3_000, ge=1)
    """Requests of a tenant per minute; a quarter of them at once. Earlier ones wait up to 10 seconds."""
    concurrent: int = Field(16, ge=1)
    """Calls of a tenant at the same time, and open streams. Up to 400 further calls wait."""
    trigger_searches: int = Field(1, ge=1)
    """Searches of triggers of a tenant at the same time; further ones wait."""
    tenant_mb: float = Field(0, ge=0)
    """MB of the files of a tenant above which nothing can be added; 0: no limit."""
    timezones: Annotated[dict[str, Zone], _from_json('{"alice": "Europe/Berlin"}')] = Field({})
    """Time zones of tenants: `{"alice": "Europe/Berlin"}`. A token and a call may name another one."""
    tenant_idle_minutes: float = Field(5, gt=0)
    """Minutes without a request after which a tenant leaves memory."""
    open_tenants: int = Field(1_000, ge=1)
    """Tenants in memory at the same time."""
    web: bool = False
    """Whether the server has the page `/web/`, which shows the memories of a token."""
    drain_seconds: float = Field(0, ge=0)
    """Seconds from the signal to the end, while `/readyz` says 503 and calls are still answered."""
    jwt: JwtSettings = GIVEN


class ProviderSettings(Section):
    """A language model."""

    kind: Literal["openai", "anthropic"]
    model: str = Field(min_length=1)
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    key_env: str = Field("", pattern=r"^\w*$")
    input_price: float = Field(0.0, ge=0)
    output_price: float = Field(0.0, ge=0)


class EmbeddingSettings(Section):
    """A model that gives texts vectors. With it, short-term memories and memories of users are found by meaning."""

    model: str = ""
    """Name of the model; without one, nothing is sent."""
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    """Its URL, up to `/embeddings`; by default OpenAI's."""
    key_env: str = Field("", pattern=r"^\w*$")
    """Name of the variable that holds the key."""
    input_price: float = Field(0.0, ge=0)
    """Price of a million tokens, for the statistics."""


class LlmSettings(Section):
    """Language models. Nothing is sent anywhere unless a provider is named here."""

    providers: Annotated[
        tuple[ProviderSettings, ...],
        _from_json('[{"kind": "openai", "model": "…"}]'),
        WithJsonSchema({"type": "array", "items": {"type": "object"}}),
    ] = ()
    """Models in their order, in the environment as JSON: `[{"kind": "openai", "model": "…", "base_url":
    "http://127.0.0.1:11434/v1", "key_env": "NAME"}]`. `kind` is `openai`, for all that answer `/chat/completions`, or
    `anthropic`; `key_env` names the variable with the key; `input_price` and `output_price` are for a million tokens."""
    embeddings: EmbeddingSettings = GIVEN
    seconds: float = Field(8.0, gt=0, le=600)
    """Seconds for the whole answer of a model."""
    total_seconds: float = Field(20.0, gt=0, le=600)
    """Seconds for all models together."""
    tokens_per_day: int = Field(200_000, ge=0)
    """Tokens of all processes on the data folder in 24 hours; 0: no limit."""
    words_for_memories: bool = False
    """Whether the clean-up sends each short-term memory to these models once, for [other
    words](../how-to/find-by-meaning.md#by-other-words). It uses at most half of `tokens_per_day`."""
    extraction_prompt: str | None = None
    """Instructions for a model that looks for facts, in place of ours."""
    merge_prompt: str | None = None
    """Instructions for a model that changes a memory, in place of ours."""

    @property
    def names(self) -> str:
        """The models in the order in which they are asked, for people."""
        return ", ".join(f"{provider.kind}/{provider.model}" for provider in self.providers)


def _in_upper_case(value: Any) -> Any:
    if isinstance(value, str):
        return value.upper()
    return value


LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_in_upper_case)]
_Id = Annotated[str, AfterValidator(partial(normalize, "NFC"))]


def _groups(value: Any) -> Any:
    """Return the groups of a setting, where each is a list of names, or their names with commas
    between. What is not an object comes back as it is."""
    if not isinstance(value, dict):
        return value
    return {name: _members(members) for name, members in value.items()}


def _members(members: Any) -> Any:
    """Return the names in a text with commas as a list, and any other value unchanged."""
    if not isinstance(members, str):
        return members
    stripped_names = [name.strip() for name in members.split(",")]
    return [name for name in stripped_names if name]


_GROUPS = _from_json('{"family": ["小明", "小红"]}')

_ABOVE_ZERO = (
    "same_moment",
    "statement_words",
    "long_message_words",
    "flashback_score_full",
    "flashback_horizon_ms",
)
_WITH_A_NAME = {
    "decay_per_ms",
    "threshold",
    "least_match",
    "rarity",
    "top_count",
    "next_count",
    "flashback_count",
    "own_conversation_ms",
    "question_count",
    "sessions",
    "weak_too",
}
"""Constants that a setting of its own changes, or that callers set."""


def _advanced_field(constant: dataclasses.Field[Any]) -> tuple[Any, Any]:
    """Return the type and the default of the advanced setting for a constant of recall, as `create_model` wants them."""
    if constant.type == "bool":
        return bool | None, None
    default = Field(None, gt=0) if constant.name in _ABOVE_ZERO else Field(None, ge=0)
    if constant.type == "int":
        return int | None, default
    return float | None, default


_ADVANCED_FIELDS: dict[str, Any] = {
    constant.name: _advanced_field(constant)
    for constant in dataclasses.fields(RecallParameters)
    if constant.name not in _WITH_A_NAME
}
AdvancedSettings: Any = create_model(
    "AdvancedSettings",
    __base__=Section,
    __doc__="""Constants of recall by their names in `conversations/recall/parameters.py`, for those who measure
what they change (`tests/bench/eval.py --beside short_term.advanced.spacing_ms=0`).""",
    **_ADVANCED_FIELDS,
)


# They are not validated, because that would make a validator of its own at every start.
_STRICT = {"statement_words": 2, "question_match": 1.1, "with_best": 0.0}
_AT_EVERY_PROMPT: Any = AdvancedSettings.model_construct(None, **_STRICT)


class ShortTermSettings(Section):
    """Recall and retention of short-term memories."""

    half_life_days: float | None = Field(None, gt=0)
    """Days after which half of the decay has happened; by default 4.01."""
    threshold: float | None = None
    """Points that a memory among 300 must share with the messages to come as top or next, by default 33; among fewer
    it needs less. *Node*: the relevance that it needs, by default 5."""
    top_count: int = Field(USUAL.top_count, ge=0, le=100)
    """Memories of the first tier, top."""
    next_count: int = Field(USUAL.next_count, ge=0, le=100)
    """Memories of the second tier, next."""
    flashback_count: int = Field(USUAL.flashback_count, ge=0, le=100)
    """Random memories."""
    own_conversation_minutes: float = Field(USUAL.own_conversation_ms / MINUTE_MS, ge=0)
    """Younger memories of the same conversation are held back, unless of another session."""
    sessions: bool = USUAL.sessions
    """Whether sessions count: a memory of another session is never held back. *Node*: they do not count."""
    keep_at_least: int | None = Field(None, ge=0)
    """Memories per conversation up to which the clean-up forgets nothing; by default 20000. *Node*: 512, and none
    older than a year."""
    forget_at_most: int = Field(RetentionParameters().most_at_once, ge=1)
    """Memories per conversation that a clean-up forgets at most."""
    advanced: AdvancedSettings = GIVEN


class WordSettings(Section):
    """How messages become words; docs/explanation/recall-quality.md has measurements. `compat = "node"` turns all of it
    off. Older memories keep their words until `memory-server doctor --reindex`."""

    simplified: bool = True
    """Whether Traditional characters count as Simplified ones; stored text stays as it is."""
    normal_forms: bool = True
    """Whether full-width and half-width forms, upper and lower case count as one."""
    scripts: bool = True
    """Whether kana, Hangul, Cyrillic, accented Latin and emoji make words."""
    dates: bool = True
    """Whether days make words in any form (5月2日, 昨天, 7/17, last Friday)."""
    stems: bool = True
    """Whether English and Russian words count by their stems: `websockets` finds `websocket`."""
    speakers: bool = True
    """Whether a memory is found by the name of its speaker."""
    long_texts: bool = True
    """Whether the weight of a word falls only with the square root of the length of its message."""
    rarity: bool = USUAL.rarity
    """Whether a word counts less if more of the searched memories hold it."""
    earlier_messages: float = Field(0.7, ge=0, le=1)
    """How much each earlier message counts in a search beside the one after it."""
    before_question: float = Field(0.1, ge=0, le=1)
    """The same if the last message is a question."""
    pairs: float = Field(0.3, ge=0, le=1)
    """How much pairs of characters and single Chinese ones count beside words."""
    function_words: float = Field(0.5, ge=0, le=1)
    """How much words that say little (我们, 什么, when, my) count."""
    relative_days: float = Field(0.3, ge=0, le=1)
    """How much 今天 or yesterday count in a search with other words."""
    other_words: float = Field(1.0, ge=0, le=1)
    """How much the other words of a caller count in a search after a statement."""
    other_words_for_question: float = Field(0.4, ge=0, le=1)
    """The same after a question."""
    kept_words: float = Field(0.7, ge=0, le=1)
    """How much the other words that are kept with a memory count."""
    names: str = ""
    """Names and other words that are never cut, with commas between."""


_SANDBOX = SandboxLimits()


class TriggerSettings(Section):
    """The sandbox that runs triggers."""

    trigger_seconds: float = Field(_SANDBOX.trigger_seconds, gt=0, le=60)
    """Seconds that a trigger may take, after all quicker ones are decided."""
    search_seconds: float = Field(_SANDBOX.search_seconds, gt=0, le=300)
    """Seconds that all triggers of a search may take together."""
    heap_mb: int = Field(_SANDBOX.heap_mb, ge=8, le=1024)
    """MB of the JavaScript heap."""
    workers: int | None = Field(None, ge=1, le=64)
    """Worker processes; by default as many as there are cores, at most 4."""
    require_all_layers: bool = False
    """Whether no trigger runs where a layer of protection is missing; `trigger-sandbox doctor` says which."""
    random_count: int = Field(Parameters().random_long_term, ge=0, le=100)
    """Random long-term memories that did not fire."""


class UpkeepSettings(Section):
    """The daily clean-up."""

    enabled: bool = True
    """Whether the server cleans up by itself; `memory-server cleanup` works either way."""
    hour: int = Field(4, ge=0, le=23)
    """Hour of the day, in `timezone`, at which it cleans up."""


class RecallSettings(Section):
    """What comes to mind by itself."""

    plans: bool | None = None
    """Whether [plans](../explanation/recall.md#plans) come by themselves on their day: by default in `recall_turn`;
    true: in hooks too; false: nowhere."""


class RecallRecordSettings(Section):
    """The record of recalls and their reasons; `memory-server recalls` shows it."""

    days: float = Field(30, ge=0, le=36500)
    """Days for which a recall is kept; 0: nothing is recorded."""


class DaemonSettings(Section):
    """The process that all windows of a user share, on Linux and macOS."""

    enabled: bool = True
    """Whether `serve` starts and uses a shared process; otherwise each window has a process of its own."""
    idle_minutes: float = Field(10, ge=0)
    """Minutes after its last client at which it ends."""


class ResultSettings(Section):
    """Results of tools."""

    # In fewer bytes a result with one item could not be shown.
    max_bytes: int = Field(40_000, ge=2_000)
    """Bytes of the JSON of a result; a longer one is cut, with `truncated`, and `next` if a list goes on."""


class Settings(Section):
    """Everything that can be set."""

    data_dir: Path | None = None
    """Folder of the memories; by default the user's data folder (`memory-server where` shows it)."""
    store: str | None = Field(None, repr=False)
    """URL of a PostgreSQL database in place of that folder, such as `postgresql://user@host/name`. One with a
    password belongs into the environment."""
    conversation: str = DEFAULT_CONVERSATION
    """Conversation of calls that name none."""
    groups: Annotated[dict[str, tuple[str, ...]], BeforeValidator(_groups), _GROUPS] = {}
    """Groups of conversations for `recall_scope`, by ids or patterns: `{"family": ["小明", "小红*"]}` (in the environment
    as JSON)."""
    names_of: Annotated[dict[_Id, tuple[str, ...]], BeforeValidator(_groups), _GROUPS] = {}
    """Words that are never cut in some conversations, by id or pattern: `{"小明*": ["芝麻", "阿芙萝黛蒂"]}`. Those of
    `words.names` count everywhere."""
    recall_scope: str = "conversation"
    """Conversations that a search of short-term memories looks at: `conversation` (its own), `all`, or a group."""
    language: Literal["auto", "zh", "en"] = "auto"
    """Language of commands (`auto`: that of the locale), and of ages and roles in prompt lines (`auto`: that of the
    memories)."""
    timezone: Zone | None = None
    """IANA name such as `Asia/Shanghai`, for triggers, upkeep and days; by default the system's."""
    toolsets: Names = None
    """Toolsets that a client gets over MCP, with commas between, or `all`. `default` means the six usual tools, which
    come if neither this nor `tools` is set."""
    tools: Names = None
    """Single tools that a client gets as well, with commas between."""
    exclude_tools: Names = None
    """Tools that no client gets, with commas between."""
    read_only: bool = False
    """Whether nothing is changed: only tools that read, no reinforcement, no clean-up."""
    hooks: bool = False
    """Whether hooks of the client recall and remember; set by `install --with-hooks`."""
    programs: Names = None
    """Further clients [whose prompts a program writes](hooks.md#who-said-it), with commas between: the `entrypoint`
    in transcripts of Claude Code, the `source` or `originator` in sessions of Codex."""
    secrets: Literal["remove", "keep"] | None = None
    """Whether keys, tokens and passwords are removed from what comes in (default) or stay in it. *Node*: they stay by
    default."""
    log_level: LogLevel = "WARNING"
    """Least level of the log on standard error."""
    compat: Literal["none", "node"] = "none"
    """`node`: as the Node original, for its programs and data, without a shared conversation and `[words]`; its tools
    answer [in JSON](tools.md#results-for-programs)."""
    now: datetime | None = None
    """Time at which the clock starts, for tests; by default the real time."""
    seed: int | None = None
    """Seed of the random choices, for tests; by default a random one."""
    short_term: ShortTermSettings = GIVEN
    words: WordSettings = GIVEN
    triggers: TriggerSettings = GIVEN
    storage: StorageSettings = GIVEN
    postgres: PostgresSettings = GIVEN
    results: ResultSettings = GIVEN
    upkeep: UpkeepSettings = GIVEN
    recall: RecallSettings = GIVEN
    recalls: RecallRecordSettings = GIVEN
    daemon: DaemonSettings = GIVEN
    knowledge: KnowledgeSettings = GIVEN
    notes: NoteSettings = GIVEN
    sessions: SessionSettings = GIVEN
    layers: LayerSettings = GIVEN
    refs: RefSettings = GIVEN
    llm: LlmSettings = GIVEN
    http: HttpSettings = GIVEN

    @field_validator("conversation")
    @classmethod
    def _usable_id(cls, value: str) -> str:
        try:
            return conversation_id_of(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from error

    @field_validator("groups")
    @classmethod
    def _usable_names(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the groups with their patterns in NFC. Raises ValueError if a group has the name of a scope."""
        taken_names = {"conversation", "all"} & set(value)
        if taken_names:
            raise ValueError(
                _("`{taken}` is the name of a scope; give the group another name", min(taken_names))
            )
        return {
            name: tuple(map(partial(normalize, "NFC"), patterns))
            for name, patterns in value.items()
        }

    @field_validator("recall_scope")
    @classmethod
    def _known_scope(cls, value: str, info: Any) -> str:
        if value not in ("conversation", "all", *info.data.get("groups", ())):
            raise ValueError(
                _("it should be `conversation`, `all`, or a group that `groups` names")
            )
        return value

    @field_validator("now")
    @classmethod
    def _far_from_the_end_of_time(cls, value: datetime | None) -> datetime | None:
        """Refuse the first and the last year of the calendar, which another zone may leave."""
        if value is not None and not MINYEAR < value.year < MAXYEAR:
            raise ValueError(
                _(
                    "it should be in one of the years 2 to 9998, because another time zone may have another year"
                )
            )
        return value

    def refuse_change(self, action: str) -> None:
        """Refuse `action`, a command or tool that changes something, if `read_only` is set. Raise ReadOnly."""
        if self.read_only:
            raise ReadOnly(
                "{what} changes something, but `read_only` is set; turn `read_only` off first.",
                action,
            )

    @property
    def secret_filter(self) -> SecretFilter:
        """Removes secrets from what comes in."""
        usual = "keep" if self.compat == "node" else "remove"
        return SecretFilter((self.secrets or usual) == "remove")

    @property
    def gives_words(self) -> bool:
        """Whether memories may be sent to models that give them other words."""
        return self.llm.words_for_memories and self.compat != "node"

    def names_toolset(self, name: str) -> bool:
        """Return whether `toolsets` names this toolset."""
        return name in words_between_commas(self.toolsets or "")

    def with_flashbacks(self, count: int | None) -> Settings:
        """Return these settings with `count` memories of each kind that come by chance, unchanged without a count."""
        if count is None:
            return self
        short_term = self.short_term.model_copy(update={"flashback_count": count})
        triggers = self.triggers.model_copy(update={"random_count": count})
        return self.model_copy(update={"short_term": short_term, "triggers": triggers})

    def in_zone(self, timezone: str) -> Settings:
        """Return these settings with another time zone. Raise InvalidInput if the time zone does not exist."""
        zone_named(timezone)
        return self.model_copy(update={"timezone": timezone})

    def unasked(self) -> Settings:
        """Return these settings for a search at every prompt, which most prompts do not need. Settings that are set
        stay."""
        set_constants = self.short_term.advanced.model_dump(exclude_none=True)
        strict = _AT_EVERY_PROMPT.model_copy(update=set_constants)
        short_term = self.short_term.model_copy(update={"advanced": strict})
        return self.model_copy(update={"short_term": short_term})

    @property
    def folder(self) -> Path:
        """`data_dir`, or the usual one. Raises InvalidInput: there is no home folder for the usual one."""
        if self.data_dir is not None:
            return self.data_dir
        from platformdirs import user_data_path

        try:
            return user_data_path("memory-server", appauthor=False)
        except RuntimeError as error:
            raise InvalidInput(
                "This user has no home folder; name a data folder, or set HOME to an absolute path."
            ) from error

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone as a value; `None` for the system's."""
        if self.timezone is None:
            return None
        return ZoneInfo(self.timezone)

    @property
    def now_ms(self) -> int | None:
        """`now` in milliseconds since 1970, None if it is not set; a time without an offset is in `timezone`."""
        if self.now is None:
            return None
        moment = self.now
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone).astimezone()
        return round(moment.timestamp() * 1000)
