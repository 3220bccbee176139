"""Numbers and texts that stand in a trigger, as values. Raises NotUnderstood for what is neither."""

from __future__ import annotations

import math
import re

from sandbox.javascript.plain_tokens import ESCAPE
from sandbox.javascript.sought import NotUnderstood
from sandbox.javascript.syntax import Node, Source
from sandbox.prospects import Constant

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_ESCAPE = re.compile(ESCAPE)


def plain_number_of(source: Source, node: Node) -> float:
    """A decimal number, with a minus or without."""
    text = source.of(node)
    if _NUMBER.fullmatch(text) is None:
        raise NotUnderstood
    number = float(text)
    if not math.isfinite(number):
        raise NotUnderstood
    return number


def whole_of(source: Source, node: Node) -> int:
    """A number without a decimal point."""
    number = plain_number_of(source, node)
    if "." in source.of(node):
        raise NotUnderstood
    return int(number)


def text_of(source: Source, node: Node) -> str:
    """A text between quotation marks; NUL stands for each of its escapes, and no word goes beyond it."""
    if node.type != "string":
        raise NotUnderstood
    return _ESCAPE.sub("\0", source.of(node))[1:-1]


def glue_of(source: Source, node: Node) -> str:
    """A text that joins others. Of an escape that may be a letter it would not be known where words end, so that is not
    understood."""
    escapes = _ESCAPE.findall(source.of(node))
    if not set(escapes) <= {r"\n", r"\t"}:
        raise NotUnderstood
    return text_of(source, node)


def constant_of(source: Source, node: Node) -> Constant:
    """A text or a number."""
    if node.type == "string":
        return text_of(source, node)
    return plain_number_of(source, node)
