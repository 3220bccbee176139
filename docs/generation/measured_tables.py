"""The tables of recall quality, in both languages, from the CSV files beside the bench.

`tests/claims.toml` says which columns a table has and which command measures it; a row of the CSV says of which data
set, at which commit and on which day it was measured. `make claims NAME=… WRITE=1` measures a row again.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.markdown import replaced, table

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "tests" / "claims.toml"
TABLES = ROOT / "tests" / "bench" / "tables"
_MARK = re.compile(r"<!-- generated: ([\w-]+) -->\n")


def measured_page(text: str, language: str) -> str:
    """Return the page with each of its tables as its CSV has it; `language` is "english" or "chinese"."""
    tables = read_ledger()["tables"]
    for name in _MARK.findall(text):
        text = replaced(text, name, measured_table(tables[name], rows_of(name), language))
    return text


def read_ledger() -> dict[str, Any]:
    """Read the ledger of claims."""
    return tomllib.loads(LEDGER.read_text(encoding="utf-8"))


def rows_of(name: str) -> list[dict[str, str]]:
    """Read the rows of a table."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measured_table(form: Mapping[str, Any], rows: list[dict[str, str]], language: str) -> str:
    """Return a table in Markdown; its first column names what was measured."""
    columns = form["columns"]
    head = [form[language], *(column[language] for column in columns)]
    lines = [[row[language], *(_shown(row, column) for column in columns)] for row in rows]
    return table(head, lines)


def _shown(row: Mapping[str, str], column: Mapping[str, Any]) -> str:
    """Return a figure as readers see it: a share as a percentage, with its interval where the column has one."""
    name = column["name"]
    if not row[name]:
        return ""
    value = float(row[name])
    match column["form"]:
        case "count":
            return f"{value:,.0f}"
        case "mean":
            return f"{value:.1f}"
        case "share":
            return f"{value:.0%}".replace("%", " %")
        case "interval":
            low, high = float(row[f"{name} low"]), float(row[f"{name} high"])
            return f"{value * 100:.0f} % [{low * 100:.0f}, {high * 100:.0f}]"
    raise ValueError(f"{column['form']} is not a form of a column")
