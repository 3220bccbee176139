"""A worker that was taken over: whatever it answers, the parent stays well, and no answer outlives its question."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from attacks.driver import CONTEXT, NOW, Driver, outcome

from sandbox import Failed, Fired, PatternError, SandboxLimits, protocol
from sandbox.errors import ProtocolError
from sandbox.host import process
from sandbox.host.search import Scene, Search
from sandbox.protocol import Frame, Kind

# Speaks the protocol without V8: `answer(request, number)` gives the frames of each answer as (kind, body).
FAKE = """
import json, os, struct, sys
def send(kind, body):
    data = json.dumps(body).encode()
    left = memoryview(struct.pack('>4sBcHI', b'TSBX', VERSION, kind.encode(), 0, len(data)) + data)
    while left:
        left = left[os.write(1, left):]
def read():
    head = b''
    while len(head) < 12:
        piece = os.read(0, 12 - len(head))
        if not piece:
            os._exit(0)
        head += piece
    length, data = struct.unpack('>I', head[8:])[0], b''
    while len(data) < length:
        data += os.read(0, length - len(data))
    return json.loads(data)
send('H', {'pid': os.getpid(), 'layers': {'memory': {'holds': True}}, 'globals': []})
number = 0
while True:
    asked = read()
    for kind, body in ANSWER(asked, number):
        send(kind, body)
    number += 1
