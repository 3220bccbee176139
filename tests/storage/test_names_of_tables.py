"""Each table that a statement names is one that the migrations make. This needs no PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

POSTGRES = Path(__file__).parents[2] / "memory_server" / "storage" / "postgres"
_NAMED = re.compile(r"\b(?:from|into|update|join|table)\s+(memory_server(?:\.\w++)++)(?! import)")


def test_statements_name_tables_of_the_migrations() -> None:
    made: set[str] = set()
    for migration in (POSTGRES / "migrations").glob("*.sql"):
        made |= set(re.findall(r"create table (memory_server\.\w+)", migration.read_text("utf-8")))
    named: set[str] = set()
    for module in POSTGRES.glob("*.py"):
        named |= set(_NAMED.findall(module.read_text("utf-8")))
    prefixes = {name for name in named if name.endswith("_")}  # the name itself is put in later
    assert len(named) > 5
    assert named - prefixes <= made
    assert all(any(table.startswith(prefix) for table in made) for prefix in prefixes)
