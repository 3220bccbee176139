"""Answers of HTTP that are not what was asked for: a status, a kind and one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from starlette.responses import JSONResponse

from memory_server.kernel.errors import (
    InvalidInput,
    LockTimeout,
    MemoryNotFound,
    MemoryPaused,
    OutcomeUnknown,
    QuotaReached,
    ReadOnly,
    ResourceNotFound,
    StorageUnwritable,
    TriggersUnavailable,
)
from memory_server.tools.base.tool import ToolFailed

_BUSY = {"retry-after": "1"}
_STATUS: tuple[tuple[type[BaseException], int, str], ...] = (
    (ValidationError, 400, "arguments"),
    (ReadOnly, 403, "scope"),
    (InvalidInput, 400, "arguments"),
    (MemoryNotFound, 404, "not found"),
    (ResourceNotFound, 404, "not found"),
    (MemoryPaused, 409, "paused"),
    (QuotaReached, 507, "quota"),
    (LockTimeout, 503, "busy"),
    (TriggersUnavailable, 503, "busy"),
    (OutcomeUnknown, 504, "outcome unknown"),
    (StorageUnwritable, 507, "storage"),
)


class HttpError(Exception):
    """A request that gets this status; the message is one sentence for the caller."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self._headers = headers

    def response(self) -> JSONResponse:
        body = {"error": {"kind": self.kind, "message": str(self)}}
        return JSONResponse(body, self.status, self._headers)


def refused_for(error: BaseException, sentence: str | None = None) -> HttpError:
    """Return the refusal with the status for `error`, or for the cause of a tool's failure; 500 for an unknown error. An
    HttpError is returned as it is."""
    if isinstance(error, HttpError):
        return error
    if sentence is None:
        sentence = str(error)
    cause = error
    while isinstance(cause, ToolFailed) and cause.__cause__ is not None:
        cause = cause.__cause__
    for error_type, status, kind in _STATUS:
        if isinstance(cause, error_type):
            headers = _BUSY if status == 503 else None
            return HttpError(status, kind, sentence, headers)
    return HttpError(500, "server", sentence)