"""
HONEST = (
    "('D', {'rows': [[2, 1]] * len(a.get('triggers', '')), 'needs': [None] * len(a.get('sources', '')),"
    " 'id': a['id']}), ('Y', {'id': a['id']})"
)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Driver]:
    monkeypatch.setattr(
        process,
        "_START",
        FAKE.replace("VERSION", str(protocol.VERSION)).replace(
            "ANSWER", f"(lambda a, n: [{request.param}])"
        ),
    )
    driver = Driver(SandboxLimits(search_seconds=1.0), workers=1)
    yield driver
    driver.close()


@pytest.mark.parametrize("fake", [HONEST], indirect=True)
def test_the_fake_that_is_honest_is_believed(fake: Driver) -> None:
    fake.evaluate("x")
    pids = set(fake.sandbox.pids)
    for _ in range(3):
        assert fake.evaluate("x", "x") == (Fired(1), Fired(1))
    assert pids <= set(fake.sandbox.pids), "and lives on"


UNASKED = "('D', {'rows': [[1, 7]], 'id': a['id']}), ('Y', {'id': a['id']})"


@pytest.mark.parametrize(
    "fake",
    [
        f"{HONEST}, {UNASKED}",
        f"{HONEST}, *([('D', {{'rows': [[1, 7]]}}), ('Y', {{}})])",
        f"{HONEST}, ('P', {{'rows': [], 'id': a['id']}})",
    ],
    indirect=True,
    ids=["with the old name", "without a name", "a part"],
)
def test_an_answer_to_the_next_question_kills_the_worker_and_is_not_believed(fake: Driver) -> None:
    async def scenario() -> None:
        await fake.sandbox.warm()
        before = set(fake.sandbox.pids)
        for _ in range(6):
            (verdict,) = await fake.sandbox.evaluate(["x"], CONTEXT, now=NOW, seed=1)
            assert verdict == Fired(1)
            await asyncio.sleep(0.05)  # what was sent too much has arrived
        assert not before & set(fake.sandbox.pids)

    fake.run(scenario())


def row(*parts: Any) -> dict[str, Any]:
    return {"rows": [list(parts)]}


@pytest.mark.parametrize(
    "body",
    [
        row(2, -5),
        row(True, 1),
        row(2, True),
        row(3, 10**40, "timeout", "x", 1, 1),
        row(3, -1, "thrown", "x", 1, 1),
        row(3, 1, "thrown", 7, 1, 1),
        {"rows": [[2, 1]] * 2},
        {"rows": {"a": 1}},
        row(2, 1) | {"console": ["not asked for"]},
        row(2, 1) | {"trace": [{"operands": []}]},
        row(2, 1) | {"places": [[True, 1, 1]]},
        {"rows": [], "running": -1},
        {"rows": [], "running": True},
    ],
    ids=repr,
)
def test_nonsense_is_refused(body: dict[str, Any]) -> None:
    search = Search(SandboxLimits(), ["1"], Scene(CONTEXT, NOW, 1), [0])
    search.begin()
    search.request(step=False)
    with pytest.raises(ProtocolError):
        search.take(Frame(Kind.DONE, body))


def test_messages_are_cut_and_cleaned() -> None:
    search = Search.for_author(SandboxLimits(), "1", Scene(CONTEXT, NOW, 1))
    search.begin()
    search.request(step=False)
    body = row(3, 1, "thrown", "\ud800\x1b[31m\u202e" + "y" * 10**6, 1, 1) | {
        "console": ["\x1b" + "z" * 10**6]
    }
    assert search.take(Frame(Kind.DONE, body))
    (verdict,) = search.verdicts()
    assert isinstance(verdict, Failed)
    assert verdict.message.startswith("\ufffd\ufffd[31m\ufffdyyy")
    assert len(verdict.message) < 500
    assert len(search.console[0]) < 500
    json.dumps([verdict.message, *search.console]).encode()
    assert "\x1b" not in search.console[0]


def test_a_flood_of_console_lines_and_frames_is_refused() -> None:
    search = Search.for_author(SandboxLimits(), "1", Scene(CONTEXT, NOW, 1))
    search.begin()
    search.request(step=False)
    assert not search.take(Frame(Kind.PART, {"rows": [], "console": ["a"] * 150}))
    with pytest.raises(ProtocolError):
        search.take(Frame(Kind.PART, {"rows": [], "console": ["a"] * 51}))
    search.request(step=False)
    for _ in range(12):
        assert not search.take(Frame(Kind.PART, {"rows": []}))
    with pytest.raises(ProtocolError):
        search.take(Frame(Kind.PART, {"rows": []}))


NAMES = "('D', {'rows': [[2, 1]], 'findings': [[%s]], 'id': a['id']}), ('Y', {'id': a['id']})"


@pytest.mark.parametrize(
    "fake",
    [
        NAMES % "['reference', 1, 1, 1]",
        NAMES % "7",
        NAMES % "['reference', 'a', 0, 1]",
        NAMES % "*[['reference', 'a', 1, 1]] * 41",
        "('D', {'rows': [[2, 1]], 'findings': {}, 'id': a['id']}), ('Y', {'id': a['id']})",
    ],
    indirect=True,
)
def test_nonsense_about_names_refuses_the_trigger_and_raises_nothing(fake: Driver) -> None:
    (problem,) = fake.run(fake.sandbox.check("1", now=NOW, seed=1)).errors
    assert problem.kind == "killed"
    assert outcome(fake.evaluate("1")[0]) == "fired"


CLAIMED = "('D', {'rows': [[2, 1]], 'console': [%s], 'id': a['id']}), ('Y', {'id': a['id']})"
REFUSED = "('D', {'rows': [[3, 1, 'thrown', 'Threw ' + '\\x1b' * 900, 1, 1]], 'id': a['id']}), ('Y', {'id': a['id']})"


@pytest.mark.parametrize(
    "fake",
    [CLAIMED % "'\\x1b'", CLAIMED % "'11'", CLAIMED % "'2'", CLAIMED % "", REFUSED],
    indirect=True,
)
def test_nonsense_about_matches_is_refused_in_words(fake: Driver) -> None:
    with pytest.raises(PatternError) as refusal:
        fake.run(fake.sandbox.match_texts("/a/", ["a"]))
    assert "\x1b" not in str(refusal.value)
    assert len(str(refusal.value)) < 500
