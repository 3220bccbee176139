"""The context of a search as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from languages import _


def context_json(context: Mapping[str, Any]) -> str:
    """Write the context as JSON text in ASCII; NaN and the infinities become null. Raises TypeError, ValueError."""
    try:
        try:
            return json.dumps(context, allow_nan=False, default=_plain)
        except ValueError:
            with_constants = json.dumps(context, default=_plain)  # NaN, Infinity and -Infinity
            return json.dumps(json.loads(with_constants, parse_constant=lambda _constant: None))
    except (RecursionError, ValueError) as error:
        message = _(
            "the context of a search must be JSON; it holds itself, is nested too deeply or has too long a number"
        )
        raise ValueError(message) from error


def _plain(value: object) -> object:
    """Return a mapping as a dict, which JSON can write. Raises TypeError for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        _("the context of a search must be JSON; it holds a {name}", type(value).__name__)
    )
