"""`trigger-sandbox test`: collects, chooses and runs cases, and reports; `pack test` those of a pack. And `new`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript import literals
from sandbox.javascript.positions import caret
from sandbox.language import padded
from sandbox.locale import N_, _, counted, joined, spoken
from sandbox.verdicts import Failed, Fired, Verdict
from sandbox.workbench.chat_replay import time_of
from sandbox.workbench.explain import said, word
from sandbox.workbench.files import memory_named, read_usable, zone_of
from sandbox.workbench.fixtures import Case, Unusable, fixture_files, fixtures_beside, read_fixture
from sandbox.workbench.terminal import Terminal, UsageError, settled
from sandbox.workbench.timeline import verdicts_along

EXIT_PASSED, EXIT_FAILED, EXIT_MISUSE = 0, 1, 2
_MOST_MESSAGES = 3
_MOST_DIFFERENCES = 10


class CaseResult(NamedTuple):
    """`reasons`: why the case fails, in the first line, then details; empty if it passes."""

    case: Case | Unusable
    reasons: tuple[str, ...]

    @property
    def sign(self) -> str:
        """`.` passed, `F` failed, `E` could not be run."""
        return "." if not self.reasons else "E" if isinstance(self.case, Unusable) else "F"


async def _tried(case: Case, sandbox: TriggerSandbox) -> tuple[str, ...]:
    """Why the case fails, and what its trigger wrote; empty if it passes."""
    if isinstance(case.expected, tuple):
        rows = await verdicts_along(sandbox, [case.source], case.scenes())
        return tuple(_wrong_firings(case, case.expected, [verdict for (verdict,) in rows]))
    end = case.end()
    report = await sandbox.run(case.source, end.context, now=end.now, seed=end.seed)
    lines = list(_wrong_verdict(case, case.expected, report.verdict))
    return (*lines, *(f"{padded('console', 9)}{line}" for line in report.console if lines))


def test(options: argparse.Namespace) -> int:
    """Returns 0 when all cases pass, 1 when one fails, 2 when one cannot be run. Raises UsageError."""
    found = collect(fixture_files(options.paths), options.encoding)
    return run(found, Terminal(sys.stdout), options.k or "", first_only=options.x)


def test_pack(options: argparse.Namespace) -> int:
    """Runs the fixtures beside a pack that use it. Returns 1 when a case fails. Raises UsageError."""
    found, _unusable = read_usable(options.pack)
    beside = [case for case in collect(fixtures_beside(options.pack)) if _is_of(case, options.pack)]
    if not beside:
        raise UsageError(
            "no fixture beside {pack} names it; write one with `pack: {name}`, see docs/how-to/test-triggers.md",
            options.pack,
            Path(options.pack).name,
        )
    terminal = Terminal(sys.stdout)
    code = run(beside, terminal)
    tested = {
        memory_named(options.pack, found, case.memory).name for case in beside if isinstance(case, Case) and case.memory
    }
    if untested := [memory.name for memory in found if memory.name not in tested]:
        terminal.show(_("without a case: {untested}", ", ".join(untested)), "yellow")
    return code


def _is_of(case: Case | Unusable, pack: str) -> bool:
    if isinstance(case, Unusable) and case.line is None:
        return True  # a whole fixture that cannot be read: it may name this pack
    return case.pack is not None and (Path(case.file).parent / case.pack).resolve() == Path(pack).resolve()


def collect(files: Iterable[Path], encoding: str | None = None) -> list[Case | Unusable]:
    """The cases of all files; a file that cannot be read counts as an unusable case."""
    found: list[Case | Unusable] = []
    for path in files:
        try:
            found += read_fixture(path, encoding)
        except UsageError as error:
            found.append(Unusable(str(path), None, path.name, str(error)))
    return found


def run(found: Sequence[Case | Unusable], terminal: Terminal, words: str = "", *, first_only: bool = False) -> int:
    """Runs the cases whose file and name contain `words` and prints the results. Returns the exit code. Raises
    UsageError."""
    cases = [case for case in found if words.casefold() in f"{case.file} {case.name}".casefold()]
    if not cases:
        raise UsageError("-k matches none of the {found} cases; give a part of a case's name", len(found))
    terminal.show(
        _(
            "collected {cases} in {files}",
            counted(len(cases), "case"),
            counted(len({case.file for case in cases}), "file"),
        )
    )
    started = time.perf_counter()
    results: list[CaseResult] = []

    async def perform() -> None:
        file = None
        # A case of another time zone than the one before gets a new sandbox, since V8 keeps its first zone.
        for zone, group in groupby(cases, lambda case: case.timezone if isinstance(case, Case) else None):
            async with TriggerSandbox(timezone=zone) as sandbox:
                for case in group:
                    reasons = (case.reason,) if isinstance(case, Unusable) else await _tried(case, sandbox)
                    results.append(CaseResult(case, reasons))
                    if case.file != file:
                        file = case.file
                        terminal.show(f"\n{file} ", end="")
                    terminal.show(results[-1].sign, "red" if reasons else "green", end="")
                    if first_only and reasons:
                        return

    try:
        settled(perform())
    finally:
        terminal.show()
    for result in results:
        if result.reasons:
            _show_failure(terminal, result)
    if len(results) < len(cases):
        terminal.show(_("stopped at the first failure (-x)"))
    signs = Counter(result.sign for result in results)
    errors = counted(signs["E"], "error") if signs["E"] else ""
    failed = _("{count} failed", signs["F"]) if signs["F"] else ""
    passed = _("{count} passed", signs["."]) if signs["."] else ""
    left_out = _("{found} not chosen", len(found) - len(cases)) if len(found) > len(cases) else ""
    summary = joined(", ", filter(None, (failed, passed, errors, left_out)))
    color = "red" if signs["F"] or signs["E"] else "green"
    terminal.rule(_("{summary} in {seconds:.2f} s", summary, time.perf_counter() - started), color)
    if signs.keys() == {"."}:
        for path in dict.fromkeys(map(_tested, cases)):
            if path is not None:
                terminal.show(_("into the memory: {adding}", adding(path)))
    return EXIT_MISUSE if signs["E"] else EXIT_FAILED if signs["F"] else EXIT_PASSED


def _tested(case: Case | Unusable) -> Path | None:
    """The file of the trigger that a case tests: its pack, or the file beside the fixture with the same name."""
    fixture = Path(case.file)
    beside = fixture.with_name(fixture.name.removesuffix(".trigger.yaml") + ".js")
    path = beside if case.pack is None else fixture.parent / case.pack
    return path if path.is_file() else None


def adding(path: Path) -> str:
    """The command that stores the trigger of a file, or a pack, in the memory."""
    prompt = "" if path.suffix == ".json" else _(" --prompt 'what the model should know'")
    return f"memory-server add-trigger {shlex.quote(str(path))}" + prompt


def new(options: argparse.Namespace) -> int:
    """Writes a trigger and its fixture, which the author edits. Returns 0. Raises UsageError, and then writes nothing.
    A template has an example of a trigger, a line `---`, and the cases that it passes."""
    template = Path(__file__).with_name("templates").joinpath(f"{options.kind}.template").read_text("utf-8")
    source, _line, cases = _named(template, options.kind, options.name).partition("---\n")
    path = Path(options.folder) / f"{options.name or options.kind}.js"
    fixture = path.with_name(f"{path.stem}.trigger.yaml")
    named = json.dumps(path.name, ensure_ascii=False)
    head = f"trigger_file: {named}\ntz: UTC  # write the time zone of your server here\ncases:\n"
    files = {path: source, fixture: f"# When {named} fires and when it stays quiet.\n{head}{cases}"}
    if not options.force and (taken := [one for one in files if os.path.lexists(one)]):
        raise UsageError("{taken} exists already; add --force to replace it, or choose another name", taken[0])
    for place in files:
        if os.path.lexists(place) and not (place.is_symlink() or place.is_file()):
            raise UsageError("{file} is not a file; choose another name", place)
    if not path.parent.is_dir():
        raise UsageError("the folder {parent} does not exist; make it first", path.parent)
    for one, text in files.items():
        try:
            one.unlink(missing_ok=True)
            with one.open("x", encoding="utf-8", newline="\n") as file:  # a link is replaced, never followed
                file.write(text)
        except OSError as error:
            raise UsageError("{value} cannot be written: {reason}", one, error.strerror) from error
    terminal = Terminal(sys.stdout)
    for line in source.splitlines():
        terminal.show(f"    {line}")
    terminal.show()
    terminal.show(_("written: {path} and, beside it, {name}", path, fixture.name), "green")
    terminal.show(_("next: edit both, then: trigger-sandbox test {quote}", shlex.quote(str(fixture))))
    terminal.show(_("and into the memory: {adding}", adding(path)))
    return 0


def _named(template: str, kind: str, name: str | None) -> str:
    """A template with the name that the author gives in its places: in a comment, as keys, and in a message."""
    person = name or ("小满" if spoken() == "zh" else "Ann")
    places = {
        "{subject}": " ".join((name or f"The {kind}").split()),
        "{person}": " ".join(person.split()),
        "{key}": f"{literals.string(name)}, " if name else "",
        "{name}": literals.string(person),
        "{said}": json.dumps(f"{person}: 生日 birthday", ensure_ascii=False),
    }
    for place, text in places.items():
        template = template.replace(place, text)
    return template


def _show_failure(terminal: Terminal, result: CaseResult) -> None:
    """The place of the case, as editors open it with a click, the reason, then details."""
    case = result.case
    terminal.rule(case.name, "bold", "-")
    terminal.show(f"{case.file}:{case.line}" if case.line else case.file, "dim")
    first, *rest = result.reasons
    terminal.show(first, "red")
    for line in rest:
        terminal.show("    " + line)


def _wrong_verdict(case: Case, expected: str, verdict: Verdict) -> Iterator[str]:
    if expected == word(verdict) or (isinstance(verdict, Failed) and expected == f"failed ({verdict.kind})"):
        return
    yield _("expected {expected}, but it {said}", _(expected), said(verdict))
    if isinstance(verdict, Failed) and (pointer := caret(case.source, verdict.line, verdict.column)):
        yield from pointer.splitlines()
    yield padded(N_("now"), 9) + f"{_local(case, case.now)} ({case.timezone})"
    if not case.messages:
        yield _("chat     no messages")
    shown = range(max(0, len(case.messages) - _MOST_MESSAGES), len(case.messages))
    yield from (f"{padded('chat', 9)}{message_line(case, index + 1)}" for index in shown)
    yield from (f"{padded('trigger', 9)}{line}" for line in _clipped(case.source))


def _wrong_firings(case: Case, numbers: Sequence[int], verdicts: Sequence[Verdict]) -> Iterator[str]:
    fired = [number for number, verdict in enumerate(verdicts, start=1) if isinstance(verdict, Fired)]
    failed = any(isinstance(verdict, Failed) for verdict in verdicts)
    if fired == list(numbers) and not failed:
        return
    yield _("expected to fire {at}, but it fired {at2}", _at(numbers), _at(fired))
    wrong = [
        n for n, verdict in enumerate(verdicts, 1) if (n in fired) != (n in numbers) or isinstance(verdict, Failed)
    ]
    for number in wrong[:_MOST_DIFFERENCES]:
        wanted = _("fired") if number in numbers else _("quiet")
        yield f"{message_line(case, number)}"
        yield _("         expected {wanted}, but it {said}", wanted, said(verdicts[number - 1]))
    if len(wrong) > _MOST_DIFFERENCES:
        yield _("and {messages}", counted(len(wrong) - _MOST_DIFFERENCES, "more message"))


def _at(numbers: Sequence[int]) -> str:
    return _("at {numbers}", ", ".join(map(str, numbers))) if numbers else _("never")


def message_line(case: Case, number: int) -> str:
    """Message `number` (from 1) on one line: its number, its time if it has one, who and what."""
    message = case.messages[number - 1]
    time = time_of(message, UTC)
    said_at = f"{_local(case, time)} " if time else ""
    who = message.get("name") or message["role"]
    return f"#{number} {said_at}{who}: {' '.join(str(message['content']).split())}"


def _local(case: Case, moment: datetime) -> str:
    return moment.astimezone(zone_of(case.timezone)).isoformat(" ", "minutes")


def _clipped(source: str, most: int = 8) -> list[str]:
    lines = source.rstrip().splitlines()
    return lines if len(lines) <= most else [*lines[:most], _("... {lines} more lines", len(lines) - most)]
