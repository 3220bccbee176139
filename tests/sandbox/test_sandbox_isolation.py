"""Nothing that one trigger does can be seen by another: leaks and looks in pairs, a walk over all that is reachable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attacks.driver import Driver, outcome

from sandbox import SandboxLimits
from sandbox.host import process

GLOBALS = [
    "Object",
    "Function",
    "Array",
    "Number",
    "Boolean",
    "String",
    "Symbol",
    "Date",
    "Promise",
    "RegExp",
    "Error",
    "AggregateError",
    "EvalError",
    "RangeError",
    "ReferenceError",
    "SyntaxError",
    "TypeError",
    "URIError",
    "JSON",
    "Math",
    "Intl",
    "Map",
    "Set",
    "BigInt",
    "Iterator",
    "WeakMap",
    "WeakSet",
    "Proxy",
    "Reflect",
    "SuppressedError",
    "DisposableStack",
    "console",
    "match_keys",
    "match_keys_all",
    "on_day",
    "days_until",
    "lunar",
    "on_lunar_day",
    "parseFloat",
    "parseInt",
    "isFinite",
    "isNaN",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "unescape",
    "eval",
    "globalThis",
]
ERRORS = ("new Error('')", "new TypeError", "(() => { try { null.x } catch (e) { return e } })()")
# Where a property can be put: every global, its prototype, and the intrinsics that no name reaches.
PLACES = [
    *GLOBALS,
    *(
        f"{name}.prototype"
        for name in GLOBALS
        if name[0].isupper() and name not in {"JSON", "Math", "Intl", "Reflect", "Proxy"}
    ),
    *(
        f"Intl.{name}.prototype"
        for name in (
            "DateTimeFormat",
            "NumberFormat",
            "Collator",
            "Segmenter",
            "Locale",
            "ListFormat",
        )
    ),
    *("Intl.PluralRules", "Intl.RelativeTimeFormat", "Intl.DisplayNames", "Intl.DurationFormat"),
    "Object.getPrototypeOf([][Symbol.iterator]())",
    "Object.getPrototypeOf(''[Symbol.iterator]())",
    "Object.getPrototypeOf(new Map().keys())",
    "Object.getPrototypeOf(new Set().keys())",
    "Object.getPrototypeOf('a'.matchAll(/a/g))",
    "Object.getPrototypeOf([].values().map((x) => x))",
    "Object.getPrototypeOf(Iterator.from({ next() {} }))",
    "Object.getPrototypeOf(new Intl.Segmenter().segment('a'))",
    "Object.getPrototypeOf(new Intl.Segmenter().segment('a')[Symbol.iterator]())",
    "Object.getPrototypeOf(function* () {})",
    "Object.getPrototypeOf(function* () {}).prototype",
    "Object.getPrototypeOf(async () => {})",
    "Object.getPrototypeOf(async function* () {})",
    "Object.getPrototypeOf(async function* () {}).prototype",
    "Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype)",
    "(function* () {}).constructor",
    "(async () => {}).constructor",
    "(async function* () {}).constructor",
    "Array.prototype[Symbol.unscopables]",
    "Object.getOwnPropertyDescriptor(function () { 'use strict'; return arguments }(), 'callee').get",
    "Object.getOwnPropertyDescriptor(globalThis, 'Promise').get",
    "Object.getOwnPropertyDescriptor(globalThis, 'context').get",
    "Object.getOwnPropertyDescriptor(Object.prototype, '__proto__').set",
    "Object.getOwnPropertyDescriptor(Object.prototype, 'toString').set",
    "Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, 'format').get",
    *(f"Object.getOwnPropertyDescriptor({error}, 'stack').get" for error in ERRORS),
    *(f"Object.getOwnPropertyDescriptor({error}, 'stack').set" for error in ERRORS),
    "Error.prepareStackTrace",
    "console.log",
    "Date.now",
    "Math.random",
    "Object.getPrototypeOf(globalThis)",
]


def test_every_place_refuses_a_property_and_the_next_trigger_sees_none(driver: Driver) -> None:
    pairs = []
    for expression in PLACES:
        pairs.append(
            f"try {{ ({expression}).leaked = 1 }} catch {{}}"
            f"try {{ Object.defineProperty({expression}, 'leaked', {{ value: 1 }}) }} catch {{}} true"
        )
        pairs.append(f"Object.hasOwn({expression}, 'leaked')")
    outcomes = [outcome(verdict) for verdict in driver.evaluate(*pairs)]
    expected = ["fired", "quiet"] * len(PLACES)
    wrong = [
        pair for pair, word, right in zip(pairs, outcomes, expected, strict=True) if word != right
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("leak", "look"),
    [
        (
            "/(se)(cret)/.exec('secret'); 1",
            "RegExp.$1 || RegExp.lastMatch || RegExp['$&'] || RegExp.rightContext",
        ),
        ("context.messages.pop(); 1", "context.messages.length !== 2"),
        ("context.messages[0].content = 'x'; 1", "context.messages[0].content === 'x'"),
        ("context.new = 1; 1", "context.new"),
        ("delete context.participants; 1", "!context.participants"),
        ("context.messages.__proto__ = { leaked: 1 }; 1", "context.messages.leaked"),
        ("Object.setPrototypeOf(context, { leaked: 1 }); 1", "context.leaked"),
        (
            "var leaked = 1; let leaked2 = 2; function leaked3() {}; 1",
            "typeof leaked + typeof leaked2 + typeof leaked3 !== 'undefined'.repeat(3)",
        ),
        ("eval('var leaked = 1'); 1", "typeof leaked !== 'undefined'"),
        ("try { new Function('leaked = 1')() } catch {} 1", "typeof leaked !== 'undefined'"),
        ("const t = (s) => s; globalThis.x; t`a`; 1", "typeof x !== 'undefined'"),
        (
            "(async () => { await 0; try { globalThis.leaked = 1 } catch {} })(); 1",
            "typeof leaked !== 'undefined'",
        ),
        (
            "(async () => { for (const i of [1, 2, 3]) { await i; context.messages.length = 0 } })(); 1",
            "context.messages.length !== 2",
        ),
        ("Math.random(); Math.random(); 1", "Math.random() === 0"),
        (
            "match_keys(context.messages, [Object.defineProperty(/生日/, 'exec', { value: () => null })]); 1",
            "match_keys(context.messages, [/生日/]) !== 1",
        ),
        (
            "const r = /生日/g; match_keys(context.messages, [r]); r.lastIndex = 1; 1",
            "match_keys(context.messages, [/生日/g]) !== 1",
        ),
        (
            "new Intl.DateTimeFormat('en').format.leaked = 1; 1",
            "new Intl.DateTimeFormat('en').format.leaked",
        ),
        (
            "Symbol.for('a').description; try { Symbol.for('a').leaked = 1 } catch {} 1",
            "Symbol.for('a').leaked",
        ),
        (
            "try { Object.getOwnPropertyDescriptor(new Error(''), 'stack').get.leaked = context.messages } catch {} 1",
            "Object.getOwnPropertyDescriptor(new Error(''), 'stack').get.leaked !== undefined",
        ),
        (
            "try { Object.setPrototypeOf(Object.getOwnPropertyDescriptor(new Error(), 'stack').set, null) } catch {} 1",
            "Object.getPrototypeOf(Object.getOwnPropertyDescriptor(new TypeError, 'stack').set) === null",
        ),
        ("try { __TimerManager = 1 } catch {} 1", "typeof __TimerManager !== 'undefined'"),
    ],
)
def test_a_leak_is_not_seen(driver: Driver, leak: str, look: str) -> None:
    assert [outcome(verdict) for verdict in driver.evaluate(leak, look, leak, look)] == [
        "fired",
        "quiet",
    ] * 2
    assert outcome(driver.evaluate(look)[0]) == "quiet", "nor in the next search"


STACK = "Object.getOwnPropertyDescriptor(new Error(''), 'stack').get"
LATER = "const n = await 1; return match_keys(context.messages, ['cake']) === 1"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # As the attacker wrote it: a promise is kept on a shared function, and settled from another trigger.
        (
            f"const g = {STACK}; g.p = Promise.withResolvers(); g.p.promise.then(() => {{ context.messages = [] }}); 1",
            f"{STACK}.p.resolve(1); 1",
        ),
        (
            f"const g = {STACK}; g.p = Promise.withResolvers(); g.p.promise.then(() => {{ for (;;) ; }}); 1",
            "1",
        ),
    ],
)
def test_the_jobs_of_others_change_no_verdict_and_blame_nobody(
    driver: Driver, first: str, second: str
) -> None:
    outcomes = [
        outcome(verdict) for verdict in driver.evaluate(first, second, "1", LATER, LATER, "0")
    ]
    assert outcomes[2:] == ["fired", "fired", "fired", "quiet"]


@pytest.fixture
def soft(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A sandbox whose realm has a hole: what is said of jobs must hold without the freezing too."""
    open_hole = "import sandbox.worker.engine as e;r=e.realm_source();e.realm_source=lambda:r.replace('...errors(),','');"
    start = process._START.replace("from sandbox.worker", open_hole + "from sandbox.worker")
    monkeypatch.setattr(process, "_START", start)
    driver = Driver(SandboxLimits(), workers=1)
    yield driver
    driver.close()


