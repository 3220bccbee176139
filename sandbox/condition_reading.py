"""Reads a trigger that is a condition on keys, or begins with one. Pure.

A trigger is a condition if it consists of nothing but calls of match_keys and match_keys_all with literals, comparisons
of these with numbers, `&&`, `||`, `!`, true and false. Such a trigger cannot fail, write or loop. Where `A && B` begins
with a condition A, the trigger is false where A is, whatever B does; `A || B` is true where A is. Everything else is
left to V8.

The reader knows few tokens, on purpose: where V8 might see other ones, the trigger has no reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from sandbox.conditions import (
    COMPARISONS,
    ROLES,
    Combination,
    Comparison,
    Condition,
    KeySearch,
    Negation,
    PlainPattern,
    SoughtKey,
    is_certain,
)
from sandbox.javascript.literals import USUAL_DEPTH
from sandbox.javascript.spelling import folded
from sandbox.values import frozen

MOST_CHARACTERS = 4_000
"""Characters of a trigger that is read; a longer one always runs."""
_MOST_DEPTH = 50
"""Conditions within each other; the recursion of the reader needs some frames for each."""
_ESCAPE = r"\\(?:['\"\\nt]|u[0-9a-fA-F]{4})"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+|//[^\r\n\u2028\u2029]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<text>'(?:[^'\\\x00-\x1f\u2028\u2029]|{_ESCAPE})*'|"(?:[^"\\\x00-\x1f\u2028\u2029]|{_ESCAPE})*")
    |(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<number>(?:0|[1-9][0-9]{{0,14}})(?:\.[0-9]{{1,15}})?(?![A-Za-z0-9_$.]))
    |(?P<sign>===|!==|&&|\|\||\?\?|=>|[=!<>]=|\?\.(?![0-9])|[][(){{}}.,;:?!<>=+*%&|^~-])
    |(?P<expression>/(?![*/])(?:[^\\/\[\x00-\x1f\u2028\u2029]|\\[^\x00-\x1f\u2028\u2029]
        |\[(?:[^\\\]\x00-\x1f\u2028\u2029]|\\[^\x00-\x1f\u2028\u2029])+\])+/[a-z]*)""",
    re.VERBOSE,
)
_PLAIN_EXPRESSION = re.compile(
    r"""/(?:\\b|\(\?<!\\w\))?(?P<body>(?:[^\\^$.*+?()\[\]{}|/]|\\[\\^$.*+?()\[\]{}|/])+)
    (?:\\b|\(\?!\\w\))?/(?P<flags>i?)""",
    re.VERBOSE,
)
"""An expression that looks for a plain text: the sign before a letter means the letter."""
_HTML_COMMENTS = ("<!--", "-->")
"""V8 takes these for the beginning of a comment."""
_ENDS_OF_VALUES = (")", "]", "}")
"""Signs after which a slash divides, or may do so."""
_ENDS_OF_OPERANDS = ("??", ",", ";", "?", "=>")
"""Signs that end the last operand of a disjunction, or mean that it is not a disjunction; `||` ends the last operand
of a conjunction too."""


class Role(Enum):
    """What a condition is for the trigger in which it was read."""

    WHOLE = "the trigger is this condition"
    NEEDED = "the trigger is false where the condition is"
    ENOUGH = "the trigger is true where the condition is"


@frozen
class ParsedCondition:
    """A condition that was read in a trigger, and what it is for the trigger."""

    condition: Condition
    role: Role


@frozen
class _Token:
    """A part of a trigger. `kind`: the name of its group in _TOKEN, or `end`. `begins_line`: a line ends before it."""

    kind: str
    text: str
    begins_line: bool


class _NoCondition(Exception):
    """The trigger has something else than a condition here."""


def read(source: str) -> ParsedCondition | None:
    """Return what a trigger is, or begins with, or None if that is not a condition. V8 must have run it once and
    found no fault: the text after a condition may not be JavaScript."""
    if len(source) > MOST_CHARACTERS or any(sign in source for sign in _HTML_COMMENTS):
        return None

    try:
        tokens = list(_tokens(source))
        texts = {token.text for token in tokens}
        if "await" in texts and ";" in texts:
            return None  # V8 takes it for several statements, which have no value (realm/forms.js)

        start = 0
        if tokens[0].text == "return":
            start = 1
            if tokens[1].begins_line:
                return None

        return (
            _whole(tokens, start)
            or _beginning(tokens, start, "&&", Role.NEEDED)
            or _beginning(tokens, start, "||", Role.ENOUGH)
        )
    except _NoCondition:
        return None


