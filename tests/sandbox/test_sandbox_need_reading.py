"""Who is asked what triggers need, and what comes of answers that are wrong, late or missing: everything runs."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_triggers import Chance

from sandbox import Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict, protocol
from sandbox.errors import ProtocolError
from sandbox.host import process
from sandbox.host.need_reading import READ_AT_ONCE
from sandbox.javascript.needs import prospect_of
from sandbox.prospects import ALWAYS_TRUE, MOST_ATOMS, MOST_CHARACTERS, NEVER, UNKNOWN, Prospect
from sandbox.protocol import prospect_form, prospects

NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
CONTEXT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "你好"}],
    "conversation_id": "default",
    "participants": {},
}
QUIET = [f"match_keys(context.messages, ['w{number}']) > 0" for number in range(3 * READ_AT_ONCE)]


def as_read(prospect: Prospect) -> Prospect:
    """A prospect as it comes through a frame."""
    body = json.loads(json.dumps({"needs": [prospect_form(prospect)]}))
    return prospects(body, 1)[0]


@given(st.integers(0, 10**6))
def test_what_is_read_comes_whole_through_a_frame(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(20):
        prospect = prospect_of(chance.trigger())
        assert as_read(prospect) == prospect


def test_nothing_always_and_never_are_told_apart() -> None:
    assert as_read(UNKNOWN) == UNKNOWN
    assert as_read(ALWAYS_TRUE) == ALWAYS_TRUE
    assert as_read(Prospect(NEVER)) == Prospect(NEVER)


@pytest.mark.parametrize(
    "answer",
    [
        False,
        1,
        "a",
        {},
        [[]],
        [["any", 4]],
        [["any", 4, ""]],
        [["any", 4, "a\nb"]],
        [["any", 4, "a" * 13]],
        [["any", 4, 7]],
        [["any", 3, "a"]],
        [["any", True, "a"]],
        [["any", "4", "a"]],
        [["nobody", 4, "a"]],
        [["getMonth", "a"]],
        [["getMonth", 3]],
        [["getMonth", True]],
        [["getMonth", None]],
        [["conversation_id", 3.0]],
        [["conversation_id", "a" * (MOST_CHARACTERS + 1)]],
        [["getTime", 3.0]],
        [["any", 4, "a"]] * (MOST_ATOMS + 1),
    ],
    ids=repr,
)
def test_a_need_of_another_form_is_refused(answer: object) -> None:
    with pytest.raises(ProtocolError):
        prospects({"needs": [answer]}, 1)


@pytest.mark.parametrize(
    "body", [{}, {"needs": []}, {"needs": [None, None]}, {"needs": {"0": None}}], ids=repr
)
def test_each_trigger_has_one_answer(body: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        prospects(body, 1)


async def judged(sandbox: TriggerSandbox, sources: list[str]) -> dict[int, Verdict]:
    """The verdicts of those that ran, after the needs of all before them were read."""
    ran = dict(await sandbox.judge(sources, CONTEXT, now=NOW, seed=1))
    assert sandbox._need_reading is not None
    await sandbox._need_reading.finished()
    return ran


def test_only_a_worker_that_has_run_no_trigger_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    real = process.WorkerProcess.send
    ran: set[int] = set()
    readers: list[int] = []

    async def send(self: process.WorkerProcess, frame: protocol.Frame) -> None:
        if frame.kind is protocol.Kind.EVALUATE:
            ran.add(self.pid)
        elif frame.body["wanted"] == "needs":
            assert self.pid not in ran, "a trigger may have taken it over"
            readers.append(self.pid)
        await real(self, frame)

    monkeypatch.setattr(process.WorkerProcess, "send", send)

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            for number in range(3):
                source = f"match_keys(context.messages, ['word{number}']) > 0"
                assert list(await judged(sandbox, [source, "[] > 1"])) == [0, 1]
                assert list(await judged(sandbox, [source, "[] > 1"])) == [1]
                assert len(sandbox.pids) <= 2, "new readers take the place of old workers"

    asyncio.run(searches())
    assert len(readers) >= 3
    assert len(set(readers)) > 1, "each reader runs triggers later, so another one is asked"


def test_many_triggers_are_read_in_parts() -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            assert len(await judged(sandbox, QUIET)) == len(QUIET)
            assert await judged(sandbox, QUIET) == {}

    asyncio.run(searches())


@pytest.mark.parametrize(
    "source",
    [
        "(" * 1_900 + "true" + ")" * 1_900,
        "!" * 3_900 + "true",
        "true" + " && true" * 480,
        "[" * 1_900 + "]" * 1_900,
        "true || " * 490 + "true",
        "match_keys(context.messages, [/" + "(" * 900 + "a" + ")" * 900 + "/]) > 0",
        "match_keys(context.messages, ['" + "a\\u0301" * 500 + "']) > 0",
        "/*" + "*" * 3_900 + "*/ true",
        "true" + ";" * 3_900,
        "true //" + "a" * 10_000,
    ],
    ids=lambda source: source[:30],
)
def test_a_text_that_is_hard_to_read_keeps_no_other_from_being_read(source: str) -> None:
    sources = [source, QUIET[0]]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            first = await judged(sandbox, sources)
            second = await judged(sandbox, sources)
            assert isinstance(second.get(0, Quiet(0)), type(first[0]))
            assert 1 not in second

    asyncio.run(searches())


FAKE = """
import json, os, struct
def send(kind, body, id):
    data = json.dumps(body | {'id': id}).encode()
    os.write(1, struct.pack('>4sBcHI', b'TSBX', VERSION, kind.encode(), 0, len(data)) + data)