@pytest.mark.parametrize(
    "job", ["context.messages.length = 0", "for (;;) ;", "const a = []; for (;;) a.push({})"]
)
def test_jobs_that_are_left_unseen_change_nothing_and_blame_nobody(soft: Driver, job: str) -> None:
    keep = f"const g = {STACK}; const w = Promise.withResolvers(); g.r = w.resolve; w.promise.then(() => {{ {job} }}); 1"
    give = f"const g = {STACK}; g.r(1); 1"
    verdicts = soft.evaluate(keep, give, LATER, keep, give, "0", LATER, keep, give)
    outcomes = [outcome(verdict) for verdict in verdicts]
    assert outcomes == [
        "fired",
        "fired",
        "fired",
        "fired",
        "fired",
        "quiet",
        "fired",
        "fired",
        "fired",
    ]
    assert [soft.sandbox.record_of(source).total for source in (keep, give, LATER, "0")] == [0] * 4


def test_a_trigger_that_hides_that_it_waits_is_begun_alone_and_gives_the_same(
    driver: Driver,
) -> None:
    hidden = "const k = 'th' + 'en', w = Math.random(); ({ [k](yes) { yes(w < 1 && context.messages.length === 2) } })"
    hidden_verdicts = driver.evaluate("1", hidden, "0", hidden, "1")
    assert [outcome(verdict) for verdict in hidden_verdicts] == [
        "fired",
        "fired",
        "quiet",
        "fired",
        "fired",
    ]


