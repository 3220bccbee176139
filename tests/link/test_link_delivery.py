"""Turns of two machines over a network that delays, cuts, repeats and reorders connections, while every process is
killed at random: none is lost, none comes twice, and each conversation has its turns in the order in which they were
said."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import http_server
import pytest
from cli_program import in_process
from http_server import TOKEN, Server, serving
from linked_machines import Network, network, token_file
from stdio_process import PATIENCE
from turn_teller import turn_of

from memory_server.kernel.link import Link
from memory_server.storage.link_files import LinkFile

TELLER = Path(__file__).parents[1] / "turn_teller.py"
MACHINES = ("laptop", "desktop")


def teller(machine: Path, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(TELLER), str(machine), machine.name, str(count)])


def number_told(machine: Path) -> int:
    path = machine / "told"
    if not path.exists():
        return 0
    return path.stat().st_size


def number_waiting(machine: Path) -> int:
    _, out, _ = in_process("--data-dir", str(machine), "where", "--json")
    return int(json.loads(out)["waiting"])


def stored_turns(home: Path) -> list[tuple[str, str]]:
    """Conversation and text of each turn, in the order in which they were stored."""
    status, out, err = in_process("--data-dir", str(home), "history", "--limit", "100000", "--json")
    assert status == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    rows.sort(key=lambda row: int(row["change"].partition("-")[0]))
    turns = []
    for row in rows:
        for step in row["steps"]:
            if step["what"] == "added":
                turns.append((row["place"], step["text"].removeprefix("user: ")))
    return turns


class Storm:
    """Kills of the server and of the machines, each after it has done something."""

    def __init__(self, home: Path, net: Network, rng: random.Random) -> None:
        self.home = home
        self.net = net
        self.rng = rng
        self.kills = 0

    def run(
        self, machines: list[Path], count: int, cuts: int, kills: int, server_kills: int
    ) -> int:
        """How many turns each machine has told: `count`, or more until there were enough `cuts`. At the end the network
        is calm, and what waits is delivered."""
        settings = {"http__token": TOKEN, "http__requests_per_minute": "1000000"}
        running = {machine: teller(machine, count) for machine in machines}
        lives = server_kills + 1
        try:
            for life in range(1, lives + 1):
                with serving(self.home, ready=False, **settings) as server:
                    self.net.target = server.port
                    self._until(
                        count * len(machines) * life // lives, running, count, kills * life // lives
                    )
                    while life == lives and self.net.cuts < cuts:
                        count += len(machines)
                        self._until(count * len(machines), running, count, kills)
                    if life == lives:
                        self.net.bad = 0.0
                        self._calm(machines)
                    else:
                        self._kill(server)
        finally:
            for process in running.values():
                process.kill()
                process.wait(PATIENCE)
        return count

    def _calm(self, machines: list[Path]) -> None:
        for machine in machines:
            for _ in range(100):
                if not number_waiting(machine):
                    break
                in_process("--data-dir", str(machine), "list", "-c", "both")
            assert not number_waiting(machine)

    def _kill(self, server: Server) -> None:
        server.process.kill()
        server.process.wait(PATIENCE)

    def _until(
        self, goal: int, running: dict[Path, subprocess.Popen[bytes]], count: int, kills: int
    ) -> None:
        """Until so many turns are told; meanwhile machines are killed, and tell on."""
        deadline = time.monotonic() + 40 * PATIENCE
        turns_before = -1
        next_kill = 0
        while (turns_told := sum(map(number_told, running))) < goal:
            assert time.monotonic() < deadline, f"{turns_told} of {goal} turns are told"
            for machine, process in running.items():
                if process.poll() is not None and number_told(machine) < count:
                    running[machine] = teller(machine, count)
            if turns_told != turns_before and turns_told >= next_kill and self.kills < kills:
                unfinished = [machine for machine in running if number_told(machine) < count]
                victim = self.rng.choice(unfinished or list(running))
                running[victim].kill()
                running[victim].wait(PATIENCE)
                self.kills += 1
                next_kill = turns_told + max(1, goal // (4 * kills + 1))
            turns_before = turns_told
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("turns", "cuts", "kills", "server_kills"),
    [(16, 3, 2, 1), pytest.param(1_000, 200, 30, 5, marks=pytest.mark.full)],
)
def test_none_is_lost_none_comes_twice_and_none_out_of_order(
    tmp_path: Path,
    turns: int,
    cuts: int,
    kills: int,
    server_kills: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        http_server, "PATIENCE", 10 * PATIENCE
    )  # the machines take the processor from the server
    home = tmp_path / "home" / "data"
    rng = random.Random(31)
    home.parent.mkdir()
    machines = [tmp_path / "machines" / name for name in MACHINES]
    machines[0].parent.mkdir()
    with network(1, rng) as net:
        for machine in machines:
            LinkFile(machine).write(Link(net.url, str(token_file(machine.parent))))
        net.bad = 0.5
        net.slow = 0.03
        storm = Storm(home, net, rng)
        turns_of_each = storm.run(machines, turns // len(MACHINES), cuts, kills, server_kills)
    arrived = stored_turns(home)
    expected = [turn_of(name, number) for name in MACHINES for number in range(turns_of_each)]
    print(
        f"{len(expected)} turns, {net.cuts} cuts, {net.repeats} repeated, {storm.kills} + {server_kills} kills"
    )
    assert storm.kills >= kills
    assert not Counter(expected) - Counter(arrived), "lost"
    assert not Counter(arrived) - Counter(expected), "twice"
    for name in MACHINES:
        turns_of_machine = [turn for turn in arrived if turn[1].startswith(f"{name} ")]
        texts: dict[str, list[str]] = {}
        for conversation, text in turns_of_machine:
            texts.setdefault(conversation, []).append(text)
        for conversation, texts_there in texts.items():
            assert texts_there == sorted(texts_there), f"out of order in {conversation}"
