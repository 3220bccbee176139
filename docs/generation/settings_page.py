"""docs/reference/settings.md: every setting with its default, its variable and its flag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generation.markdown import table
from generation.schemas import Schema, type_of

from memory_server import cli, config

SETTINGS_OPENING = f"""\
# Settings

Each setting has a default. A settings file overrides it, the environment overrides the file, and a flag overrides
the environment. Settings are read once, when the program starts.

- **File**: TOML, with the names below and one table per section. `--config FILE` or `MEMORY_SERVER_CONFIG` names it;
  otherwise `memory-server.toml` in your configuration folder is read if it is there (`memory-server where` shows the
  path).
- **Environment**: the name in capitals after `{config.ENVIRONMENT_PREFIX}`; a section and its setting are joined by
  two underscores.
- **Flag**: before or after the command.

A name that does not exist, or a value that cannot be used, ends the program with a sentence that says so.
[Tune recall](../how-to/tune-recall.md) shows how to try a change.
"""


def settings_page() -> str:
    """Every setting with its default, its name in the environment and its flag."""
    flags = {action.dest: action.option_strings[0] for action in cli.parser()._actions if action.option_strings}
    schema = config.Settings.model_json_schema()
    sections = {
        name: schema["$defs"][field["$ref"].rsplit("/", 1)[1]]
        for name, field in schema["properties"].items()
        if "$ref" in field
    }
    parts = [SETTINGS_OPENING, "## General\n", _settings_table(schema["properties"], "", flags)]
    for name, section in sections.items():
        parts += [f"## `[{name}]`\n", f"{section['description']}\n", _settings_table(section["properties"], name, {})]
    return "\n".join(parts)


def _settings_table(fields: Mapping[str, Schema], section: str, flags: Mapping[str, str]) -> str:
    rows = []
    for name, field in fields.items():
        if "$ref" in field:
            continue
        variable = f"{section}__{name}" if section else name
        rows.append(
            (
                f"`{name}`",
                type_of(field),
                _value(field.get("default")),
                f"`{config.ENVIRONMENT_PREFIX}{variable.upper()}`" + (f", `{flags[name]}`" if name in flags else ""),
                field["description"],
            )
        )
    return table(("name", "type", "default", "environment, flag", "meaning"), rows)


def _value(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"
