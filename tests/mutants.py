"""Run the tests against mutants: small changes of the code that decides, each of which a test should notice.

    python tests/mutants.py                   run the mutants of `mutants.csv` that have no verdict, and print the score
    python tests/mutants.py --again survived  run those with this verdict again; `all` is every mutant
    python tests/mutants.py --seed 7          draw 150 others from today's code into `.mutants/7.csv`, and run these

`mutants.toml` has the rooms: where mutants are drawn, and which tests run against them. Each mutant has its own copy of the
tree. The table is written after each verdict, so a run that was stopped goes on where it was. `drawn_mutants.py` draws.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from drawn_mutants import ROOT, SEED, TABLE, Mutant, draw, read_mutants, read_rooms, write_mutants

CPU_SECONDS = 60
"""Of a process of the tests. It is the same on a busy machine, unlike the time of a clock."""
WALL_SECONDS = 600
"""Ends tests that wait for ever."""
LEFT_IN_COPIES = (".*", "node_modules", "dist", "build", "mutants.*")
_FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What the tests of a room said of a tree."""

    word: str
    """`killed`, `survived` or `slow`."""
    said_by: str
    output: str


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, help="which draw; the kept one by default"
    )
    parser.add_argument("--draw", action="store_true", help="draw only, and run nothing")
    parser.add_argument("--again", metavar="VERDICT", help="run those with this verdict again")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    flags = parser.parse_args(arguments)

    path = TABLE if flags.seed == SEED else ROOT / ".mutants" / f"{flags.seed}.csv"
    if flags.draw or not path.exists():
        write_mutants(path, draw(flags.seed))
        if flags.draw:
            return 0

    mutants = read_mutants(path)
    for mutant in mutants:
        if flags.again in ("all", mutant.verdict):
            mutant.verdict = mutant.said_by = ""
    waiting = [mutant for mutant in mutants if not mutant.verdict]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        # The tree may be edited while the mutants run.
        tree = _copy(ROOT, Path(folder))
        if not _are_green({mutant.room for mutant in waiting}, tree):
            return 2
        _run(waiting, tree, flags.workers, lambda: write_mutants(path, mutants))
        # On a busy machine a mutant may only seem to be slow.
        slow = [mutant for mutant in waiting if mutant.verdict == "slow"]
        _run(slow, tree, 1, lambda: write_mutants(path, mutants))

    for mutant in mutants:
        mutant.first = mutant.first or mutant.verdict
    write_mutants(path, mutants)
    _print_score(mutants)
    return 0


def _are_green(rooms: Iterable[str], tree: Path) -> bool:
    """Whether the tests of each room pass and are fast while nothing is mutated."""
    for room in sorted(rooms):
        verdict = _test(tree, room)
        if verdict.word != "survived":
            print(f"The tests of {room} do not pass unchanged:\n{verdict.output}", file=sys.stderr)
            return False
        print(f"The tests of {room} pass while nothing is mutated.", flush=True)
    return True


def _run(mutants: list[Mutant], tree: Path, workers: int, keep: Callable[[], None]) -> None:
    """Give each mutant its verdict, and keep all after each."""
    with ThreadPoolExecutor(workers) as pool:
        verdicts = {pool.submit(_verdict_of, mutant, tree): mutant for mutant in mutants}
        for future in as_completed(verdicts):
            mutant = verdicts[future]
            verdict = future.result()
            mutant.verdict, mutant.said_by = verdict.word, verdict.said_by
            keep()
            print(f"{mutant.number:3} {mutant.verdict:8} {mutant.module}:{mutant.line}", flush=True)


def _verdict_of(mutant: Mutant, tree: Path) -> Verdict:
    module = tree / mutant.module
    changed = mutant.applied_to(module.read_text("utf-8")) if module.exists() else None
    if changed is None:
        return Verdict("gone", "", "")
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = _copy(tree, Path(folder))
        (copy / mutant.module).write_text(changed, "utf-8")
        return _test(copy, mutant.room)


def _copy(tree: Path, folder: Path) -> Path:
    """Copy a tree, with its compiled modules: these are used for files of the same time and size."""
    copy = folder / "tree"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(*LEFT_IN_COPIES))
    return copy


def _test(tree: Path, room: str) -> Verdict:
    """Run the tests of a room on a tree until one fails."""
    tests = read_rooms()[room]["tests"]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not full and not alone"]
    said = tree.with_name("said.txt")
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if sys.platform == "linux":
        import resource

        resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        process.wait(WALL_SECONDS)
    except subprocess.TimeoutExpired:
        return Verdict("slow", "", f"The tests of {room} did not end.")
    finally:
        # Programs that the tests started may still run.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    output_text = said.read_text("utf-8", "replace")
    if process.returncode < 0:
        return Verdict("slow", "", output_text)
    if process.returncode == 0:
        return Verdict("survived", "", output_text)
    failed = _FAILED_TEST.search(output_text)
    return Verdict("killed", failed[1] if failed else "import", output_text)


def _print_score(mutants: list[Mutant]) -> None:
    noticed = ("killed", "slow")
    first = sum(mutant.first in noticed for mutant in mutants)
    now = sum(mutant.verdict in noticed for mutant in mutants)
    print(f"{now} of {len(mutants)} mutants are killed; at first it was {first}.")
    for room, count in Counter(mutant.room for mutant in mutants).items():
        killed = sum(mutant.verdict in noticed for mutant in mutants if mutant.room == room)
        print(f"  {room}: {killed} of {count}")
    for mutant in mutants:
        if mutant.verdict not in noticed:
            print(f"\n{mutant.number} {mutant.verdict} {mutant.module}:{mutant.line} {mutant.note}")
            print("".join(f"-{line}" for line in mutant.before.splitlines(keepends=True)), end="")
            print("".join(f"+{line}" for line in mutant.after.splitlines(keepends=True)), end="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
