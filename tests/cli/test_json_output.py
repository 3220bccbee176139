"""What `--json` prints is for programs, and a terminal obeys nothing in it."""

from __future__ import annotations

import json

import pytest

from memory_server.cli.terminal import from_afar, write
from memory_server.kernel.captured_io import CAPTURED_IO, CapturedIO

OBEYED = "".join(map(chr, (*range(32), *range(127, 160))))
TEXT = f"a{OBEYED}b\u2028c\U0001f642"


@pytest.fixture
def printed() -> str:
    """The line that is printed of an object with `TEXT`."""
    streams = CapturedIO()
    token = CAPTURED_IO.set(streams)
    try:
        write({"text": TEXT})
    finally:
        CAPTURED_IO.reset(token)
    return streams.output.decode()


def test_characters_that_a_terminal_obeys_are_escaped_and_come_back(printed: str) -> None:
    assert not set(printed.removesuffix("\n")) & set(OBEYED)
    assert json.loads(printed) == {"text": TEXT}


def test_a_linked_machine_prints_the_same(printed: str) -> None:
    assert from_afar(printed) == printed
