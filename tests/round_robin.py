"""Users of several nodes over HTTP, behind a small balancer that asks one node after the other."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import httpx2 as httpx
from http_server import TOKEN, Server

_RUNS = itertools.count()


class Balancer:
    """Round robin over nodes: a client asks the next one if one does not answer. A write may be repeated, because a
    turn is known by its id."""

    def __init__(self, nodes: list[Server]) -> None:
        self._nodes = nodes
        self._next = itertools.count()
        self.passed_over = 0

    def ask(self, client: httpx.Client, tool: str, body: dict[str, Any]) -> dict[str, Any]:
        for _ in range(20):
            node = self._nodes[next(self._next) % len(self._nodes)]
            try:
                answer = client.post(
                    f"{node.url}/v1/{tool}", json=body, headers={"authorization": f"Bearer {TOKEN}"}
                )
            except httpx.TransportError:
                self.passed_over += 1
                continue
            if answer.status_code in (503, 504):
                self.passed_over += 1
                continue
            assert answer.status_code == 200, answer.text
            return answer.json()  # type: ignore[no-any-return]
        raise AssertionError("no node answers")


def use(
    nodes: list[Server], seconds: float, users: int, killed: Server | None = None
) -> tuple[list[float], int, int]:
    """Users who each tell a turn and recall, again and again; times of the recalls, turns, and turns that are lost."""
    run = next(_RUNS)
    balancer = Balancer(nodes)
    recalls: list[float] = []
    turns: list[tuple[str, str]] = []
    end = time.monotonic() + seconds

    def user(number: int) -> None:
        chat = f"user{number}-{run}"
        with httpx.Client(timeout=30) as client:
            for turn in itertools.count():
                if time.monotonic() > end:
                    return
                turn_id = f"{chat}-{turn}"
                question = f"In turn {turn} I planted {turn_id} apple trees in the garden"
                answer = f"Apple trees of {turn_id} are noted."
                messages = [
                    {"role": "user", "content": question},
                    {"role": "assistant", "content": answer},
                ]
                body = {"conversation_id": chat, "messages": messages, "turn_id": turn_id}
                balancer.ask(client, "remember_turn", body)
                turns.append((chat, turn_id))
                asked = {
                    "conversation_id": chat,
                    "messages": [{"role": "user", "content": "Which apple trees were planted?"}],
                }
                began = time.perf_counter()
                balancer.ask(client, "recall_turn", asked)
                recalls.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=user, args=[number]) for number in range(users)]
    for thread in threads:
        thread.start()
    if killed is not None:
        time.sleep(seconds / 2)
        killed.process.kill()
    for thread in threads:
        thread.join()
    lost = 0
    with httpx.Client(timeout=30) as client:
        for chat in {chat for chat, _ in turns}:
            living = [node for node in nodes if node is not killed]
            url = f"{living[0].url}/v1/get_memory_stats"
            answer = client.post(
                url, json={"conversation_id": chat}, headers={"authorization": f"Bearer {TOKEN}"}
            )
            assert answer.status_code == 200, answer.text
            lost += sum(conversation == chat for conversation, _ in turns) - answer.json()["total"]
    return recalls, len(turns), lost
