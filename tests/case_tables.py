"""Tables of cases: a CSV file beside the test that reads it, with a column `about` for what a row shows."""

from __future__ import annotations

import csv
from pathlib import Path


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