send('H', {'pid': os.getpid(), 'layers': {'memory': {'holds': True}}, 'globals': []}, None)
while True:
    head = os.read(0, 12)
    if not head:
        os._exit(0)
    length, data = struct.unpack('>I', head[8:])[0], b''
    while len(data) < length:
        data += os.read(0, length - len(data))
    asked = json.loads(data)
    if asked.get('wanted') == 'needs':
        ANSWER
    send('D', {'rows': [[2, 1]] * len(asked.get('triggers', '')), 'needs': None}, asked['id'])
    send('Y', {}, asked['id'])
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> SandboxLimits:
    """A worker that runs well and reads badly."""
    program = FAKE.replace("VERSION", str(protocol.VERSION)).replace("ANSWER", request.param)
    monkeypatch.setattr(process, "_START", program)
    return SandboxLimits(search_seconds=0.5)


@pytest.mark.parametrize(
    "fake",
    [
        "os._exit(7)",
        "while True: pass",
        "pass",
        "send('D', {'needs': [[]] * 99}, asked['id']); continue",
        "send('D', {'needs': [7]}, asked['id']); continue",
        "send('D', {'needs': [[]]}, 'another'); continue",
        "os.write(1, b'x' * 99); continue",
        "os.kill(os.getpid(), 9)",
    ],
    indirect=True,
)
def test_a_reader_that_fails_stops_no_search_and_hides_no_trigger(fake: SandboxLimits) -> None:
    async def searches() -> None:
        async with TriggerSandbox(fake, workers=1) as sandbox:
            for _ in range(3):
                assert await judged(sandbox, ["true", "x"]) == {0: Fired(1), 1: Fired(1)}

    asyncio.run(searches())


@pytest.mark.parametrize("fake", ["while True: pass"], indirect=True)
def test_a_sandbox_closes_while_its_reader_hangs(fake: SandboxLimits) -> None:
    async def search() -> None:
        sandbox = TriggerSandbox(fake, workers=1)
        await sandbox.judge(["true"], CONTEXT, now=NOW, seed=1)
        await asyncio.sleep(0.2)
        await asyncio.wait_for(sandbox.aclose(), 5)

    asyncio.run(search())
