"""The tool `forget` says where the words stay that it does not forget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.knowledge.sessions.ids import Identity, RequestInfo, SessionIds
from memory_server.runtime.app import open_memory
from memory_server.tools.turn import forget

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("confirm", [False, True], ids=["asked", "confirmed"])
async def test_each_place_that_keeps_the_words_is_counted(
    confirm: bool, tmp_path: Path, elsewhere: None
) -> None:
    settings = Settings(seed=1, layers={"project_dir": tmp_path / "project"})  # type: ignore[arg-type]
    async with open_memory(tmp_path / "data", settings=settings) as app:
        await app.conversation().short_term.add([Message("user", "Dr Quillon is my therapist")])
        await app.conversation("other").short_term.add([Message("user", "Quillon said so")])
        await app.knowledge.sessions.add(SessionIds("ann"), "Quillon is in Elm Lane", mode="direct")
        await app.knowledge.layers["project"].save("quillon", "Quillon, Elm Lane 4")
        answer = await forget.function(app.call, "Quillon", confirm=confirm)
        nothing = await forget.function(app.call, "zebra")
        only_elsewhere = await forget.function(app.call, "Elm")
    counts = {row.what: row.count for row in answer.alsoIn}
    assert answer.found == 1
    assert counts == {"memories of other conversations": 1, "sessions": 1, "layers": 1}
    assert "memories of other conversations: 1" in str(answer)
    assert nothing.alsoIn == []
    assert "also stand" not in str(nothing)
    assert only_elsewhere.found == 0
    assert "No memory" not in str(only_elsewhere), "what was just counted is not denied"
    assert "(layers: 1, sessions: 1)" in str(only_elsewhere)


async def test_nobody_learns_what_another_user_has(tmp_path: Path, elsewhere: None) -> None:
    async with open_memory(tmp_path / "data", settings=Settings(seed=1)) as app:
        await app.knowledge.sessions.add(SessionIds("bob"), "Quillon is in Elm Lane", mode="direct")
        for user, counts in (("ann", {}), ("bob", {"sessions": 1}), (None, {"sessions": 1})):
            call = replace(app.call, wire=RequestInfo(Identity(user)))
            answer = await forget.function(call, "Quillon")
            assert {row.what: row.count for row in answer.alsoIn} == counts
