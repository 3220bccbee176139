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

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import N_, _, clause
from memory_server.kernel.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from memory_server.config.settings import Settings as Settings

ENVIRONMENT_PREFIX = "MEMORY_SERVER_"
_VARIABLES_OF_THE_ORIGINAL: Mapping[str, str] = {
    "MCP_MEMORY_MAX_ENTRIES": "max_entries",
    "MCP_MEMORY_TTL_DAYS": "ttl_days",
}
"""The settings of layers by the variables of the program that they come from."""


def __getattr__(name: str) -> Any:
    return getattr(import_module("memory_server.config.settings"), name)


def load(
    environment: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """Read the settings: file < environment < flags. A flag that is None was not given. Raise InvalidInput if a name is
    unknown, a value unusable, or the file unreadable; the message names the source."""
    typed_flags = {name: value for name, value in (flags or {}).items() if value is not None}
    for name, value in typed_flags.items():
        if value == "":
            raise InvalidInput(
                "--{name} is empty; give it a value or leave it out.", name.replace("_", "-")
            )

    named_file = config_file or named_config_file(environment)
    path = (named_file or default_config_file()).expanduser()
    file_values: dict[str, Any] = {}
    if named_file is not None or path.is_file():
        file_values = _from_file(path)

    sources: dict[str, Mapping[str, Any]] = {
        **_of_the_original(environment),
        _("the file {path}", path): file_values,
        N_("the environment"): _from_environment(environment),
        N_("the command line"): typed_flags,
    }
    from pydantic import ValidationError

    from memory_server.config.settings import Settings

    values: dict[str, Any] = {}
    for source_values in sources.values():
        _merge(values, source_values)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first_problem = error.errors(include_url=False)[0]
        raise _invalid_setting(first_problem, sources) from error


def _invalid_setting(
    problem: ErrorDetails, sources: Mapping[str, Mapping[str, Any]]
) -> InvalidInput:
    """Return the error about a setting that is unknown or has an unusable value; it names the last
    of the `sources` that has the setting."""
    location = problem["loc"]
    setting = ".".join(map(str, location))
    source = [name for name, values in sources.items() if _has_setting(values, location)][-1]

    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return InvalidInput(
            "There is no setting `{place}` (from {source}); docs/reference/settings.md lists all settings.",
            setting,
            _(source),
        )

    reason = problem["msg"].replace("Input should", "it should").rstrip(".")
    if problem["type"] == "value_error":
        reason = clause(str(problem["ctx"]["error"]))

    # A flag has another spelling than its setting.
    if source == "the command line" and "." not in setting:
        if problem["type"].startswith("datetime"):
            reason = _("write an ISO time such as 2026-05-03T12:00")
        flag = setting.replace("_", "-")
        return InvalidInput(
            "The flag `--{flag}` cannot be {input!r}: {reason}.", flag, problem["input"], reason
        )

    return InvalidInput(
        "The setting `{place}` (from {source}) cannot be {input!r}: {reason}.",
        setting,
        _(source),
        problem["input"],
        reason,
    )


def _of_the_original(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the settings in the variables of the program that layers come from, by variable; an empty variable counts
    as not set."""
    return {
        variable: {"layers": {name: environment[variable]}}
        for variable, name in _VARIABLES_OF_THE_ORIGINAL.items()
        if environment.get(variable)
    }


def named_config_file(environment: Mapping[str, str]) -> Path | None:
    """Return the settings file that the environment names, if it does."""
    path = environment.get("MEMORY_SERVER_CONFIG")
    if not path:
        return None
    return Path(path)


def default_config_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("memory-server", appauthor=False) / "memory-server.toml"


def _from_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file. Raises InvalidInput if it cannot be read or is not TOML."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(
            "The settings file {path} cannot be read: {reason}.", path, error.strerror
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            "The settings file {path} is not TOML: {reason}.", path, error
        ) from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the variables with the prefix, where `__` separates a section from a
    name; empty variables do not count. Raises InvalidInput if one variable gives a value to what is
    a section in another one."""
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):
        # An empty variable counts as not set: shells and the settings of clients cannot unset one in another way.
        if (
            not variable.startswith(ENVIRONMENT_PREFIX)
            or variable == "MEMORY_SERVER_CONFIG"
            or not text
        ):
            continue

        *sections, name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        section_values = values
        for section in sections:
            section_values = section_values.setdefault(section, {})
            # A section cannot also be a value.
            if not isinstance(section_values, dict):
                group = variable.partition("__")[0]
                raise InvalidInput(
                    "The environment variables {group} and {variable} contradict each other; unset one of them.",
                    group,
                    variable,
                )

        section_values[name] = text
    return values


def _has_setting(values: Any, location: Sequence[int | str]) -> bool:
    """Return whether the values of a source have the setting at `location`, which may go on in a list or in a text of
    JSON."""
    for key in location:
        if not isinstance(values, Mapping):
            return True
        if key not in values:
            return False
        values = values[key]
    return True


def _merge(values: dict[str, Any], further_values: Mapping[str, Any]) -> None:
    """Put `further_values` into `values`, section by section; with equal names they replace the values in `values`."""
    for name, value in further_values.items():
        if not isinstance(value, Mapping):
            values[name] = value
        elif isinstance(values.get(name), dict):
            _merge(values[name], value)
        else:
            values[name] = dict(value)
