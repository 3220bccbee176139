"""Texts for models, as Markdown in two languages: the guide, and what the prompts put into a chat.

A name has a file for each language beside this one; `$field` in it is replaced.
"""

from __future__ import annotations

from importlib.resources import files
from string import Template
from typing import Literal

Language = Literal["zh", "en"]


def text(name: str, language: Language, **fields: str) -> str:
    """Return the text called `name`. Every field that it names must be given."""
    written = files(__name__).joinpath(f"{name}.{language}.md").read_text("utf-8").strip()
    return Template(written).substitute(fields) if fields else written
