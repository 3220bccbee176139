"""docs/reference/settings.md: every setting with its default and its flag."""

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
from memory_server.config import settings
from memory_server.conversations.recall import parameters as recall_parameters
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.knowledge import options as knowledge_options
from memory_server.storage import options as storage_options

ADVANCED = "short_term.advanced"
SETTINGS_OPENING = """\
# Settings

A flag overrides the environment, the environment overrides the settings file, and the file overrides the defaults.
The program reads settings once, when it starts. It names a setting that it cannot use, and ends.

- **File**: TOML, with a table for each section below. `memory-server where` shows the path of `memory-server.toml`;
  `--config FILE` or `MEMORY_SERVER_CONFIG` names another file.
- **Environment**: `MEMORY_SERVER_`, then the table and the name in capitals, with `__` between:
  `MEMORY_SERVER_HTTP__JWT__ISSUER`.
- **Flag**: before or after the command.

## The ten that people change most

- `data_dir`: another folder or disk for the memories
- `timezone`: you live in another zone than the machine; a container mostly has UTC
- `language`: commands in Chinese or English, whatever the locale is
- `conversation`: an assistant with memories of its own
- `recall_scope`: recall from other conversations too
- `toolsets`: more tools, such as those for notes; each costs tokens
- `short_term.threshold`: lower it if too few memories come unasked, raise it if too many
- `short_term.flashback_count`: more random memories, or none
- `words.names`: names of people and pets that are never cut into words
- `storage.archive_days`: how soon removed memories are gone for good

Some of them in a file:

```toml
timezone = "Europe/London"
toolsets = "default,notes"

[short_term]
threshold = 45

[words]
names = "Miso,Aunt May"
```

[Tune recall](../how-to/tune-recall.md) shows how to try a change.

Brackets hold the type (unless the default shows it), the default (unless it is not set) and the flag. A number is at
least 0. *Node* is the default with `compat = "node"`.
"""


DEFAULTS = config.Settings()


def settings_page() -> str:
    """Every setting with its default and its flag."""
    flags = {
        action.dest: action.option_strings[0]
        for action in parser.parser()._actions
        if action.option_strings
    }
    schema = config.Settings.model_json_schema()
    holders = (
        settings,
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
    """Find what stands below each field of each class of settings."""
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
        default, meaning = getattr(given, name), meanings.get((model["title"], name))
        if meaning is None:
            default, meaning = getattr(USUAL, name), meanings[RecallParameters.__name__, name]
            if (node := getattr(RecallParameters(), name)) != default:
                meaning += f" *Node*: {_value(node)}."
        # A default shows that a setting is a switch or a text, and one that is not set has none to show.
        kind, value = type_of(field), _value(default)
        if value != "not set":
            kind = re.sub(r"^(?:number|integer)(?:, (?:[≥>] 0$)?|$)", "", kind)
        shown = [part for part in (kind, value) if part not in ("", "text", "boolean", "not set")]
        flag = [f"`{flags[name]}`"] if name in flags else []
        facts = "; ".join([*shown, *flag])
        meaning = re.sub(r" \(the Node original[^)]*\)", "", " ".join(meaning.split()))
        if section == ADVANCED:
            meaning = _without_reasons(meaning)
        label = f"`{name}` ({facts})" if facts else f"`{name}`"
        lines.append(f"- {label}: {meaning}")
    return "\n".join(lines) + "\n"


def _without_reasons(meaning: str) -> str:
    """Return the first sentence of a meaning, and what holds for the Node original. The code has the rest."""
    first = re.match(r".*?[.](?=$| [A-Z`*])", meaning)
    node = re.search(r" \*Node\*: [^.]*\.(?:\d+`\.)?$", meaning)
    short = first[0] if first else meaning
    return short if node is None or node[0] in short else short + node[0]


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
