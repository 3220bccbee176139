"""docs/reference/settings.md: every setting with its default, its variable and its flag."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from generation.markdown import table
from generation.schemas import Schema, type_of

from memory_server import config
from memory_server.cli import parser

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
    flags = {action.dest: action.option_strings[0] for action in parser.parser()._actions if action.option_strings}
    schema = config.Settings.model_json_schema()
    sections = {
        name: schema["$defs"][field["$ref"].rsplit("/", 1)[1]]
        for name, field in schema["properties"].items()
        if "$ref" in field
    }
    meanings = _meanings()
    parts = [SETTINGS_OPENING, "## General\n", _settings_table(schema, "", flags, meanings)]
    for name, section in sections.items():
        parts += [f"## `[{name}]`\n", f"{section['description']}\n", _settings_table(section, name, {}, meanings)]
    return "\n".join(parts)


def _meanings() -> dict[tuple[str, str], str]:
    """What stands below each field of each class of settings."""
    return {
        (owner.name, field.target.id): inspect.cleandoc(said)
        for owner in ast.parse(inspect.getsource(config)).body
        if isinstance(owner, ast.ClassDef)
        for field, below in pairwise(owner.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(said := below.value.value, str)
    }


def _settings_table(
    model: Schema, section: str, flags: Mapping[str, str], meanings: Mapping[tuple[str, str], str]
) -> str:
    rows = []
    for name, field in model["properties"].items():
        if "$ref" in field:
            continue
        variable = f"{section}__{name}" if section else name
        rows.append(
            (
                f"`{name}`",
                type_of(field),
                _value(field.get("default")),
                f"`{config.ENVIRONMENT_PREFIX}{variable.upper()}`" + (f", `{flags[name]}`" if name in flags else ""),
                meanings[model["title"], name],
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
