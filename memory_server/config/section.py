"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Names = Annotated[
    str | None, BeforeValidator(lambda value: ",".join(map(str, value)) if isinstance(value, list) else value)
]
"""With commas between; in the file a list is the natural form."""
GIVEN: Any = Field({}, validate_default=True)
"""A section of which nothing is given: so it is made with the others, and costs nothing before."""


class Section(BaseModel):
    # The docstrings below a field are for readers and docs/: pydantic would parse this file for them at every start.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
