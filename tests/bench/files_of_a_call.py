"""Files of ours that a call of a tool runs through: `python tests/bench/files_of_a_call.py [--names]`.

Each tool is called three times beside 30 memories, and the second and third call are traced in all threads: functions
that both entered, without comprehensions, and the files that hold them, with what a call leaves to tasks of its own, such
as the record of a recall. What one of the two calls enters alone, such as opening a database in a thread that had none,
depends on the moment and is not counted. A newcomer who follows the call reads these files.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from memory_server import Message, Settings, open_memory
from memory_server.storage.options import StorageSettings
from memory_server.tools import TOOLSETS
from memory_server.tools.base.tool import call

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}
TRIGGER = "match_keys(context.messages, ['猫']) > 0"
"""Fires for the message of each call that recalls."""


@dataclass(frozen=True)
class RunThrough:
    """How much of the house one call runs through."""

    files: int
    functions: int
    names: tuple[str, ...] = field(default=(), compare=False)
    """Paths of the files, from the root."""


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CALLS: dict[str, Callable[[int], dict[str, Any]]] = {
    "search_short_term_memories": lambda n: {"recentMessages": _messages(f"我的猫{n}点去了公园吗")},
    "recall_turn": lambda n: {"messages": _messages(f"我的猫{n}点去了公园吗")},
    "add_short_term_memory": lambda n: {"messages": _messages(f"狗{n}在家 dog")},
    "add_long_term_memory": lambda n: {"name": f"m{n}", "prompt": "p", "trigger": TRIGGER},
    "forget": lambda _: {"words": "公园"},
    "memory_add": lambda n: {
        "messages": _messages(f"I live in Berlin {n}"),
        "user_id": "u",
        "mode": "direct",
    },
    "remember": lambda n: {"type": "domain", "topic": f"topic {n}", "content": f"content {n}"},
}
"""Arguments of each call, by tool. The number tells one call from the next, so that no cache has the answer."""


QUIET_SECONDS = 0.3
"""Without an entered function for so long, a call and its tasks count as ended."""
SETTINGS = Settings(storage=StorageSettings(idle_seconds=3600))
"""Tidying of an idle server would run beside some calls and not beside others."""


class Trace:
    """The functions that were entered, by file."""

    def __init__(self) -> None:
        self.functions: defaultdict[str, set[str]] = defaultdict(set)
        self.last_entered = time.monotonic()

    def __call__(self, frame: FrameType) -> None:
        code = frame.f_code
        comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
        path = Path(code.co_filename)
        if comprehension or not path.is_relative_to(ROOT):
            return
        name = path.relative_to(ROOT)
        if name.parts[0] in ("memory_server", "sandbox", "nlp", "languages"):
            self.last_entered = time.monotonic()
            self.functions[str(name)].add(f"{code.co_name}:{code.co_firstlineno}")

    async def quiet(self) -> None:
        """Wait until no function was entered for a while."""
        pause = QUIET_SECONDS
        while pause > 0:
            await asyncio.sleep(pause)
            pause = self.last_entered + QUIET_SECONDS - time.monotonic()


def _in_both(first: Trace, second: Trace) -> RunThrough:
    """Count the functions that two calls of a tool entered both."""
    shared = {
        file: functions & second.functions[file]
        for file, functions in first.functions.items()
        if functions & second.functions[file]
    }
    return RunThrough(
        files=len(shared),
        functions=sum(map(len, shared.values())),
        names=tuple(sorted(shared)),
    )


async def files_of_calls(names: Iterable[str] = tuple(CALLS)) -> dict[str, RunThrough]:
    """Call each tool three times in one home, and return what the second and the third call run through both."""
    trace: Trace | None = None
    # A second thread would open a database of its own during some calls and not during others.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if trace is not None and event == "call":
            trace(frame)

    traced: dict[str, RunThrough] = {}
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with open_memory(folder, settings=SETTINGS) as memory:
                conversation = memory.conversation()
                for n in range(30):
                    await conversation.short_term.add(
                        [Message("user", f"我的猫第{n}次去了公园 topic{n}")]
                    )
                # A turn whose recall has a trigger that fires.
                await conversation.long_term.add("cat", "The cat is called Mimi.", TRIGGER)

                for name in names:
                    traces = []
                    for n in range(3):
                        trace = taken = Trace()
                        await call(TOOLS[name], memory.call, CALLS[name](n))
                        await taken.quiet()
                        traces.append(taken)
                    traced[name] = _in_both(traces[1], traces[2])
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
        sys.setprofile(None)
    return traced


def main(shows_names: bool) -> int:
    traced = asyncio.run(files_of_calls())
    for name, run in traced.items():
        lines = sum(
            len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in run.names
        )
        print(f"{name}: {run.files} files of {lines:,} lines, {run.functions} functions")
        if shows_names:
            print("    " + "\n    ".join(run.names))

    uncounted = [name for name, run in traced.items() if run.files == 0]
    if uncounted:
        print(f"No file was counted for {', '.join(uncounted)}.", file=sys.stderr)
    return 1 if uncounted else 0


if __name__ == "__main__":
    sys.exit(main("--names" in sys.argv))
