"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _with_commas(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value


Names = Annotated[str | None, BeforeValidator(_with_commas)]
"""Names with commas between; in the file a list is the natural form."""
GIVEN: Any = Field({}, validate_default=True)
"""A section of which nothing is set: so it is made with the others, and costs nothing before."""


class Section(BaseModel):
    # The docstrings below a field are for readers and docs/: pydantic would parse this file for them at every start.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
