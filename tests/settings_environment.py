"""Settings as variables of the environment: what a user would write to have the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memory_server.config import ENVIRONMENT_PREFIX, Settings


def as_environment(settings: Settings) -> dict[str, str]:
    """`settings` as variables: a process that has them in its environment `load`s the same settings."""
    return dict(_variables(settings.model_dump(mode="json", exclude_none=True), ENVIRONMENT_PREFIX))


def _variables(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        variable = prefix + name.upper()
        if name in ("groups", "names_of"):  # their names are the user's, in any script and case
            yield variable, json.dumps(value)
        elif isinstance(value, dict):
            yield from _variables(value, f"{variable}__")
        else:
            yield variable, str(value)
