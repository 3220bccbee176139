"""The official conformance suite against `serve --http`, in both protocol eras (the older one in `make test-full`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from clients.node_clients import run
from http_server import HANDSHAKE, MODERN, serving

PACKAGE = "@modelcontextprotocol/conformance"
MOST = {HANDSHAKE: 21, MODERN: 28}
"""Checks that are known to fail, each with its reason: they may become fewer."""


def known_failures(revision: str) -> Path:
    return Path(__file__).with_name(f"conformance-{revision}.yml")


@pytest.mark.parametrize("revision", [pytest.param(HANDSHAKE, marks=pytest.mark.full), MODERN])
def test_the_suite_finds_nothing_but_what_is_known(tmp_path: Path, revision: str) -> None:
    with serving(
        tmp_path / "data", http__open="true", http__requests_per_minute="600000"
    ) as server:
        completed = run(
            PACKAGE,
            "conformance",
            *("server", "--url", f"{server.url}/mcp", "--requirements", revision),
            *("--expected-failures", str(known_failures(revision))),
            home=tmp_path,
            cwd=tmp_path,
        )
    assert completed.returncode == 0, (
        completed.stdout[completed.stdout.find("=== SUMMARY") :] + completed.stderr
    )


@pytest.mark.parametrize("revision", MOST)
def test_each_known_failure_is_one_check_with_a_reason(revision: str) -> None:
    lines = known_failures(revision).read_text("utf-8").splitlines()
    entries = [line for line in lines if line.startswith("  - ")]
    assert len(entries) <= MOST[revision]
    assert all(re.fullmatch(r"  - [\w-]+:[\w-]+ # \w.{10,}", entry) for entry in entries)
