"""The isolation of users: a model of what each may see, for every way to call the tools of the toolset `sessions`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any

from memory_server.knowledge.sessions.ids import SOURCES
from memory_server.tools import TOOLSETS
from memory_server.tools.base.tool import ToolFailed

Said = Callable[..., Awaitable[dict[str, Any]]]
USERS = ("alice", "bob", "小明", "ALICE")
AGENTS = (None, "a", "b", "default")
RUNS = (None, "1", "2")
WORDS = ["tea", "coffee", "披萨", "过敏", "生日", "Bonn", "seven", "red", "->", "小雪"]


class World:
    """What each user may see: a model of the tools. Each text has a mark of its user, which nobody else may see. `said`
    calls a tool, and raises ToolFailed where it is refused. `lasts`: connections last, so a session can begin."""

    def __init__(self, said: Said, seed: int, *, lasts: bool = True) -> None:
        self.said = said
        self.random = random.Random(seed)
        self.lasts = lasts
        self.held: dict[int, tuple[str, str | None, str | None]] = {}
        self.calls = 0
        self.leaks: list[Any] = []

    async def step(self) -> None:
        choose = self.random.choice
        user = choose(USERS)
        agent = choose(AGENTS)
        run = choose(RUNS)
        ids = {"user_id": user, "agent_id": agent, "run_id": run}
        own = [n for n, who in self.held.items() if who[0] == user and self._fits(who, agent, run)]
        target = choose(list(self.held) or [1])
        words = " ".join(self.random.sample(WORDS, 3))
        star = {"agent_id": choose([agent, "*"]), "run_id": choose([run, "*"])}
        actions: dict[str, dict[str, Any]] = {
            "memory_add": ids
            | {
                "messages": f"{words} mark-{USERS.index(user)}-mark",
                "mode": choose(["direct", "inference"]),
            },
            "memory_search": ids
            | star
            | {
                "query": choose([words, "mark", "->"]),
                "search_type": choose(["text", "hybrid", "vector"]),
            },
            "memory_get_all": ids | star,
            "memory_update": ids
            | {"memory_id": target, "data": f"{words} mark-{USERS.index(user)}-mark"},
            "memory_delete": ids | {"memory_id": target},
            "memory_delete_all": ids | {"confirm": self.random.random() < 0.1},
            "memory_get_history": ids | star,
            "memory_get_stats": ids | star,
            "memory_init_session": {},
        }
        assert actions.keys() == {tool.name for tool in TOOLSETS["sessions"]}
        tool = choose([*actions, "memory_add", "memory_add", "memory_add", "memory_search"])
        self.calls += 1
        refusal = ""
        try:
            result = await self.said(tool, **actions[tool])
        except ToolFailed as failure:
            refusal = str(failure)
        if refusal:
            self._look(user, refusal)
            if tool == "memory_init_session" and not self.lasts:
                assert refusal.startswith("Connections do not last here")
            elif tool in ("memory_update", "memory_delete"):
                assert target not in own, "what is one's own can be changed"
                assert refusal.startswith(f"Memory {target} is not in this session;")
            elif tool != "memory_delete_all" or f"delete {len(own)} memor" not in refusal:
                self.leaks.append((tool, refusal, len(own)))
            return
        self._look(user, json.dumps(result, ensure_ascii=False))
        arguments = actions[tool]
        seen = [
            n
            for n, who in self.held.items()
            if who[0] == user
            and self._fits(who, arguments.get("agent_id"), arguments.get("run_id"))
        ]
        match tool:
            case "memory_add":
                self.held |= {added["id"]: (user, agent, run) for added in result["memories"]}
            case "memory_update" | "memory_delete" if target not in own:
                self.leaks.append((tool, target))
            case "memory_delete":
                del self.held[target]
            case "memory_delete_all":
                assert result["deletedCount"] == len(own)
                for number in own:
                    del self.held[number]
            case "memory_get_all" if result["total"] != len(seen):
                self.leaks.append((tool, result["total"], len(seen)))
            case "memory_get_stats" if result["count"] != len(seen):
                self.leaks.append((tool, result["count"], len(seen)))
            case "memory_search":
                self.leaks += [memory for memory in result["memories"] if memory["id"] not in seen]

    def _fits(
        self, who: tuple[str, str | None, str | None], agent: str | None, run: str | None
    ) -> bool:
        return agent in (None, "*", who[1]) and run in (None, "*", who[2])

    def _look(self, user: str, text: str) -> None:
        others = set(re.findall(r"mark-(\d)-mark", text)) - {str(USERS.index(user))}
        others |= set(re.findall(r'"user_id": "([^"]*)"', text)) - {user, "default_user", *SOURCES}
        self.leaks += [(user, text)] if others else []
