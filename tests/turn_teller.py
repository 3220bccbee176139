"""A machine that tells turns, one after the other, as a process that may be killed: `turn_teller.py DATA NAME COUNT`.

It says each turn by `memory-server remember --turn`, notes it in `told` when the command has kept it, and begins after
the last one that is noted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memory_server.cli.parser import main

CONVERSATIONS = 3


def turn_of(name: str, number: int) -> tuple[str, str]:
    """The conversation of a turn, and its text. The last conversation is that of all machines."""
    kind = number % CONVERSATIONS
    return (
        "both" if kind == CONVERSATIONS - 1 else f"{name}{kind}"
    ), f"{name} said turn number {number:05}."


def tell(data: Path, name: str, count: int) -> None:
    record = data / "told"
    record.parent.mkdir(exist_ok=True)
    begin = len(record.read_bytes()) if record.exists() else 0
    for number in range(begin, count):
        conversation, text = turn_of(name, number)
        command = [
            "--data-dir",
            str(data),
            "-c",
            conversation,
            "remember",
            text,
            "--turn",
            f"{name}-{number}",
        ]
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        if main(command) != 0:
            raise SystemExit(1)
        with record.open("ab") as file:
            file.write(b".")


if __name__ == "__main__":
    tell(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
