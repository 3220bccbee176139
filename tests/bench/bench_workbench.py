"""How long trigger authors wait, in one sitting: python tests/bench/bench_workbench.py

`check` of a pack of 1,000 triggers (at most 3 s), `test` of 100 triggers along 1,000 messages (at most 10 s), and
the start of `trigger-sandbox --help` (at most 0.2 s), each with the start of a bare Python beside it. A busy machine is
slower, so beside the wall time of `test` stands its processor time. Exits with 1 when one takes longer than its goal.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_triggers import generated

PYTHON = sys.executable
HELP_SECONDS = 0.2
CHECK_SECONDS = 3
TEST_SECONDS = 10


def seconds(*command: str) -> float:
    """Wall time of a command that may end with 0 or 1."""
    return times(*command)[0]


def times(*command: str) -> tuple[float, float]:
    """Wall time and processor time, that of its workers too, of a command that may end with 0 or 1."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True)
    wall = time.monotonic() - began
    if process.returncode not in (0, 1):
        raise SystemExit(process.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    sources, context = generated()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in (100, 1000):
            rows = [
                {"name": f"m{n}", "prompt": "p", "trigger": text}
                for n, text in enumerate(sources[:count])
            ]
            (folder / f"{count}.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
        messages = [
            {
                **context["messages"][n % len(context["messages"])],
                "timestamp": 1_780_000_000_000 + n * 600_000,
            }
            for n in range(1000)
        ]
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in messages)
        (folder / "chat.jsonl").write_text(lines, "utf-8")
        tool = (PYTHON, "-m", "sandbox.cli")
        bare = statistics.median(seconds(PYTHON, "-I", "-c", "pass") for _ in range(9))
        start = statistics.median(seconds(*tool, "--help") for _ in range(9))
        check = min(seconds(*tool, "check", str(folder / "1000.json")) for _ in range(2))
        cases = [{"memory": f"m{n}", "fires_at": []} for n in range(100)]
        fixture = {"pack": "100.json", "chat_file": "chat.jsonl", "cases": cases}
        (folder / "along.trigger.json").write_text(json.dumps(fixture), "utf-8")
        command = (*tool, "test", str(folder / "along.trigger.json"))
        along, worked = times(*command)
    print(f"bare Python                             {bare:6.3f} s")
    print(
        f"trigger-sandbox --help                  {start:6.3f} s  x{start / bare:.1f} (<= {HELP_SECONDS} s)"
    )
    print(f"check of 1,000 triggers                 {check:6.2f} s  (<= {CHECK_SECONDS} s)")
    print(
        f"test, 100 triggers, 1,000 messages      {along:6.2f} s  (<= {TEST_SECONDS} s), processor {worked:.2f} s"
    )
    return int(start > HELP_SECONDS or check > CHECK_SECONDS or along > TEST_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
