"""How fast triggers run, in one sitting, with ratios: python tests/bench/bench_triggers.py [TRIGGERS.json CONTEXT.json]

TRIGGERS.json is a list of sources, CONTEXT.json an object with messages; without them both are generated. With `node`
on the path the same triggers also run there, each in a new node:vm context with its own copy of the messages.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox import Failed, Fired, SandboxLimits, TriggerSandbox
from sandbox.host.process import resident_mb

NOW = datetime(2026, 7, 17, 9, tzinfo=UTC)
WORDS = [
    "cat",
    "dog",
    "rain",
    "birthday",
    "weekend",
    "mother",
    "coffee",
    "music",
    "flight",
    "exam",
    "生日",
    "咖啡",
    "下雨",
    "跑步",
    "电影",
    "妈妈",
    "音乐",
    "周末",
    "考试",
    "猫",
]

NODE = r"""
const vm = require('node:vm');
const { triggers, context, rounds } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const han = /\p{Unified_Ideograph}/u, special = /[\\^$.*+?()[\]{}|\/]/g;
const pattern = (key) => key instanceof RegExp ? key
  : new RegExp(han.test(key) ? key.replace(special, '\\$&') : `\\b${key.replace(special, '\\$&')}\\b`, 'ui');
const pick = (messages, scope, depth) => messages.slice(-depth || 0).filter((m) => scope === 'any' || m.role === scope);
const match_keys = (messages, keys, scope = 'any', depth = 4) =>
  pick(messages, scope, depth).reduce((sum, m) => sum + keys.filter((k) => pattern(k).test(m.content)).length, 0);
const match_keys_all = (messages, keys, scope = 'any', depth = 4) => {
  const text = pick(messages, scope, depth).map((m) => m.content).join(' ');
  return keys.every((k) => pattern(k).test(text));
};
const text = JSON.stringify(context);
const times = [];
for (let round = 0; round < rounds; round += 1) {
  const start = process.hrtime.bigint();
  for (const source of triggers) {
    const realm = vm.createContext({ context: JSON.parse(text), match_keys, match_keys_all, Date, Math, RegExp, JSON });
    try { vm.runInContext(source, realm, { timeout: 1000 }); } catch {}
  }
  times.push(Number(process.hrtime.bigint() - start) / 1e6);
}
console.log(JSON.stringify({ times }));
"""


def generated() -> tuple[list[str], dict[str, Any]]:
    """A thousand distinct triggers and twenty messages of about 300 bytes."""
    dice = random.Random(1)
    triggers = []
    for index in range(1000):
        keys = json.dumps(dice.sample(WORDS, 3), ensure_ascii=False)
        triggers.append(
            (
                f"match_keys(context.messages, {keys}, 'any') || (new Date().getMonth() === {index % 12}) /*{index}*/",
                f"match_keys(context.messages, {keys}, 'user', {4 + index % 9}) >= 2 /*{index}*/",
                f"match_keys_all(context.messages, {keys}, 'any') /*{index}*/",
                f"context.messages.some(m => m.role === 'user' && m.content.includes('{dice.choice(WORDS)}'))",
                f"/{dice.choice(WORDS)}.*{index}/i.test(context.messages.at(-1).content)",
            )[index % 5]
        )
    messages = [
        {"role": ("user", "assistant")[index % 2], "content": " ".join(dice.choices(WORDS, k=45)), "timestamp": index}
        for index in range(20)
    ]
    return triggers, {"messages": messages, "conversation_id": "bench", "participants": {"user": "Ann"}}


def node_vm(triggers: list[str], context: dict[str, Any]) -> list[float]:
    """Milliseconds of two rounds over all triggers in Node, a node:vm context each; nothing where there is no Node."""
    node = shutil.which("node")
    if node is None:
        return []
    request = json.dumps({"triggers": triggers, "context": context, "rounds": 2})
    done = subprocess.run([node, "-e", NODE], input=request, capture_output=True, text=True, check=True)
    return [float(one) for one in json.loads(done.stdout)["times"]]


async def timed(rounds: int, work: Callable[[], Awaitable[object]]) -> list[float]:
    """Milliseconds of each round, with a pause between so that the worker is ready again."""
    times = []
    for _ in range(rounds):
        await asyncio.sleep(0.03)
        began = time.perf_counter()
        await work()
        times.append((time.perf_counter() - began) * 1000)
    return times


def line(name: str, times: list[float], goal: str = "") -> float:
    middle = statistics.median(times)
    print(f"{name:<44} p50 {middle:8.1f} ms   min {min(times):8.1f}   max {max(times):8.1f}   {goal}")
    return middle


async def bench(triggers: list[str], context: dict[str, Any]) -> None:
    starts = []
    for _ in range(5):
        began = time.perf_counter()
        async with TriggerSandbox(workers=1) as sandbox:
            await sandbox.warm()
            starts.append((time.perf_counter() - began) * 1000)
    line("worker ready", starts, "goal 200")

    async with TriggerSandbox(SandboxLimits(search_seconds=10), workers=1) as sandbox:

        async def search(sources: list[str]) -> int:
            verdicts = await sandbox.evaluate(sources, context, now=NOW, seed=1)
            return sum(isinstance(verdict, Fired) for verdict in verdicts)

        await sandbox.warm()
        hits = await search(triggers)
        print(
            f"{hits} of {len(triggers)} fire; idle workers: {[round(resident_mb(pid)) for pid in sandbox.pids]} MB, "
            "goal 100"
        )
        one = await timed(40, lambda: search(triggers[:1]))
        hundred = await timed(20, lambda: search(triggers[:100]))
        thousand: list[float] = []
        node: list[float] = []
        for _ in range(3):  # by turns, so that both see the same machine
            thousand += await timed(10, lambda: search(triggers))
            node += node_vm(triggers, context)
        three = [f"{source} /*{copy}*/" for copy in range(3) for source in triggers]
        threefold = await timed(10, lambda: search(three))
        line("1 trigger", one, "goal 6")
        line("100 triggers", hundred)
        base = line(f"{len(triggers)} triggers", thousand, "goal 60")
        big = line(f"{len(three)} triggers", threefold)
        print(f"{'3 times the triggers take':<44} {big / base:.2f} x the time")
        awaiting = [f"await match_keys(context.messages, ['{word}'])" for word in WORDS] * 5
        line(f"{len(awaiting)} triggers with await", await timed(10, lambda: search(awaiting)))

        after_death = []
        for _ in range(5):
            await search(["'x'.repeat(2 ** 29 - 25).split('') // kills its worker"])
            began = time.perf_counter()
            await search(triggers[:1])
            after_death.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.5)
        line("1 trigger, right after a worker died", after_death)

        looping = [*triggers[:500], "while (true) {}", *triggers[500:]]
        spent = await timed(3, lambda: search(looping))
        verdicts = await sandbox.evaluate(looping, context, now=NOW, seed=1)
        failed = [verdict for verdict in verdicts if isinstance(verdict, Failed)]
        print(f"one while (true) among them costs {statistics.median(spent) - base:.0f} ms more; failed: {len(failed)}")

        if node:
            other = line("node:vm, a context each", node)
            print(f"{'node:vm takes':<44} {other / base:.1f} x the time, goal 15")


def main() -> None:
    if len(sys.argv) == 3:
        triggers, context = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    else:
        triggers, context = generated()
    asyncio.run(bench(triggers, context))


if __name__ == "__main__":
    main()
