"""Rules of firing as a caller gives them, for a memory of its own: only given rules change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass
from memory_server.lore.rule_fields import RuleFault, checked_rules
from memory_server.lore.rules import FiringRules

_ACCEPTED = {
    "order": N_("a number; the highest comes first, and the usual one is 100"),
    "group": N_("a name, or several with commas between; '' takes the memory out of its groups"),
    "probability": N_("a number from 0 to 100"),
    "sticky": N_("a whole number of messages, from 0 on"),
    "cooldown": N_("a whole number of messages, from 0 on"),
    "once": N_("true or false"),
}
"""What each rule takes, for people."""


@dataclass(frozen=True, slots=True)
class GivenRules:
    """The rules that a caller gave, with the meanings of FiringRules. A rule of None stays as it is. `group` has one
    name or several."""

    order: float | None = None
    group: str | list[str] | None = None
    probability: float | None = None
    sticky: int | None = None
    cooldown: int | None = None
    once: bool | None = None

    def applied_to(self, rules: FiringRules) -> FiringRules:
        """Return the rules with the given ones in place of the old. Raise InvalidInput if a given rule has a value that
        it cannot have."""
        try:
            return checked_rules(self._values(), rules)
        except RuleFault as fault:
            name = str(fault)
            raise InvalidInput(
                "The rule `{name}` takes {wanted}.", name, _(_ACCEPTED[name])
            ) from fault

    def _values(self) -> Mapping[str, Any]:
        """Return the rules that are given, by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


NO_RULES = GivenRules()
"""The rules of a caller that gives none."""
