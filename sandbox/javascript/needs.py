"""What a trigger needs: words and facts of which at least one must be there for it to be true. Pure.

For each part of a trigger two needs are known: what must be there for it to be true, and for it to be false. `A && B`
needs what A needs, and what B needs; either alone will do, so the rarer is kept. `A || B` needs something of both.
Nothing in the grammar can fail, write or loop for long on the messages that host/candidates.py lets through. The
grammar is closed, and small on purpose: a trigger that has anything else has no known need, and V8 decides it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, TypeAlias

from sandbox.javascript.sought import NEVER, Constant, Need, NotUnderstood, both, either, nearer, refuse, search_need
from sandbox.javascript.spelling import HALF

MOST_CHARACTERS, MOST_ATOMS = 4_000, 300
"""Of a trigger that is read (some 0.1 ms for each 100 characters), and of its need."""
FACTS = {"conversation_id": str, "getFullYear": float, "getMonth": float, "getDate": float, "getDay": float}
Kind: TypeAlias = Literal["plain", "thing", "known", "fact", "constants", "message", "messages", "text"]
Join: TypeAlias = Callable[[Need, Need], Need]

_ESCAPE = r"\\(?:['\"\\nt]|u[0-9a-fA-F]{4})"
_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\n]|\r\n|//[^\r\n\u2028\u2029]*(?=\r?\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)+)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)|(?P<number>-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?)(?![\w.$\\])"
    rf"|(?P<text>'(?:[^'\\\x00-\x1f\u2028\u2029]|{_ESCAPE})*'|\"(?:[^\"\\\x00-\x1f\u2028\u2029]|{_ESCAPE})*\")"
    r"|(?P<pattern>/(?![*/])(?:[^\\/\[\x00-\x1f\u2028\u2029]|\\[^\x00-\x1f\u2028\u2029])+/[a-z]*)"
    r"|(?P<sign>===|!==|==|!=|>=|<=|=>|\?\.|&&|\|\||[()\[\],.;!<>+])"
)
_SIGNS = ("===", "!==", "==", "!=", ">", "<", ">=", "<=")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = dict(
    zip(_SIGNS, (*(operator.eq, operator.ne) * 2, operator.gt, operator.lt, operator.ge, operator.le), strict=True)
)
_ABSENT: Mapping[str, Constant] = dict.fromkeys(("includes", "startsWith", "endsWith"), False) | {"indexOf": -1.0}
_UNMATCHED: Mapping[str, Constant] = {"match": None, "search": -1.0}
"""What these methods give when the text or the match is not there."""
_VARIABLES = frozenset(["m", "msg", "message", "x", "e", "k", "kw", "key", "keyword", "w", "word", "t", "item", "s"])


@dataclass(frozen=True, slots=True)
class Value:
    """What a part of a trigger stands for. `true`, `false`: what it needs to be so.

    plain: a number, text or truth value, unknown. thing: perhaps an object, on which `<` and `+` may fail. known:
    `usual`, unless something of `unless` is there. fact: `name` of FACTS. constants: one or a list of `values`.
    message, messages, text: among the last `depth` messages. `exact`: just these messages, so at least one. `some`:
    what it needs that there are any. `glue`: what joins the messages of which the text consists."""

    kind: Kind = "plain"
    true: Need = None
    false: Need = None
    usual: Constant = None
    unless: Need = NEVER
    name: str = ""
    values: tuple[Constant, ...] = ()
    depth: int = 0
    exact: bool = True
    some: Need = None
    glue: str | None = None

    @property
    def safe(self) -> bool:
        return self.kind in ("plain", "known", "fact", "text")


def known(usual: Constant, unless: Need = NEVER) -> Value:
    return Value("known", None, unless, usual, unless) if usual else Value("known", unless, None, usual, unless)


def need_of(source: str) -> Need:
    """What the trigger needs to be true or to fail; None if that is not known."""
    if len(source) > MOST_CHARACTERS or HALF.search(source):
        return None
    try:
        found = _Reader(source).trigger().true
    except (NotUnderstood, IndexError, RecursionError):
        return None
    return None if found is None or len(found) > MOST_ATOMS else found


def _compared(left: Value, sign: str, right: Value) -> Value:
    fact, value = (right, left) if right.kind == "fact" else (left, right)
    if sign in _SIGNS[:4] and fact.kind == "fact" and value.kind == "known" and value.unless == NEVER:
        if isinstance(value.usual, FACTS[fact.name]):
            return known(sign[0] == "!", frozenset([(fact.name, value.usual)]))
    elif left.kind == right.kind == "known" and type(left.usual) is type(right.usual) is float:
        return known(_COMPARE[sign](left.usual, right.usual), either(left.unless, right.unless))
    if sign not in _SIGNS[:2] and not (left.safe and right.safe):
        raise NotUnderstood
    return Value()


class _Reader:
    """Reads one trigger. Its methods raise NotUnderstood, or IndexError at the end of the text."""

    def __init__(self, source: str) -> None:
        self._tokens: list[tuple[str | None, str]] = []
        self._broken: set[int] = set()
        """The tokens before which a line ends."""
        at = 0
        while at < len(source):
            token = _TOKEN.match(source, at) or refuse()
            at = token.end()
            if token["space"] is None:
                self._tokens.append((token.lastgroup, token[0]))
            elif set("\n\r\u2028\u2029") & set(token[0]):
                self._broken.add(len(self._tokens))
        self._at = 0
        self._names: dict[str, Value] = {}

    def trigger(self) -> Value:
        returns = self._took("return")
        if returns and 1 in self._broken:
            raise NotUnderstood
        value = self._or()
        while (returns or ("name", "await") not in self._tokens) and self._took(";"):
            pass
        return value if self._at == len(self._tokens) else refuse()

    def _took(self, sign: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] in (("sign", sign), ("name", sign))
        self._at += found
        return found

    def _expect(self, *signs: str) -> None:
        if not all(map(self._took, signs)):
            raise NotUnderstood

    def _closed(self, value: Value) -> Value:
        self._expect(")")
        return value

    def _next(self, kind: str) -> str:
        found, text = self._tokens[self._at]
        self._at += 1
        return text if found == kind else refuse()

    def _text(self) -> str:
        """A text; NUL stands for each of its escapes, and no word goes beyond it."""
        return re.sub(_ESCAPE, "\0", self._next("text"))[1:-1]

    def _glue(self) -> str:
        """As `_text`. Of an escape that may be a letter it would not be known where words end, so that is refused."""
        escapes = re.findall(_ESCAPE, self._tokens[self._at][1])
        return self._text() if set(escapes) <= {r"\n", r"\t"} else refuse()

    def _whole(self) -> int:
        number = self._next("number")
        return int(number) if "." not in number else refuse()

    def _dotted(self) -> str | None:
        """The name after a dot, if one comes."""
        return self._next("name") if self._took(".") or self._took("?.") else None

    def _or(self) -> Value:
        return self._joined("||", self._and, either, both)

    def _and(self) -> Value:
        return self._joined("&&", self._comparison, both, either)

    def _joined(self, sign: str, side: Callable[[], Value], true: Join, false: Join) -> Value:
        left = side()
        while self._took(sign):
            right = side()
            kind: Kind = "plain" if left.safe and right.safe else "thing"
            left = Value(kind, true(left.true, right.true), false(left.false, right.false))
        return left

    def _comparison(self) -> Value:
        left = self._unary()
        sign = next(filter(self._took, _COMPARE), None)
        return left if sign is None else _compared(left, sign, self._unary())

    def _unary(self) -> Value:
        if self._took("!"):
            return Value("plain", (value := self._unary()).false, value.true)
        if self._took("await") and self._names:
            raise NotUnderstood
        return self._operand()

    def _operand(self) -> Value:
        kind, text = self._tokens[self._at]
        if kind == "number":
            return known(float(self._next(kind)))
        if kind == "text":
            return Value() if "\0" in (given := self._text()) else known(given)
        if kind == "pattern":
            self._at += 1
            self._expect(".", "test", "(")
            return known(False, self._sought(kind, text, self._closed(self._or())))
        if self._took("("):
            return self._closed(self._or())
        if text == "[":
            return self._of_constants([float(one) if kind == "number" else one for kind, one in self._list("number")])
        name = self._next("name")
        match name:
            case "true" | "false":
                return known(name == "true")
            case "null":
                return known(None)
            case "match_keys" | "match_keys_all" if not self._names:
                return self._call(every=name == "match_keys_all")
            case "Math" | "Date":
                self._expect(".", "random" if name == "Math" else "now", "(", ")")
                return Value()
            case "new":
                self._expect("Date", "(", ")", ".")
                part = self._next("name")
                self._expect("(", ")")
                return Value("fact", name=part) if part in FACTS else Value() if part == "getHours" else refuse()
            case "context" | "args":
                return self._of_context()
        return self._with_properties(self._names[name]) if name in self._names else refuse()

    def _list(self, kind: str) -> list[tuple[str | None, str]]:
        """A list of texts, and of literals of this kind."""
        found = []
        self._expect("[")
        while not self._took("]"):
            given = self._tokens[self._at][0]
            found.append((given, self._text() if given == "text" else self._next(kind)))
            if not self._took(","):
                self._expect("]")
                break
        return found

    def _of_constants(self, values: Sequence[Constant]) -> Value:
        name = self._dotted()
        if name == "some":
            return known(False, self._each(Value("constants", values=tuple(values))).true)
        self._expect("(")
        fact = self._closed(self._or())
        if name != "includes" or fact.kind != "fact" or any("\0" in str(one) for one in values):
            raise NotUnderstood
        return known(False, frozenset((fact.name, one) for one in values if isinstance(one, FACTS[fact.name])))

    def _call(self, *, every: bool) -> Value:
        """match_keys; if `every`, match_keys_all."""
        self._expect("(")
        messages = self._or()
        self._expect(",")
        keys, role, depth = self._list("pattern"), "any", 4
        if self._took(","):
            role = self._text()
            if self._took(","):
                depth = 0 if self._took("null") else self._whole()
        self._expect(")")
        if messages.kind != "messages":
            raise NotUnderstood
        depth = nearer(messages.depth, depth) if messages.exact and depth > 0 else messages.depth
        role, glue = "assistant" if role == "char" else role, " " if every else None
        needs = [NEVER if key == "" else search_need(kind, key, role, depth, glue) for kind, key in keys]
        if every:
            return known(False, reduce(both, needs, None if keys else NEVER))
        return known(0.0, reduce(either, needs, NEVER))

    def _sought(self, kind: str | None, what: str, text: Value) -> Need:
        return search_need(kind, what, text.name, text.depth, text.glue) if text.kind == "text" else refuse()

    def _of_context(self) -> Value:
        name = self._dotted()
        if name == "messages":
            return self._with_properties(Value("messages"))
        if name == "participants" and self._dotted():
            while self._took("?."):
                self._next("name")
            return Value("thing")
        # The context itself is for match_keys only; elsewhere it is true, as its messages are.
        return Value("messages") if name is None else Value("fact", name=name) if name in FACTS else refuse()

    def _with_properties(self, value: Value) -> Value:
        while name := self._dotted():
            if value.kind == "messages":
                value = self._of_messages(value, name)
            elif value.kind == "text" and name in ("toLowerCase", "trim"):
                self._expect("(", ")")
            elif value.kind == "text":
                value = self._of_text(value, name)
            elif value.kind == "message" and name in ("content", "role", "name", "timestamp"):
                value = Value("text", depth=value.depth) if name == "content" else Value()
            else:
                raise NotUnderstood
        return value

    def _of_text(self, text: Value, name: str) -> Value:
        if name == "length":
            return Value()
        self._expect("(")
        if name in _UNMATCHED:
            return self._closed(known(_UNMATCHED[name], self._sought("pattern", self._next("pattern"), text)))
        sought = self._closed(self._or())
        words = [sought.usual] if sought.kind == "known" and sought.unless == NEVER else list(sought.values)
        if name not in _ABSENT or not words or not all(isinstance(word, str) for word in words):
            raise NotUnderstood
        return known(_ABSENT[name], reduce(either, [self._sought("text", str(word), text) for word in words]))

    def _of_messages(self, messages: Value, name: str) -> Value:
        if name == "length":
            return Value() if messages.some is None else known(0.0, messages.some)
        if name in ("at", "slice"):
            self._expect("(")
            start = self._whole()
            self._expect(")")
            if name == "at":
                return Value("message", depth=1) if start == -1 and messages.exact else refuse()
            if start < 0 and messages.exact:
                return replace(messages, depth=nearer(messages.depth, -start))
            return replace(messages, exact=messages.exact and start == 0)
        given = self._each(Value("message", depth=messages.depth))
        if name == "map" and given.kind == "text" and given.glue is None:
            self._expect(".", "join", "(")
            return self._closed(replace(given, glue=self._glue()))
        some = both(messages.some, given.true)
        if name == "some":
            return known(False, some)
        if name == "every" and messages.exact:
            return known(False, given.true)
        return replace(messages, exact=False, some=some) if name == "filter" else refuse()

    def _each(self, given: Value) -> Value:
        """The value of an arrow function for `given`, which may be any of a list."""
        if any(one.kind == given.kind for one in self._names.values()):
            raise NotUnderstood  # a loop in a loop takes long
        self._expect("(")
        bracketed = self._took("(")
        name = self._next("name")
        if bracketed:
            self._expect(")")
        if name not in _VARIABLES or name in self._names or self._at in self._broken:
            raise NotUnderstood
        self._expect("=>")
        self._names[name] = given
        value = self._closed(self._or())
        del self._names[name]
        return value
