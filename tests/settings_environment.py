"""Settings as variables of the environment: what a user would write to have the same ones."""

from __future__ import annotations

import json

from memory_server.config import ENVIRONMENT_PREFIX, Settings


def as_environment(settings: Settings) -> dict[str, str]:
    """`settings` as variables: a process that has them in its environment `load`s the same settings."""
    variables: dict[str, str] = {}
    for name, value in settings.model_dump(mode="json", exclude_none=True).items():
        if name in ("groups", "names_of"):  # their names are the user's, in any script and case
            value = json.dumps(value)
        section = {f"{name}__{inner}": x for inner, x in value.items()} if isinstance(value, dict) else {name: value}
        variables |= {f"{ENVIRONMENT_PREFIX}{inner.upper()}": str(x) for inner, x in section.items()}
    return variables