def _tokens(source: str) -> Iterator[_Token]:
    """Yield the tokens of a trigger without blanks and comments, then its end. Raises _NoCondition for a character that
    begins no token, and for a slash that may divide."""
    position = 0
    begins_line = False
    last = _Token("sign", "", begins_line=False)
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None or match.lastgroup is None:
            raise _NoCondition
        position = match.end()
        if match.lastgroup == "blank":
            begins_line = begins_line or re.search(r"[\r\n\u2028\u2029]", match[0]) is not None
            continue
        may_divide = last.kind != "sign" or last.text in _ENDS_OF_VALUES
        if match.lastgroup == "expression" and may_divide:
            raise _NoCondition
        last = _Token(match.lastgroup, match[0], begins_line)
        begins_line = False
        yield last

    yield _Token("end", "", begins_line)


def _whole(tokens: list[_Token], start: int) -> ParsedCondition | None:
    """Read a trigger that is nothing but a condition, perhaps with semicolons after it. Return None if it has other
    parts."""
    reader = _Reader(tokens, start)
    try:
        condition = reader.condition()
    except _NoCondition:
        return None
    if not reader.is_at_end():
        return None
    return ParsedCondition(condition, Role.WHOLE)


def _beginning(tokens: list[_Token], start: int, sign: str, role: Role) -> ParsedCondition | None:
    """Read the first operands of `sign` that are conditions. Return None if the first operand is
    not one, or if `sign` does not join the rest to them."""
    reader = _Reader(tokens, start)
    operands: list[Condition] = []
    end_of_last = start
    try:
        while True:
            operand = reader.comparison() if sign == "&&" else reader.conjunction()
            reader.expect(sign)
            operands.append(operand)
            end_of_last = reader.position
    except _NoCondition:
        pass
    if not operands or not _are_operands(tokens, end_of_last, sign):
        return None
    return ParsedCondition(Combination(tuple(operands), is_every=sign == "&&"), role)


def _are_operands(tokens: list[_Token], start: int, sign: str) -> bool:
    """Tell whether the tokens from `start` to the end are operands of `sign`."""
    ends = _ENDS_OF_OPERANDS if sign == "||" else ("||", *_ENDS_OF_OPERANDS)
    depth = 0
    for position in range(start, len(tokens)):
        token = tokens[position]
        is_sign = token.kind == "sign"
        if is_sign and token.text in ("(", "[", "{"):
            depth += 1
        elif is_sign and token.text in _ENDS_OF_VALUES:
            depth -= 1

        if depth > 0:
            continue

        if is_sign and token.text in ends:
            return _Reader(tokens, position).is_at_end()

        # A statement may end at a line end, but not beside the sign.
        is_beside_sign = sign in (token.text, tokens[position - 1].text)
        if token.begins_line and token.kind != "end" and not is_beside_sign:
            return False

    return True


