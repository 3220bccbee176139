"""Whether a trigger is made of plain tokens, which the parser and V8 cannot read in two ways. Pure; runs in the worker.

The parser is more generous than V8: it takes other characters for blanks, and it knows no difference between a comment
that ends at a line end and one that ends at a separator of paragraphs. So each token of the tree and each gap between
two of them is compared with a form on which both agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sandbox.javascript.syntax import Node, Source

ESCAPE = r"\\(?:['\"\\nt]|u[0-9a-fA-F]{4})"
"""An escape in a text literal."""
_CHARACTER = r"[^\\/\[\x00-\x1f\u2028\u2029]|\\[^\x00-\x1f\u2028\u2029]"
_IN_CLASS = r"[^\\\]\x00-\x1f\u2028\u2029]|\\[^\x00-\x1f\u2028\u2029]"
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_TEXT = re.compile(
    rf"'(?:[^'\\\x00-\x1f\u2028\u2029]|{ESCAPE})*'|\"(?:[^\"\\\x00-\x1f\u2028\u2029]|{ESCAPE})*\""
)
_EXPRESSION = re.compile(rf"/(?![*/])(?:{_CHARACTER}|\[(?:{_IN_CLASS})+\])+/[a-z]*")
_COMMENT = re.compile(r"//[^\r\n\u2028\u2029]*|/\*(?:[^*]|\*(?!/))*\*/")
_TOKENS: Mapping[str, re.Pattern[str]] = {
    "identifier": _NAME,
    "property_identifier": _NAME,
    "number": _NUMBER,
    "string": _TEXT,
    "regex": _EXPRESSION,
    "comment": _COMMENT,
}
"""The forms of the tokens that have many, by the name of their node."""
_GAP = re.compile(rb"(?:[ \t\n]|\r\n)*")
_GAP_AFTER_LINE_COMMENT = re.compile(rb"\r?\n(?:[ \t\n]|\r\n)*")


def is_plain(source: Source) -> bool:
    """Whether each token of the text, and each gap between two tokens, has a plain form."""
    end = 0
    is_after_line_comment = False
    for token in _tokens(source.root):
        start = token.start_byte
        if not _is_plain_gap(
            source.content[end:start], is_after_line_comment=is_after_line_comment
        ):
            return False
        end = token.end_byte
        is_after_line_comment = False
        form = _TOKENS.get(token.type)
        if form is not None:
            text = source.content[start:end].decode("utf-8", "replace")
            if form.fullmatch(text) is None:
                return False
            is_after_line_comment = text.startswith("//")
    rest = source.content[end:]
    return not rest or _is_plain_gap(rest, is_after_line_comment=is_after_line_comment)


def _is_plain_gap(gap: bytes, *, is_after_line_comment: bool) -> bool:
    if is_after_line_comment:
        return _GAP_AFTER_LINE_COMMENT.fullmatch(gap) is not None
    return gap in (b"", b" ") or _GAP.fullmatch(gap) is not None


def _tokens(root: Node) -> Iterator[Node]:
    """The tokens of the tree in their order; a text, an expression and a comment are one token each."""
    pending = root.children[::-1]
    while pending:
        node = pending.pop()
        if node.type in _TOKENS:
            yield node
            continue
        children = node.children
        if children:
            pending.extend(reversed(children))
        else:
            yield node
