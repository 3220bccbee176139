"""The ledger of claims: each figure of the pages that say how good the server is. A fresh reader begins in `claims.toml`.

    python tests/claims.py --check                       name each figure of a page that the ledger does not have
    python tests/claims.py NAME [--data PATH] [--write]  measure a claim, a table or table/row again, and compare

PATH is a folder with the files of data sets. `--write` stores what was measured with its commit and day. Where to go on:
`page_figures.py` says what a figure is, `measured_claims.py` measures, docs/generation/measured_tables.py writes tables.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from generation.measured_tables import ROOT, measured_page, read_ledger, rows_of
from measured_claims import LedgerError, measure_again
from page_figures import Figure, figures, shown_text

KINDS = {
    "measured": ("value", "run", "result", "tolerance", "commit", "date", "says"),
    "time": ("value", "run", "result", "tolerance", "commit", "date", "says"),
    "cell": ("cell", "says"),
    "theirs": ("value", "source", "date", "says"),
    "withdrawn": ("value", "why", "says"),
    "given": ("value", "why", "says"),
}
"""What a claim of each kind needs; docs/project/evaluate-recall.md#the-ledger says what the kinds are for."""
_ADVICE = """Mend the page or tests/claims.toml: each figure of a page is in a claim, which quotes it in braces, or in a table of
tests/bench/tables. docs/project/evaluate-recall.md#the-ledger says how to add one and how to measure one again."""
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end: [\w-]+ -->", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{8,40}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_BRACED = re.compile(r"(\{[^{}]*\}|\s+)")


def main(arguments: list[str]) -> int:
    """Check, or measure again; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a claim, a table, or table/row")
    parser.add_argument("--check", action="store_true", help="compare the pages with the ledger")
    parser.add_argument("--data", metavar="PATH", type=Path, help="a folder with data sets")
    parser.add_argument("--write", action="store_true", help="store what was measured")
    flags = parser.parse_args(arguments)
    ledger = read_ledger()
    if flags.check:
        faults = list(faults_of(ledger, read_pages(ledger)))
        if faults:
            print(*faults, _ADVICE, sep="\n", file=sys.stderr)
        return 1 if faults else 0

    try:
        return 0 if measure_again(ledger, flags.name, flags.data, flags.write) else 1
    except LedgerError as error:
        print(error, file=sys.stderr)
        return 2


def read_pages(ledger: Mapping[str, Any]) -> dict[str, str]:
    """Read the pages of the ledger, by name."""
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in ledger["pages"]}


def faults_of(ledger: Mapping[str, Any], pages: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each claim or row that is incomplete, for each quotation that a page does not have, and for
    each figure of a page that is neither quoted nor in a table of the bench."""
    for name, claim in ledger["claims"].items():
        needed = KINDS.get(claim["kind"], ("known kind",))
        missing = [field for field in needed if claim.get(field, "") == ""]
        if missing:
            yield f"The claim {name} has no {' and no '.join(missing)}."
        for page in claim.get("says", {}).keys() - set(ledger["pages"]):
            yield f"The claim {name} quotes {page}, which is not among the pages of the ledger."
    for table in ledger["tables"]:
        for row in rows_of(table):
            if not (_COMMIT.fullmatch(row["commit"]) and _DAY.fullmatch(row["date"])):
                yield f"The row {row['row']} of {table}.csv does not name the commit and the day of its measurement."
    for name, page in pages.items():
        yield from _faults_of_page(ledger, name, page)


def _faults_of_page(ledger: Mapping[str, Any], name: str, page: str) -> Iterator[str]:
    language = "chinese" if name.endswith(".zh-CN.md") else "english"
    if measured_page(page, language) != page:
        yield f"{name}: a table is not that of its CSV; run `make docs`."
    shown = shown_text(_GENERATED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page))
    unquoted = {figure.start: figure for figure in figures(shown)}
    for claim_name, claim in ledger["claims"].items():
        for quotation in _list(claim.get("says", {}).get(name, [])):
            match = re.search(_pattern(quotation), shown)
            if match is None:
                yield f"{name} does not have what the claim {claim_name} quotes: {quotation}"
                continue
            # A figure belongs to one claim, so what was quoted before is no longer there.
            starts = map(match.start, range(1, match.re.groups + 1))
            quoted = [unquoted.pop(start, None) for start in starts]
            values = _values(ledger, claim)
            if not _equal(quoted, values):
                said = ", ".join(figure.text if figure else "no figure" for figure in quoted)
                yield f"{name} has {said} where the claim {claim_name} has {values}: {quotation}"
    for figure in unquoted.values():
        line = page.count("\n", 0, figure.start) + 1
        yield f"{name}:{line} has {figure.text}, which no claim quotes: {_quotation(name, page, figure)}"


def _pattern(quotation: str) -> str:
    """Return an expression in which each figure in braces is a group, and a blank is any white space."""
    expression = ""
    for part in _BRACED.split(quotation):
        if part.startswith("{"):
            expression += f"({re.escape(part[1:-1])})"
        else:
            expression += r"\s+" if part.isspace() else re.escape(part)
    return expression


def _equal(quoted: list[Figure | None], values: list[float]) -> bool:
    """Whether each figure is its value, rounded as it is written."""
    return len(quoted) == len(values) and all(
        figure is not None and abs(figure.value - value) <= figure.precision * 1.0001
        for figure, value in zip(quoted, values, strict=True)
    )


def _values(ledger: Mapping[str, Any], claim: Mapping[str, Any]) -> list[float]:
    """Return the values of a claim; a cell, such as found/sample-en/asked, has that of its table."""
    if claim["kind"] != "cell":
        return _list(claim["value"])
    values = []
    for cell in _list(claim["cell"]):
        table, row_name, column = cell.split("/")
        values += [float(row[column] or "nan") for row in rows_of(table) if row["row"] == row_name]
    return values


def _quotation(name: str, page: str, figure: Figure) -> str:
    """Return a line for a claim, which quotes a figure with what stands before it on its line."""
    start = max(page.rfind("\n", 0, figure.start) + 1, figure.start - 30)
    text = f"{page[start : figure.start].lstrip()}{{{figure.text}}}".replace('"', '\\"')
    return f'says."{name}" = "{text}"'


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