class _Reader:
    """Reads conditions from `position` on. All methods raise _NoCondition for anything else."""

    def __init__(self, tokens: list[_Token], position: int) -> None:
        self._tokens = tokens
        self.position = position
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self.position]

    def _take(self, *texts: str) -> bool:
        """Go over the next token and return True if it is a sign or a name with any of these texts; or stay, and return
        False."""
        if self._next.kind not in ("sign", "name") or self._next.text not in texts:
            return False
        self.position += 1
        return True

    def expect(self, *texts: str) -> str:
        """Go over the next token, which must be among these signs or names, and return its text. Raises
        _NoCondition if it is not."""
        text = self._next.text
        if not self._take(*texts):
            raise _NoCondition
        return text

    def _literal(self, kind: str) -> str:
        """Go over the next token, which must be of this kind, and return its text. Raises _NoCondition if it is not."""
        token = self._next
        if token.kind != kind:
            raise _NoCondition
        self.position += 1
        return token.text

    def is_at_end(self) -> bool:
        """Go over semicolons, and tell whether nothing follows."""
        while self._take(";"):
            pass
        return self._next.kind == "end"

    def condition(self) -> Condition:
        """Read operands of `||`."""
        operands = [self.conjunction()]
        while self._take("||"):
            operands.append(self.conjunction())
        if len(operands) == 1:
            return operands[0]
        return Combination(tuple(operands), is_every=False)

    def conjunction(self) -> Condition:
        """Read operands of `&&`."""
        operands = [self.comparison()]
        while self._take("&&"):
            operands.append(self.comparison())
        if len(operands) == 1:
            return operands[0]
        return Combination(tuple(operands), is_every=True)

    def comparison(self) -> Condition:
        """Read an operand of `&&`: a number of keys that is compared, or a condition that is not.
        Raises _NoCondition if it is neither, such as a condition that is compared."""
        operand = self._operand()
        if not self._take(*COMPARISONS):
            return operand
        sign = self._tokens[self.position - 1].text
        if not isinstance(operand, KeySearch) or operand.is_every:
            raise _NoCondition
        is_negative = self._take("-")
        number = float(self._literal("number"))
        return Comparison(operand, sign, -number if is_negative else number)

    def _operand(self) -> Condition:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise _NoCondition
        operand = self._negation_or_value()
        self._depth -= 1
        return operand

    def _negation_or_value(self) -> Condition:
        """Read a negation, a condition in parentheses, true, false or a call, with or without
        `await`. Raises _NoCondition if anything else comes."""
        start = self.expect("!", "(", "true", "false", "match_keys", "match_keys_all", "await")
        match start:
            case "!":
                return Negation(self._operand())
            case "await":
                return self._operand()
            case "(":
                inner = self.condition()
                self.expect(")")
                return inner
            case "true" | "false":
                return Combination((), is_every=start == "true")
        return self._search(is_every=start == "match_keys_all")

    def _search(self, *, is_every: bool) -> KeySearch:
        """Read the arguments of a call: messages, keys and perhaps a scope and a depth. Raises
        _NoCondition for any other argument, or for an unknown scope."""
        self.expect("(")
        self.expect("context", "args")
        if self._take(".", "?."):
            self.expect("messages")

        self.expect(",")
        keys = self._keys(is_every=is_every)
        scope = "any"
        depth = USUAL_DEPTH
        if self._take(",") and self._next.kind == "text":
            scope = self._text()
            if self._take(",") and self._next.text != ")":
                depth = self._depth_of_messages()
                self._take(",")

        self.expect(")")
        if scope not in ROLES:
            raise _NoCondition

        return KeySearch(keys, scope, depth, is_every)

    def _depth_of_messages(self) -> int:
        """Read how many of the last messages count; 0 for `null`, which means all. Raises _NoCondition for anything
        else."""
        if self._take("null"):
            return 0
        number = self._literal("number")
        if not number.isdecimal():
            raise _NoCondition
        return int(number)

    def _keys(self, *, is_every: bool) -> tuple[SoughtKey, ...]:
        """Read a list of keys. A blank in a key of match_keys_all may be that between two messages.
        Raises _NoCondition if a key may mean something else in JavaScript than here."""
        keys: list[SoughtKey] = []
        self.expect("[")
        while not self._take("]"):
            key = self._key()
            text = key.text if isinstance(key, PlainPattern) else key
            if not _is_sure(text) or (is_every and re.search(r"\s", text + folded(text))):
                raise _NoCondition
            keys.append(key)
            if self._next.text != "]":
                self.expect(",")

        # match_keys takes a text that looks like an expression of the list for the same key.
        expressions = {key.literal for key in keys if isinstance(key, PlainPattern)}
        if any(folded(key) in expressions for key in keys if isinstance(key, str)):
            raise _NoCondition
        return tuple(keys)

    def _key(self) -> SoughtKey:
        """Read a text between quotation marks, or an expression that looks for a plain text. Raises
        _NoCondition for any other expression."""
        if self._next.kind != "expression":
            return self._text()
        literal = self._literal("expression")
        match = _PLAIN_EXPRESSION.fullmatch(literal)
        if match is None:
            raise _NoCondition
        body = match["body"]
        text = re.sub(r"\\(.)", r"\1", body)
        has_edges = not literal.startswith(f"/{body}/")
        pattern = PlainPattern(text, is_exact=not match["flags"], is_whole=has_edges)
        if pattern.literal != literal:
            raise _NoCondition
        return pattern

    def _text(self) -> str:
        """Read a text between quotation marks and return what it means."""
        return re.sub(_ESCAPE, _unescaped, self._literal("text"))[1:-1]


def _is_sure(key: str) -> bool:
    """Tell whether V8 and sandbox/conditions.py find the key in the same texts, and in one message only."""
    return is_certain(key) and re.search("[\x00-\x1f]", key + folded(key)) is None


def _unescaped(escape: re.Match[str]) -> str:
    letter = escape[0][1]
    if letter == "u":
        return chr(int(escape[0][2:], 16))
    return {"n": "\n", "t": "\t"}.get(letter, letter)
