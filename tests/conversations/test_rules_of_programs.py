"""A program that gives rules as a dict gets a sentence, and nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.lore.memory import FiringRules
from memory_server.runtime.app import App

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("rules", [{"once": True}, None, "once"])
async def test_rules_of_another_type_are_refused(tmp_path: Path, rules: Any) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        long_term = app.conversation().long_term
        with pytest.raises(InvalidInput, match=r"`rules` is FiringRules"):
            await long_term.add("birthday", "Congratulate.", "true", rules=rules)
        await long_term.add("birthday", "Congratulate.", "true", rules=FiringRules(once=True))
        with pytest.raises(InvalidInput, match=r"`rules` is FiringRules"):
            await long_term.update("birthday", rules=rules)
        [memory] = await long_term.memories()
    assert memory.rules == FiringRules(once=True)
