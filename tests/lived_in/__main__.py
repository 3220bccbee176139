"""Replays the steps of a failing run, or lives many lives:

python -m lived_in 'hook:12 tool:5'      these steps, from the folder tests
python -m lived_in --from 0 --runs 100 --length 60
"""

from __future__ import annotations

import argparse
import time
from random import Random

from lived_in.life import random_life, steps_of
from lived_in.runs import live
from lived_in.workshop import workshop


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", nargs="?", default="")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--every", type=int, default=12)
    flags = parser.parse_args()
    lives = [steps_of(flags.steps)]
    if not flags.steps:
        lives = [
            random_life(Random(flags.first + number), flags.length) for number in range(flags.runs)
        ]
    failed = 0
    with workshop() as (runner, sandbox):
        for number, steps in enumerate(lives, flags.first):
            began = time.monotonic()
            run = live(steps, runner, sandbox, look_every=flags.every)
            seconds = time.monotonic() - began
            print(
                f"life {number}: {run.taken} steps, {run.looks} looks, {run.asked} faces, {seconds:.1f} s",
                flush=True,
            )
            if run.faults:
                failed += 1
                print(run.report(), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
