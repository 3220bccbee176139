"""What an examination finds: one sentence about one thing, with a grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "note", "warning", "error"]
"""`note`: good to know. `warning`: worth a change, nothing is lost. `error`: something cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`about`: a conversation, `folder`, `disk`, … `what`: the sentence, with what to do unless it is `ok`."""

    grade: Grade
    about: str
    what: str
