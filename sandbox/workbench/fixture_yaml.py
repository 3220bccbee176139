"""The YAML of fixtures, as people mean it, with the lines of its cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from languages import _
from sandbox.workbench.files import read_text
from sandbox.workbench.terminal import UsageError


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: `on`, `no` and `2026-07-17` stay text, a repeated key is an error. YAML 1.1 turns these
    texts into booleans and dates; YAML 1.2 (core schema) and JSON do not."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag.rsplit(":", 1)[1] not in ("bool", "timestamp")
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _value in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str):
                raise yaml.MarkedYAMLError(
                    problem=_("the key {name!r} is not text", name), problem_mark=key.start_mark
                )
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=_("the key {name!r} is there twice", name), problem_mark=key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep=True)


_UNQUOTED = re.compile(r"(?:user|assistant|system)\s*:\s*[^\"'\s]")
"""A message of a chat in a list whose text is not in quotes."""

_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_mapping)


def read_yaml(path: Path, encoding: str | None) -> tuple[Any, list[int]]:
    """Read the one document of a file, and the line of each item of its list `cases`, else of the document."""
    text = read_text(path, encoding)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, [1]

        items = [root]
        for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
            if key.value == "cases" and isinstance(value, yaml.SequenceNode):
                items = value.value

        return loader.construct_document(root), [item.start_mark.line + 1 for item in items]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # The usual mistake is a text with a sign of YAML, and the parser's own message does not say so.
        typed = text.splitlines()[line - 1 : line]
        if typed and _UNQUOTED.search(typed[0]):
            raise UsageError(
                '{path} is not YAML: line {line}: put a text with {mark} in quotes, as in [user: "Tea?"]',
                path,
                line,
                "? , : [ ] { } #",
            ) from error
        raise UsageError(
            "{path} is not YAML: line {line}: {reason}", path, line, error.problem or _("not YAML")
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(
            "{path} is not YAML: {reason}", path, " ".join(str(error).split())
        ) from error
    except RecursionError as error:
        raise UsageError("{path} is not YAML: it is nested too deeply", path) from error
