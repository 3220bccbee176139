"""The engines, each opened once for the whole run, and the vectors of the Node original."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from nlp.keywords import Engine, open_jieba, open_rjieba

GOLDEN = Path(__file__).parents[1] / "golden" / "keywords_node.json"


@pytest.fixture(scope="session")
def jieba_engine() -> Engine:
    return open_jieba()


@pytest.fixture(scope="session")
def rjieba_engine() -> Engine:
    try:
        return open_rjieba()
    except ImportError as error:
        pytest.skip(f"rjieba has no build for this machine ({error}); jieba alone is tested")


@pytest.fixture(scope="session", params=["jieba", "rjieba"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    opened: Engine = request.getfixturevalue(f"{request.param}_engine")
    return opened


@pytest.fixture(scope="session")
def golden() -> Mapping[str, Any]:
    return MappingProxyType(json.loads(GOLDEN.read_text(encoding="utf-8")))
