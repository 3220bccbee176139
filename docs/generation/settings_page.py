"""docs/reference/settings.md: every setting with its default, its variable and its flag."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from operator import attrgetter
from types import ModuleType
from typing import Any

from generation.markdown import table
from generation.schemas import Schema, type_of

from memory_server import config
from memory_server.cli import parser
from memory_server.config import http_settings, llm_settings, settings
from memory_server.conversations.recall import parameters as recall_parameters
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.knowledge import options as knowledge_options
from memory_server.storage import options as storage_options

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


DEFAULTS = config.Settings()


def settings_page() -> str:
    """Every setting with its default, its name in the environment and its flag."""
    flags = {action.dest: action.option_strings[0] for action in parser.parser()._actions if action.option_strings}
    schema = config.Settings.model_json_schema()
    holders = settings, http_settings, llm_settings, knowledge_options, storage_options, recall_parameters
    meanings = {place: meaning for module in holders for place, meaning in _meanings(module).items()}
    parts = [SETTINGS_OPENING, "## General\n", _settings_table(schema, "", flags, meanings)]
    for name, section in _sections(schema, schema["$defs"], ""):
        parts += [f"## `[{name}]`\n", f"{section['description']}\n", _settings_table(section, name, {}, meanings)]
    return "\n".join(parts)


def _sections(model: Schema, known: Schema, before: str) -> Iterator[tuple[str, Schema]]:
    for name, field in model["properties"].items():
        if "$ref" in field:
            section = known[field["$ref"].rsplit("/", 1)[1]]
            yield before + name, section
            yield from _sections(section, known, f"{before}{name}.")


def _meanings(module: ModuleType) -> dict[tuple[str, str], str]:
    """What stands below each field of each class of settings."""
    return {
        (owner.name, field.target.id): inspect.cleandoc(said)
        for owner in ast.parse(inspect.getsource(module)).body
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
        given = attrgetter(section)(DEFAULTS) if section else DEFAULTS
        variable = "__".join((*section.split("."), name)) if section else name
        default, meaning = getattr(given, name), meanings.get((model["title"], name))
        if meaning is None:
            default, meaning = getattr(USUAL, name), meanings[RecallParameters.__name__, name]
            if (node := getattr(RecallParameters(), name)) != default:
                meaning += f' With `compat = "node"`: {_value(node)}.'
        rows.append(
            (
                f"`{name}`",
                type_of(field),
                _value(default),
                f"`{config.ENVIRONMENT_PREFIX}{variable.upper()}`" + (f", `{flags[name]}`" if name in flags else ""),
                meaning,
            )
        )
    return table(("name", "type", "default", "environment, flag", "meaning"), rows)


def _value(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return f"`{str(value).lower()}`"
        case ():
            return "`[]`"
        case float():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"
