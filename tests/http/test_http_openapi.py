"""The OpenAPI document says what `POST /v1/{tool}` does: schemathesis asks by it and checks the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_server import TOKEN, Asker, serving

from memory_server.tools import TOOLS


def test_the_document_has_every_tool_and_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--exclude-tools=delete_backup", http__token=TOKEN) as server:
        asker = Asker(server.url, None)
        document = asker.http.get("/v1/openapi.json").json()
        refused = Asker(server.url).call("delete_backup", {"name": "x"})
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {f"/v1/{name}" for name in TOOLS if name != "delete_backup"}
    assert refused.status_code == 404


@pytest.mark.parametrize("examples", [3, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.filterwarnings("ignore")
def test_answers_are_as_the_document_says(tmp_path: Path, examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: `make setup` installs it")
    import hypothesis

    from schemathesis.checks import not_a_server_error  # isort: skip
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance  # isort: skip
    from schemathesis.specs.openapi.checks import status_code_conformance  # isort: skip

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {"http__token": TOKEN, "http__requests_per_minute": "6000000"}
    with serving(tmp_path / "data", **settings) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()

            @hypothesis.settings(
                max_examples=examples, database=None, suppress_health_check=list(hypothesis.HealthCheck)
            )
            @hypothesis.given(case=operation.as_strategy())
            def ask(case: object) -> None:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                case.call_and_validate(headers=headers, checks=checks)  # type: ignore[attr-defined]

            ask()
