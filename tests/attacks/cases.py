"""The hostile triggers. Every file of cases/ is a category, `### name` begins a case; odd texts are in this module.

What a case may come out as is stated per category; that all others in the search are right is stated once, in
test_attacks.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FAILURES = frozenset({"thrown", "reference", "timeout", "out_of_memory", "killed"})
ALLOWED = {
    "loops": frozenset({"timeout", "out_of_memory", "thrown"}),
    "builtins": FAILURES | {"fired", "quiet"},  # a fast machine may finish one of them
    "expressions": FAILURES | {"fired", "quiet"},  # V8 may grow clever about one of them
    "memory": FAILURES | {"fired", "quiet"},
    "jobs": FAILURES,
    "escapes": (FAILURES | {"quiet", "syntax"})
    - {"timeout", "killed"},  # fired would mean: escaped
    "pollution": frozenset({"thrown", "reference", "syntax", "fired", "quiet"}),
    "thrown": FAILURES - {"reference"},
    "results": FAILURES | {"fired", "quiet"},
    "helpers": FAILURES | {"quiet"},
    "starving": FAILURES | {"fired", "quiet"},
    "texts": FAILURES | {"syntax", "fired", "quiet", "not_evaluated"},
}
TEXTS = {
    "nothing": "",
    "blank": " \t\u3000\ufeff\n",
    "lone surrogate": "\ud800",
    "lone surrogate in a text": "'\udfff'.length",
    "nul": "\0",
    "nul in a text": "'a\0b'.length",
    "control characters": "".join(map(chr, range(32))),
    "line separators": "1\u2028\u2029\n2",
    "not a language": "今天是什么日子？",
    "another language": "def f():\n    return True",
    "markup": "<script>alert(1)</script>",
    "html comment": "<!-- 1\n--> 2\n3",
    "hash bang": "#!/usr/bin/env node\n1",
    "closing the wrapper": "}); while (true) ; (function () {",
    "closing a body": "return 1 } ; while (true) ; { return 1",
    "closing an await": "await 1) ; while (true) ; (1",
    "comment not closed": "/* 1",
    "text not closed": "'abc",
    "template not closed": "`abc ${",
    "expression not closed": "/abc",
    "only a comment": "// await return async",
    "directive": "'use strict'; delete Object.prototype",
    "own source address": "1 //# sourceURL=trigger\n//# sourceMappingURL=file:///etc/passwd",
    "with": "with ({ a: 1 }) { a }",
    "octal": "010 + '\\01'",
    "import": "import fs from 'fs'",
    "export": "export default 1",
    "super": "super.x",
    "new target": "new.target",
    "yield": "yield 1",
    "debugger": "debugger; 1",
    "native syntax": "%DebugPrint(1)",
    "deep parentheses": "(" * 20_000 + "1" + ")" * 20_000,
    "deep lists": "[" * 40_000,
    "deep blocks": "{" * 40_000 + "}" * 40_000,
    "deep functions": "(() => " * 5_000 + "1" + ")()" * 5_000,
    "deep unary": "!" * 90_000 + "1",
    "long sum": "+".join(["1"] * 45_000),
    "long chain": "context" + "?.a" * 30_000,
    "many variables": "".join(f"let a{i}=1;" for i in range(8_000)),
    "long name": "a" * 99_000,
    "a megabyte": "1;" * 500_000,
    "frame of the protocol": "TSBX\x01E\0\0\0\0\0\0",
    "json": '{"triggers":["1"],"context":"null"}',
    "door by name": "door_00000000000000000000000000000000('go', 99)",
    "arguments": "arguments.callee.caller",
    "await as a name": "var await = 1; await",
    "async as a name": "var async = 1; async",
    "let as a name": "var let = 1; let",
    "eval as a name": "var eval = 1",
    "shadowing": "const context = { messages: [] }, match_keys = () => 1; match_keys()",
    "unicode escapes": "\\u0077hile(true);",
    "right to left": "1 /*\u202e } */ + 1",
}


@dataclass(frozen=True, slots=True)
class Attack:
    category: str
    name: str
    source: str

    @property
    def id(self) -> str:
        return f"{self.category}: {self.name}"


def _from_file(path: Path) -> list[Attack]:
    attacks = []
    for block in path.read_text(encoding="utf-8").split("### ")[1:]:
        name, _, source = block.partition("\n")
        attacks.append(Attack(path.stem, name, source.rstrip("\n")))
    return attacks


def every_attack() -> list[Attack]:
    attacks: list[Attack] = []
    for path in sorted((Path(__file__).parent / "cases").glob("*.txt")):
        attacks.extend(_from_file(path))
    attacks.extend(Attack("texts", name, source) for name, source in TEXTS.items())
    return attacks


def sample(attacks: list[Attack], every: int) -> list[Attack]:
    """Some of each category, evenly spread; the same ones each time."""
    return [attack for index, attack in enumerate(attacks) if index % every == 0]
