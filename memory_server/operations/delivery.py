"""Deliver the turns in the outbox of a linked machine: one loop sends them, and interprets each answer.

A turn leaves the outbox only for an answer that says what happened to it (`TurnResult`), or when the server refuses
it for good; then it is set aside with the reason. With any other answer, or without an answer, it stays.

Turns are delivered in order, with one exception: a turn whose file cannot be read or moved now, such as a file of
another user or on a bad sector, is named and stays, and later turns are delivered. Perhaps only its owner can repair
it by hand, so the others must not wait for it. Each turn has the time at which it was said, so a late one still takes
its place among the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import Protocol

from languages import Sentence, _
from memory_server.kernel.errors import NotReached, RemoteError
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.link import TOO_LARGE
from memory_server.kernel.values import frozen

TURN_SECONDS = 10.0
_BUSY = (429, 503)
_BUSY_SECONDS = 0.5
"""Seconds that the next try waits for a busy server, if there is a second left for it."""
_NEW_FIELDS = frozenset(("program", "said_by", "taken_back", "touched", "failed"))
"""Fields of a turn that an older server refuses; without them it stores the turn."""
_MAY_CHANGE = frozenset((401, 403, 407, 408, 409, 421, 425, 429))
"""Statuses 4xx that are about the token, the path to the server or this moment, and not about the turn."""


class TurnEnd(Enum):
    """The end of a turn: the server has it, the server keeps nothing of it, or the server refused it for good."""

    STORED = "stored"
    NOTHING_KEPT = "nothing kept"
    REFUSED = "refused"


@frozen
class TurnResult:
    """The end of a turn. `sentence` says why nothing of the turn is kept, or why it was refused."""

    ending: TurnEnd
    sentence: str = ""


class Server(Protocol):
    """The server to which turns are delivered."""

    @property
    def url(self) -> str: ...

    async def ask(
        self,
        path: str,
        body: Fields | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float,
    ) -> Json:
        """Return the answer. Raises RemoteError if it is refused, and NotReached."""


class Outbox(Protocol):
    """The turns that wait, by number, oldest first."""

    def turn(self) -> AbstractContextManager[bool]:
        """Take the right to deliver; yields False while another process has it."""

    def waiting(self) -> list[int]: ...

    def path_of(self, number: int) -> Path: ...

    def read(self, number: int) -> Json | None: ...

    def refuse(self, number: int, reason: str) -> Path: ...

    def delivered(self, number: int) -> None: ...

    def refused(self) -> Sequence[object]:
        """Return the turns that were set aside."""

    def may_retry(self) -> list[int]:
        """Return the numbers of the refused turns that can be sent again."""

    def retry(self, number: int) -> bool: ...


@frozen
class DeliveryRequest:
    """A request to deliver what waits, for at most so many seconds. `newest` is the number of a turn of now, which is
    dropped if the memory is paused; an earlier turn was said before the pause."""

    server: Server
    outbox: Outbox
    seconds: float
    newest: int | None = None


@frozen
class Delivery:
    """The end of a delivery. `stopped` says why turns still wait, if that is known. `newest` is the result of the
    turn of now, or None if it waits or another process delivers it. `complaints` tell people about other turns that
    were not delivered."""

    stopped: str | None = None
    newest: TurnResult | None = None
    complaints: tuple[str, ...] = ()


@frozen
class RetryReport:
    """The result of sending refused `turns` again. `unreadable` counts files that hold no turn and stay. `stopped`
    says why turns still wait."""

    turns: int
    unreadable: int
    waiting: int = 0
    refused: int = 0
    stopped: str | None = None

    @property
    def delivered(self) -> int:
        return self.turns - self.waiting - self.refused


def result_of(answer: Fields) -> TurnResult | None:
    """Interpret an answer with status 200. Return None if it does not say what happened to the turn."""
    stored = answer.get("stored")
    note = answer.get("note")
    if stored is True or (
        stored is False and isinstance(answer.get("id"), str)
    ):  # with an id, it was stored before
        return TurnResult(TurnEnd.STORED)
    if stored is False and isinstance(note, str) and note:
        return TurnResult(TurnEnd.NOTHING_KEPT, note)
    return None


def is_refused_for_good(error: RemoteError) -> bool:
    """Return whether the server would refuse the same turn again, whatever changes elsewhere."""
    if error.status == 404:  # of another kind, it is a server that lacks the path
        return error.kind == "not found"
    if (
        not error.kind and error.status not in TOO_LARGE
    ):  # not this server said it, but something on the way to it
        return False
    return 400 <= error.status < 500 and error.status not in _MAY_CHANGE


async def deliver(request: DeliveryRequest) -> Delivery:
    """Deliver the waiting turns, in order; nothing if another process is doing so."""
    with request.outbox.turn() as is_ours:
        if not is_ours:
            return Delivery()
        return await _Round(request).run()


async def retry_refused(
    outbox: Outbox, deliver_all: Callable[[], Awaitable[Delivery]]
) -> RetryReport:
    """Let the refused turns wait again, deliver all waiting turns, and report on the ones that were
    refused. One that was removed meanwhile, or whose number is in use, is left out. Raises
    StorageUnwritable."""
    numbers = outbox.may_retry()
    unreadable = len(outbox.refused()) - len(numbers)
    numbers = [number for number in numbers if outbox.retry(number)]
    if not numbers:
        return RetryReport(0, unreadable)
    delivery = await deliver_all()
    waiting = len(set(numbers).intersection(outbox.waiting()))
    refused = len(set(numbers).intersection(outbox.may_retry()))
    return RetryReport(len(numbers), unreadable, waiting, refused, delivery.stopped)


class _Round:
    """A delivery by the process that has the right to deliver."""

    def __init__(self, request: DeliveryRequest) -> None:
        self._server = request.server
        self._outbox = request.outbox
        self._deadline = time.monotonic() + request.seconds
        self._newest = request.newest
        self._result: TurnResult | None = None
        self._complaints: list[str] = []
        self._skipped: set[int] = set()

    async def run(self) -> Delivery:
        """Deliver until no turn waits, the time is over or the server does not take a turn."""
        waiting = self._waiting()

        while waiting:
            for number in waiting:
                seconds_left = self._deadline - time.monotonic()
                if seconds_left <= 0:
                    return self._ended(_("the time was used up"))
                try:
                    await self._deliver(number, seconds_left)
                except NotReached as error:
                    if error.status not in _BUSY or seconds_left < 1:
                        return self._ended(str(error))

                    # The server is busy: start again with the oldest turn, so that the order stays.
                    await asyncio.sleep(_BUSY_SECONDS)
                    break
                except RemoteError as error:
                    return self._ended(str(error))
                except OSError as error:
                    self._skip(number, error)
            waiting = self._waiting()
        return self._ended(None)

    def _waiting(self) -> list[int]:
        """Return the numbers of the waiting turns, without the turns that could not be read or removed."""
        return [number for number in self._outbox.waiting() if number not in self._skipped]

    def _skip(self, number: int, error: OSError) -> None:
        """Leave out a turn whose file cannot be read, in this round, and complain of it."""
        self._skipped.add(number)
        self._complaints.append(
            _(
                "a turn was not delivered and stays in {path}, while later turns are delivered: {reason}",
                self._outbox.path_of(number),
                error.strerror or error,
            )
        )

    def _ended(self, stopped: str | None) -> Delivery:
        return Delivery(stopped, self._result, tuple(self._complaints))

    async def _deliver(self, number: int, seconds_left: float) -> None:
        """Deliver one turn, or set it aside. Raises RemoteError if it must wait."""
        turn = self._outbox.read(number)
        if turn is None:
            return

        is_newest = number == self._newest
        try:
            result = await self._send_turn(
                turn, min(seconds_left, TURN_SECONDS), is_newest=is_newest
            )

        # The server did not decide about the turn, so it must not be set aside.
        except NotReached:
            raise
        except RemoteError as error:
            # The user paused the memory, so this turn must not be stored later.
            if error.kind == "paused" and is_newest:
                result = TurnResult(TurnEnd.NOTHING_KEPT, str(error))
            elif is_refused_for_good(error):
                aside = self._outbox.refuse(number, str(error))
                sentence = _(
                    "the server refused a turn, which is kept in {path}: {reason}", aside, error
                )
                if is_newest:
                    self._result = TurnResult(TurnEnd.REFUSED, sentence)
                else:
                    self._complaints.append(sentence)
                return
            else:
                raise

        self._outbox.delivered(number)
        if is_newest:
            self._result = result

    async def _send_turn(self, turn: Fields, seconds: float, *, is_newest: bool) -> TurnResult:
        """Send a turn and return its result. Raises RemoteError if the server refuses it, NotReached if the server
        does not say what happened to it."""
        body = dict(turn["body"])
        try:
            answer = await self._server.ask(turn["path"], body, turn["headers"], seconds=seconds)
        except RemoteError as error:
            if not is_refused_for_good(error) or not body.keys() & _NEW_FIELDS:
                raise

            # An older server refuses fields that it does not know.
            for name in _NEW_FIELDS:
                body.pop(name, None)
            answer = await self._server.ask(turn["path"], body, turn["headers"], seconds=seconds)

        result = result_of(answer)
        if result is None:
            raise NotReached(
                Sentence(
                    "{url} did not confirm that it stored the turn, so the turn stays on this machine; if the server "
                    "is of an older version, update it.",
                    self._server.url,
                )
            )

        # During a pause the server keeps nothing, but an earlier turn was said before the pause and must wait.
        if result.ending is TurnEnd.NOTHING_KEPT and not is_newest:
            me = await self._server.ask("/v1/me", seconds=seconds)
            if me.get("paused"):
                raise RemoteError(result.sentence, 409, "paused")
        return result
