"""Measuring the claims of the ledger again: running their commands, comparing, and storing what was measured."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from generation.measured_tables import LEDGER, ROOT, TABLES, rows_of
from page_figures import figures


class LedgerError(Exception):
    """A sentence about what cannot be measured."""


@dataclass(frozen=True)
class Measurement:
    """A command, and for each field the value that the ledger has and where it stands in what the command prints."""

    command: str
    sets: tuple[str, ...]
    known: Mapping[str, float]
    results: Mapping[str, str]
    tolerance: float


def measure_again(
    ledger: Mapping[str, Any], name: str | None, data: Path | None, write: bool
) -> bool:
    """Measure a claim, a table or a row, print both values of each figure, and return whether all agree. Raises
    LedgerError."""
    if name is None:
        raise LedgerError("Name what to measure again: a claim, a table, or table/row.")
    names = [name]
    if name in ledger["tables"]:
        names = [f"{name}/{row['row']}" for row in rows_of(name)]
    agree = True
    for each in names:
        measurement = measurement_of(ledger, each)
        printed = _printed(_command(ledger, measurement, data))
        now = {field: _found(printed, result) for field, result in measurement.results.items()}
        for field, value in now.items():
            known = measurement.known[field]
            # A figure that is no longer printed differs from one that the ledger has.
            both_missing = math.isnan(value) and math.isnan(known)
            same = both_missing or abs(value - known) <= measurement.tolerance
            agree = agree and same
            word = "same" if same else "DIFFERS"
            print(f"{each} {field}: ledger {known:.4g}, now {value:.4g}, {word}")
        if write:
            _store(each, now)
    return agree


def measurement_of(ledger: Mapping[str, Any], name: str) -> Measurement:
    """Return how a claim or a row of a table is measured. Raises LedgerError if no command does it."""
    table_name, _, row_name = name.partition("/")
    if row_name:
        rows = {row["row"]: row for row in rows_of(table_name)}
        if row_name not in rows:
            raise LedgerError(f"{table_name}.csv has no row {row_name}.")
        return _measurement_of_row(ledger["tables"][table_name], rows[row_name])
    claim = ledger["claims"].get(name)
    if claim is None:
        has = ", ".join([*ledger["tables"], *ledger["claims"]])
        raise LedgerError(f"The ledger has no claim {name}. It has {has}.")
    if "run" not in claim:
        raise LedgerError(
            f"The claim {name} is of the kind {claim['kind']}; no command measures it."
        )
    values, results = claim["value"], claim["result"]
    if not isinstance(results, list):
        values, results = [values], [results]
    fields = [str(number) for number in range(1, len(results) + 1)]
    return Measurement(
        claim["run"],
        tuple(claim.get("sets", ())),
        dict(zip(fields, values, strict=True)),
        dict(zip(fields, results, strict=True)),
        claim["tolerance"],
    )


def _measurement_of_row(table: Mapping[str, Any], row: Mapping[str, str]) -> Measurement:
    results: dict[str, str] = {}
    for column in table["columns"]:
        name, result = column["name"], column["result"].format(row=row["row"])
        if column["form"] == "count":
            results[name] = result
            continue
        results[name] = f"{result}/value"
        if column["form"] == "interval":
            results |= {f"{name} low": f"{result}/low", f"{name} high": f"{result}/high"}
    known = {field: float(row[field] or "nan") for field in results}
    command = f"{table['run']} {row['flags']}"
    return Measurement(command, tuple(row["sets"].split()), known, results, table["tolerance"])


def _command(ledger: Mapping[str, Any], measurement: Measurement, data: Path | None) -> str:
    """Return the command with the files of its sets; a flag names one as {set:madial-en-words}."""
    paths = " ".join(_path(ledger, name, data) for name in measurement.sets)
    command = measurement.command.replace("{data}", paths)
    return re.sub(r"\{set:([\w-]+)\}", lambda match: _path(ledger, match[1], data), command)


def _path(ledger: Mapping[str, Any], name: str, data: Path | None) -> str:
    """Return the file of a set, whose contents must be those that were measured. Raises LedgerError."""
    known = ledger["sets"][name]
    if "path" in known:
        return str(known["path"])
    file_name = known.get("file", f"{name}.jsonl")
    if data is None or not (data / file_name).exists():
        raise LedgerError(
            f"Give --data FOLDER with {file_name}: {known['source']}; {known['make']}"
        )
    path = data / file_name
    if hashlib.sha256(path.read_bytes()).hexdigest() != known["sha256"]:
        raise LedgerError(
            f"{path} is not the set that was measured: its sha256 is not {known['sha256']}."
        )
    return shlex.quote(str(path))


@cache
def _printed(command: str) -> str:
    """Return what a command prints. Rows of one command share its run, and no setting of the user counts."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("MEMORY_SERVER_")}
    words = [sys.executable, *shlex.split(command)]
    process = subprocess.run(words, cwd=ROOT, env=own, stdout=subprocess.PIPE, check=False)
    if process.returncode:
        raise LedgerError(f"`{command}` ended with {process.returncode}.")
    return process.stdout.decode()


def _found(printed: str, result: str) -> float:
    """Return a figure of the JSON that was printed, or of a text: what the group of an expression after `text:` says.
    One that is not there is not a number."""
    if result.startswith("text:"):
        match = re.search(result.removeprefix("text:"), printed)
        return next(figures(match[1])).value if match else math.nan
    found: Any = json.loads(printed)
    for step in result.split("/"):
        found = (found or {}).get(step)
    return math.nan if found is None else float(found)


def _store(name: str, now: Mapping[str, float]) -> None:
    """Write new values with their commit and day. Raises LedgerError if no commit has what was measured."""
    if _git("status", "--porcelain", "memory_server", "nlp", "tests/bench/*.py"):
        raise LedgerError("Commit what was measured first, so that the ledger can name it.")
    commit, day = _git("rev-parse", "--short=8", "HEAD"), f"{datetime.now(UTC):%Y-%m-%d}"
    shown = {field: "" if math.isnan(value) else f"{value:.4g}" for field, value in now.items()}
    table, _, row_name = name.partition("/")
    if row_name:
        rows = rows_of(table)
        for row in rows:
            if row["row"] == row_name:
                row.update(shown, commit=commit, date=day)
        with (TABLES / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return

    values = ", ".join(shown.values())
    fields = {"value": f"[{values}]" if len(shown) > 1 else values}
    fields |= {"commit": f'"{commit}"', "date": f'"{day}"'}
    before, head, rest = LEDGER.read_text(encoding="utf-8").partition(f"[claims.{name}]\n")
    claim, blank, after = rest.partition("\n\n")
    for field, value in fields.items():
        claim = re.sub(rf"^{field} = .*", f"{field} = {value}", claim, flags=re.MULTILINE)
    LEDGER.write_text(before + head + claim + blank + after, encoding="utf-8")


def _git(*arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return process.stdout.strip()
