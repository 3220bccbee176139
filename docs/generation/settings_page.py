"""docs/reference/settings.md: every setting with its default, its variable and its flag."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from operator import attrgetter
from types import ModuleType
from typing import Any

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

A flag overrides the environment, the environment overrides the settings file, and the file overrides the defaults.
The program reads settings once, when it starts.

- **File**: TOML, with a table for each section below. `memory-server where` shows the path of `memory-server.toml`;
  `--config FILE` or `MEMORY_SERVER_CONFIG` names another file.
- **Environment**: the name in capitals after `{config.ENVIRONMENT_PREFIX}`. Two underscores join a section and its
  setting.
- **Flag**: before or after the command.

If a name does not exist or a value cannot be used, the program ends and names it.

## The ten that people change most

| setting | why change it |
| --- | --- |
| [`data_dir`](#general) | the memories shall be in another folder or on another disk |
| [`timezone`](#general) | you live in another zone than the machine; a container mostly has UTC |
| [`language`](#general) | commands shall print Chinese or English, whatever the locale is |
| [`conversation`](#general) | an assistant shall have memories of its own |
| [`recall_scope`](#general) | an assistant shall recall from other conversations too |
| [`toolsets`](#general) | your model shall have more tools, such as those for notes |
| [`threshold`](#short_term) | too few or too many memories come unasked: lower or raise it |
| [`flashback_count`](#short_term) | you want more random memories, or none |
| [`names`](#words) | names of people and pets shall never be cut into words |
| [`archive_days`](#storage) | removed memories shall be gone for good sooner, or later |

All ten in a file:

```toml
data_dir = "/srv/memories"
timezone = "Europe/London"
language = "en"
conversation = "work"
recall_scope = "all"
toolsets = "default,notes"

[short_term]
threshold = 45
flashback_count = 0

[words]
names = "Miso,Aunt May"

[storage]
archive_days = 30
```

In the environment, the seventh is `MEMORY_SERVER_SHORT_TERM__THRESHOLD=45`.
[Tune recall](../how-to/tune-recall.md) shows how to try a change.

Each line below has the name, the type, the default, the variable, the flag and the meaning. *Node* is the default
with `compat = "node"`.
"""


DEFAULTS = config.Settings()


def settings_page() -> str:
    """Every setting with its default, its name in the environment and its flag."""
    flags = {
        action.dest: action.option_strings[0]
        for action in parser.parser()._actions
        if action.option_strings
    }
    schema = config.Settings.model_json_schema()
    holders = (
        settings,
        http_settings,
        llm_settings,
        knowledge_options,
        storage_options,
        recall_parameters,
    )
    meanings = {
        place: meaning for module in holders for place, meaning in _meanings(module).items()
    }
    parts = [SETTINGS_OPENING, "## General\n", _settings_list(schema, "", flags, meanings)]
    for name, section in _sections(schema, schema["$defs"], ""):
        parts += [
            f"## `[{name}]`\n",
            f"{section['description']}\n",
            _settings_list(section, name, {}, meanings),
        ]
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


def _settings_list(
    model: Schema, section: str, flags: Mapping[str, str], meanings: Mapping[tuple[str, str], str]
) -> str:
    lines = []
    for name, field in model["properties"].items():
        if "$ref" in field:
            continue
        given = attrgetter(section)(DEFAULTS) if section else DEFAULTS
        variable = "__".join((*section.split("."), name)) if section else name
        default, meaning = getattr(given, name), meanings.get((model["title"], name))
        if meaning is None:
            default, meaning = getattr(USUAL, name), meanings[RecallParameters.__name__, name]
            if (node := getattr(RecallParameters(), name)) != default:
                meaning += f" *Node*: {_value(node)}."
        names = [
            f"`{config.ENVIRONMENT_PREFIX}{variable.upper()}`",
            *([f"`{flags[name]}`"] if name in flags else []),
        ]
        facts = f"{type_of(field)}; {_value(default)}; {', '.join(names)}"
        meaning = re.sub(r" \(the Node original[^)]*\)", "", " ".join(meaning.split()))
        lines.append(f"- `{name}` ({facts}): {meaning}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    match value:
        case None | "":
            return "not set"
        case bool():
            return f"`{str(value).lower()}`"
        case ():
            return "`[]`"
        case float():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"
