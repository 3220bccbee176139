"""One event loop and one sandbox for many synchronous tests, and the innocent triggers around each attack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from sandbox import Failed, Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict

T = TypeVar("T")
NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
SEED = 0
"""Of the dice of triggers: two evaluations throw the same."""
CONTEXT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "今天是生日", "timestamp": 1784280600000, "name": "Ann"},
        {
            "role": "assistant",
            "content": "Happy birthday! I baked a cake.",
            "timestamp": 1784280660000,
        },
    ],
    "conversation_id": "tests",
    "participants": {"user": {"name": "Ann"}},
    "expected_now": int(NOW.timestamp() * 1000),
}
CLEAN = """
  typeof leaked === 'undefined' && !('leaked' in Object.prototype) && !('leaked' in Array.prototype)
  && !['leaked', 'stored'].some((n) => n in match_keys || n in Math || n in JSON || n in console || n in Intl)
  && !('leaked' in on_day) && !('leaked' in lunar) && on_day(7, 17) && lunar().month === 6
  && !('leaked' in String.prototype) && !('leaked' in Symbol.prototype) && !('leaked' in Promise.prototype)
  && !('leaked' in Number.prototype) && !('leaked' in (async () => {})) && !('leaked' in TypeError.prototype)
  && [1, 2].includes(3) === false && [3][0] === 3 && [...[1, 2]].length === 2 && [...'ab'].length === 2
  && [...(function* () { yield 1 })()].length === 1 && [...new Map([[1, 2]])].length === 1
  && [...'aa'.matchAll(/a/g)].length === 2 && [1].values().map((x) => x + 1).next().value === 2
  && [...new Intl.Segmenter().segment('ab')].length === 2 && Iterator.from({ next: () => ({ done: true }) }).next().done
  && Math.random() > 0 && Math.random() !== Math.random() && Math.max(1, 2) === 2
  && Date.now() === context.expected_now && new Date().getTime() === context.expected_now && new Date().getMonth() === 6
  && match_keys(context.messages, ['生日', 'cake']) === 2 && match_keys_all(context.messages, ['生日', 'cake'])
  && context.messages.length === 2 && context.messages[0].content === '今天是生日'
  && /b/.test('a') === false && 'ab'.replace(/a/, 'c') === 'cb' && RegExp.$1 === undefined && RegExp.input === undefined
  && JSON.stringify({ a: 1 }) === '{"a":1}' && JSON.parse('[1]')[0] === 1 && Object.keys({ a: 1 })[0] === 'a'
  && String(new Error('x')) === 'Error: x' && String({}) === '[object Object]' && (() => 1).call() === 1
  && new Map([[1, 2]]).get(1) === 2 && new Set([1]).has(2) === false && 'abc'.includes('d') === false
  && Function.prototype.constructor === Function && new Error('x').stack.length > 3 && Error.stackTraceLimit > 0
  && new Intl.DateTimeFormat('en').format(0).length > 5 && typeof console.log('x') === 'undefined'
  && Object.getPrototypeOf(Object.prototype) === null && !Reflect.has(globalThis, "leaked")
"""
INNOCENT = (
    "match_keys(context.messages, ['生日', 'birthday'], 'any') === 2",
    "context.participants.user.name === 'Bob'",
    CLEAN,
    "await match_keys(context.messages, ['cake']) === 1",
)
EXPECTED = (Fired, Quiet, Fired, Fired)
CROWDED_TRIES = 6


class Driver:
    """Runs coroutines on one loop, so that a sandbox can live through many tests."""

    def __init__(self, limits: SandboxLimits, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.sandbox = TriggerSandbox(limits, **options)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def evaluate(self, *triggers: str, **context: Any) -> tuple[Verdict, ...]:
        return self.run(self.sandbox.evaluate(triggers, CONTEXT | context, now=NOW, seed=SEED))

    def close(self) -> None:
        self.run(self.sandbox.aclose())
        self._runner.close()


def outcome(verdict: Verdict) -> str:
    """One word: fired, quiet, or the kind of failure."""
    match verdict:
        case Fired():
            return "fired"
        case Quiet():
            return "quiet"
        case Failed():
            return verdict.kind


def kinds(verdicts: tuple[Verdict, ...]) -> tuple[type, ...]:
    return tuple(type(verdict) for verdict in verdicts)


def crowded() -> bool:
    """Whether this process gets clearly less than a processor: seconds of a limit then say nothing of a trigger."""
    began = time.monotonic()
    worked = time.process_time()
    while time.process_time() - worked < 0.05:
        pass
    return time.monotonic() - began > 0.05 * 1.25
