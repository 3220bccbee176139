"""The OpenAPI document says what `POST /v1/{tool}` does: schemathesis asks by it and checks the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_server import TOKEN, Asker, said, serving

from memory_server.tools import ANSWERED_TOOLS, TOOLS, offered


@pytest.mark.parametrize(
    ("flags", "offered_tools"),
    [
        ([], set(ANSWERED_TOOLS)),
        (["--toolsets=short-term"], set(offered("short-term"))),
        (["--toolsets=sessions"], set(offered("sessions"))),
        (
            ["--toolsets=backup,notes", "--exclude-tools=delete_backup"],
            set(offered("backup,notes")) - {"delete_backup"},
        ),
    ],
)
def test_plain_calls_are_those_of_the_tools_that_are_offered(
    tmp_path: Path, flags: list[str], offered_tools: set[str]
) -> None:
    with serving(tmp_path / "data", *flags, ready=False, http__token=TOKEN) as server:
        asker = Asker(server.url, None)
        document = asker.http.get("/v1/openapi.json").json()
        refused = {
            name for name in TOOLS if Asker(server.url).call(name, {"x": 1}).status_code == 404
        }
    assert document["openapi"] == "3.1.0"
    paths = {f"/v1/{name}" for name in (*offered_tools, "me")}
    if set(offered("short-term")) <= offered_tools:
        paths |= {"/v1/import", "/v1/export"}
    assert set(document["paths"]) == paths
    assert refused == set(TOOLS) - offered_tools


def test_a_server_that_only_reads_refuses_a_change_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", "--read-only", http__token=TOKEN) as server:
        asker = Asker(server.url)
        refused = asker.call("remember_turn", said("x"))
        assert refused.status_code == 403
        assert "only reads" in refused.json()["error"]["message"]
        assert asker.call("recall_turn", said("x")).status_code == 200


@pytest.mark.parametrize("examples", [2, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.filterwarnings("ignore")
def test_answers_are_as_the_document_says(
    tmp_path: Path, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemathesis = pytest.importorskip(
        "schemathesis", reason="needs schemathesis: `make setup` installs it"
    )
    import hypothesis

    from schemathesis.checks import not_a_server_error  # isort: skip
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
    )  # isort: skip
    from schemathesis.specs.openapi.checks import status_code_conformance  # isort: skip

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {"http__token": TOKEN, "http__requests_per_minute": "6000000"}
    with serving(tmp_path / "data", "--toolsets=all,notes,layers,refs", **settings) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
        for described in schema.get_all_operations():
            operation = described.ok()

            @hypothesis.settings(
                max_examples=examples,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(case=operation.as_strategy())
            def ask(case: object) -> None:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                case.call_and_validate(headers=headers, checks=checks)  # type: ignore[attr-defined]

            ask()
