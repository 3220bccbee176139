"""Files of ours that a call of a tool goes through: `python tests/bench/files_of_a_call.py [--names]`.

Each tool is called twice beside 30 memories, and the second call is traced in all threads: functions that were entered,
without comprehensions, and the files that hold them. A newcomer who follows the call reads these.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

from memory_server import Message, open_memory
from memory_server.tools import TOOLSETS
from memory_server.tools.base.tool import call

ROOT = Path(__file__).parents[2]
TOOLS = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CALLS = (
    ("search_short_term_memories", lambda _: {"recentMessages": messages("我的猫去了公园吗")}),
    ("add_short_term_memory", lambda n: {"messages": messages(f"狗{n}在家 dog")}),
    (
        "add_long_term_memory",
        lambda n: {"name": f"m{n}", "prompt": "p", "trigger": "match_keys(context, ['猫'])"},
    ),
    (
        "memory_add",
        lambda n: {"messages": messages(f"I live in Berlin {n}"), "user_id": "u", "mode": "direct"},
    ),
    ("remember", lambda n: {"type": "domain", "topic": f"topic {n}", "content": f"content {n}"}),
)


class Trace:
    """The functions that were entered, by file."""

    def __init__(self) -> None:
        self.functions: defaultdict[str, set[str]] = defaultdict(set)
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
        path = Path(code.co_filename)
        if event != "call" or comprehension or not path.is_relative_to(ROOT):
            return
        name = path.relative_to(ROOT)
        if name.parts[0] in ("memory_server", "sandbox", "nlp", "languages"):
            self.functions[str(name)].add(f"{code.co_name}:{code.co_firstlineno}")
            self.calls += 1


async def main(names: bool) -> None:
    trace: Trace | None = None

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if trace is not None:
            trace(frame, event, argument)

    threading.setprofile(profile)
    sys.setprofile(profile)
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(folder) as memory:
            for n in range(30):
                await memory.conversation().short_term.add(
                    [Message("user", f"我的猫第{n}次去了公园 topic{n}")]
                )
            for name, arguments in CALLS:
                await call(TOOLS[name], memory.call, arguments(0))
                trace = taken = Trace()
                await call(TOOLS[name], memory.call, arguments(1))
                trace = None
                files = len(taken.functions)
                functions = sum(map(len, taken.functions.values()))
                lines = sum(
                    len((ROOT / file).read_text(encoding="utf-8").splitlines())
                    for file in taken.functions
                )
                print(
                    f"{name}: {files} files of {lines:,} lines, {functions} functions, {taken.calls} calls"
                )
                if names:
                    print("    " + "\n    ".join(sorted(taken.functions)))


if __name__ == "__main__":
    asyncio.run(main("--names" in sys.argv))
