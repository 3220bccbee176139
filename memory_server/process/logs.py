"""The log: one JSON object per line on standard error, because standard output belongs to the protocol."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from io import TextIOWrapper


class JsonLines(logging.Formatter):
    """Time in UTC, level, logger, message, and a traceback if there is one. Always in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Sentences(logging.Formatter):
    """What a person reads who typed a command; with `--log-level DEBUG` a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a record, with its traceback only if the log level is DEBUG."""
        line = f"memory-server: {record.getMessage()}"
        if record.exc_info and logging.getLogger().isEnabledFor(logging.DEBUG):
            return f"{line}\n{self.formatException(record.exc_info)}"
        return line


def log_to_stderr(level: str, *, serves: bool) -> None:
    """Write the log from `level` up: lines of JSON for a process that `serves`, else sentences. Clients read it as
    UTF-8 in every locale; a terminal keeps its own encoding."""
    if isinstance(sys.stderr, TextIOWrapper) and not sys.stderr.isatty():
        sys.stderr.reconfigure(encoding="utf-8")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if serves else Sentences())
    logging.basicConfig(level=level, handlers=[handler], force=True)