WALK = """
  const seen = new Set(), pending = [globalThis]
  const live = [(function* () {}), (async () => {}), (async function* () {}), [].values(), 'a'.matchAll(/a/g),
    ''[Symbol.iterator](), new Map().keys(), new Set().keys(), Iterator.from({ next() {} }), [].values().map((x) => x),
    new Intl.Segmenter().segment('a'), new Intl.Segmenter().segment('a')[Symbol.iterator](), Promise.resolve(),
    new Error(), new Proxy({}, {}), (function () { return arguments })(),
    new Intl.DateTimeFormat(), Intl.DateTimeFormat().format, new TypeError(), new AggregateError([]),
    (() => { try { null.x } catch (e) { return e } })(), (() => { try { eval('(') } catch (e) { return e } })(),
    (() => { try { (function f() { f() })() } catch (e) { return e } })(),
    (() => { const o = {}; Error.captureStackTrace(o); return o })(),
    new Intl.NumberFormat(), new Intl.Collator(), new Intl.PluralRules(), new Intl.Locale('en'), new Intl.Segmenter(),
    /(?<x>a)/d.exec('a'), ((s) => s)`a`, new Function('return arguments')(), Proxy.revocable({}, {}), new Date()]
  for (const one of live) {
    pending.push(Object.getPrototypeOf(one))
    // The object is this trigger's own; the functions of its own accessors are not.
    for (const key of Reflect.ownKeys(one)) {
      const held = Object.getOwnPropertyDescriptor(one, key)
      pending.push(held.get, held.set)
    }
  }
  const soft = []
  while (pending.length) {
    const o = pending.pop()
    if (Object(o) !== o || seen.has(o)) continue
    seen.add(o)
    if (!Object.isFrozen(o)) soft.push(String(o.name ?? Object.prototype.toString.call(o)))
    pending.push(Object.getPrototypeOf(o))
    for (const key of Reflect.ownKeys(o)) {
      if (key === 'context' || key === 'args') continue
      const held = Object.getOwnPropertyDescriptor(o, key)
      pending.push(held.value, held.get, held.set)
      // What an accessor of the realm gives, where it gives anything without an object of its own kind.
      if (held.get && (o === globalThis || o === Object.prototype || o === Error.prototype)) pending.push(o[key])
    }
  }
"""


def test_all_that_a_trigger_can_reach_is_frozen(driver: Driver) -> None:
    walk = f"{WALK}\n"
    (verdict,) = driver.evaluate(
        walk + "if (soft.length) throw new Error(soft.join()); seen.size > 500"
    )
    assert outcome(verdict) == "fired", verdict


def test_nothing_that_was_taken_away_can_be_reached(driver: Driver) -> None:
    names = (
        "ArrayBuffer|SharedArrayBuffer|Uint8Array|TypedArray|DataView|Atomics|WebAssembly|WeakRef|FinalizationRegistry|"
        "Temporal|setTimeout|compileBody|runTrigger"
    )
    (verdict,) = driver.evaluate(
        f"{WALK}\n[...seen].filter((o) => typeof o === 'function').some((f) => /^({names})$/.test(f.name))"
    )
    assert outcome(verdict) == "quiet", verdict


def test_the_visible_names_are_known(driver: Driver) -> None:
    hello = driver.run(driver.sandbox.describe())
    expected = {*GLOBALS, "context", "args", "undefined", "NaN", "Infinity"}
    assert set(hello["globals"]) == expected
