"""HTTP costs nothing where it is not used, and its commands are never given to a shared process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memory_server.process.invocation import Invocation
from memory_server.process.protocol import CannotShare


def test_serving_over_standard_input_imports_nothing_of_http() -> None:
    program = (
        # uvicorn is not in this list: the SDK imports it.
        "import sys, memory_server.runtime.app, memory_server.cli.serve, memory_server.serving.server\n"
        "import memory_server.serving.stdio.runner\n"
        "print([name for name in ('h11', 'jwt', 'prometheus_client', 'memory_server.serving.http') "
        "if name in sys.modules])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--http", "8460"],
        ["serve", "--http"],
        ["--tenant", "a", "recall", "x"],
        ["recall", "x", "--tenant", "a"],
        ["recall", "--tenant=a", "x"],
        ["recall", "--ten", "a", "x"],
        ["hook", "--tenant", "a"],
    ],
)
def test_a_shared_process_serves_neither_http_nor_tenants(arguments: list[str]) -> None:
    with pytest.raises(CannotShare):
        Invocation(arguments, {})
