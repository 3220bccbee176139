"""YAML as people mean it: `on`, `no` and `2026-07-17` stay text, a repeated key is an error, line numbers are kept.

YAML 1.1 turns these texts into booleans and dates; YAML 1.2 (core schema) and JSON do not.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

LINE = "\0line"
"""Every mapping has the number of its first line under this key, which no file can contain."""


class FormError(Exception):
    """The text is not YAML or JSON; the message says where."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[1] not in ("bool", "timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str):
                raise yaml.MarkedYAMLError(problem=f"the key {name!r} is not text", problem_mark=key.start_mark)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"{name!r} is there twice", problem_mark=key.start_mark)
            seen.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=True)
        mapping[LINE] = node.start_mark.line + 1
        return mapping


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_mapping)


def load_yaml(text: str) -> Any:
    """The one document of a text. Raises FormError."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise FormError(f"{place}{error.problem or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise FormError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise FormError("it is nested too deeply") from error


def load_json(text: str) -> Any:
    """Raises FormError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormError(f"line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise FormError("it is nested too deeply") from error


def without_lines(value: Any) -> Any:
    """The value as it was in the file."""
    match value:
        case dict():
            return {key: without_lines(item) for key, item in value.items() if key != LINE}
        case list():
            return [without_lines(item) for item in value]
        case _:
            return value


def quoted(value: Any) -> str:
    """A value as JSON on one line, which YAML reads as the same value."""
    text = json.dumps(value, ensure_ascii=False)
    # These are line ends for YAML, but not for JSON.
    return (
        text.replace("\x85", "\\u0085")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
        .replace("\x7f", "\\u007f")
    )
