"""Settings: defaults, overridden by a file, by the environment, by flags. Read once, by `load`.

The file is TOML (`--config`, else `memory-server.toml` in the user's configuration folder), with the names of
settings.py and a table per family:

    conversation = "小满"
    [short_term]
    threshold = 6

In the environment the same names are `MEMORY_SERVER_CONVERSATION` and `MEMORY_SERVER_SHORT_TERM__THRESHOLD`.
This module imports pydantic, and so the settings themselves, only where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_server.kernel.errors import InvalidInput
from sandbox.locale import N_, _, clause

if TYPE_CHECKING:
    from memory_server.config.settings import Settings as Settings
    from memory_server.storage.data_dir import Home

ENVIRONMENT_PREFIX = "MEMORY_SERVER_"
_VARIABLES_OF_THE_ORIGINAL: Mapping[str, str] = {
    "MCP_MEMORY_MAX_ENTRIES": "max_entries",
    "MCP_MEMORY_TTL_DAYS": "ttl_days",
}
"""The settings of layers by the variables of the program that they come from."""


def __getattr__(name: str) -> Any:
    return getattr(import_module("memory_server.config.settings"), name)


def load(
    environment: Mapping[str, str], flags: Mapping[str, Any] | None = None, config_file: Path | None = None
) -> Settings:
    """The settings: file < environment < flags. A flag that is None was not given. Raises InvalidInput: a name is
    unknown, a value unusable, or the file unreadable; the message names the source."""
    for name, value in (flags or {}).items():
        if value == "":
            raise InvalidInput("--{name} is empty; give it a value or leave it out.", name.replace("_", "-"))
    named = config_file or named_config_file(environment)
    path = (named or default_config_file()).expanduser()
    sources: dict[str, Mapping[str, Any]] = {
        **_of_the_original(environment),
        _("the file {path}", path): _from_file(path) if named is not None or path.is_file() else {},
        N_("the environment"): _from_environment(environment),
        N_("the command line"): {name: value for name, value in (flags or {}).items() if value is not None},
    }
    from pydantic import ValidationError

    from memory_server.config.settings import Settings

    values: dict[str, Any] = {}
    for given in sources.values():
        _merge(values, given)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        source = next(name for name, given in reversed(sources.items()) if _names(given, problem["loc"]))
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            raise InvalidInput(
                "There is no setting `{place}` (from {source}); docs/reference/settings.md lists all settings.",
                place,
                _(source),
            ) from error
        ours = problem["type"] == "value_error"
        theirs = problem["msg"].replace("Input should", "it should").rstrip(".")
        reason = clause(str(problem["ctx"]["error"])) if ours else theirs
        if source == "the command line" and "." not in place:
            flag = place.replace("_", "-")
            if problem["type"].startswith("datetime"):
                reason = _("write an ISO time such as 2026-05-03T12:00")
            raise InvalidInput(
                "The flag `--{flag}` cannot be {input!r}: {reason}.", flag, problem["input"], reason
            ) from error
        raise InvalidInput(
            "The setting `{place}` (from {source}) cannot be {input!r}: {reason}.",
            place,
            _(source),
            problem["input"],
            reason,
        ) from error


def _of_the_original(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What each variable of the program says that layers come from; an empty one counts as not set."""
    return {
        variable: {"layers": {name: environment[variable]}}
        for variable, name in _VARIABLES_OF_THE_ORIGINAL.items()
        if environment.get(variable)
    }


def named_config_file(environment: Mapping[str, str]) -> Path | None:
    """The settings file that the environment names, if it does."""
    named = environment.get("MEMORY_SERVER_CONFIG")
    return Path(named) if named else None


def default_config_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("memory-server", appauthor=False) / "memory-server.toml"


def home_of(settings: Settings, clock: Callable[[], int], *more: Any, beside: Home | None = None) -> Home:
    """The home that the settings name; `more` and `beside` as of `open_home`."""
    from memory_server.storage.homes import open_home

    folder, url = settings.folder, settings.store
    return open_home(url or folder, clock, *more, folder=folder, postgres=settings.postgres, beside=beside)


def _from_file(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput("The settings file {path} cannot be read: {reason}.", path, error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("The settings file {path} is not TOML: {reason}.", path, error) from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):
        # An empty variable counts as not set: shells and the settings of clients cannot unset one in another way.
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == "MEMORY_SERVER_CONFIG" or not text:
            continue
        *sections, name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                group = variable.partition("__")[0]
                raise InvalidInput(
                    "The environment variables {group} and {variable} contradict each other; unset one of them.",
                    group,
                    variable,
                )
        place[name] = text
    return values


def _names(given: Any, place: Sequence[int | str]) -> bool:
    """Whether a source gives the setting at `place`."""
    for part in place:
        if not isinstance(given, Mapping) or part not in given:
            return False
        given = given[part]
    return True


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value
