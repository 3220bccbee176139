"""`trigger-sandbox test`: collects, chooses and runs cases, and reports; `pack test` runs the cases of a pack. And
`new`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from languages import N_, _, counted, joined, spoken
from languages.columns import padded
from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript import literals
from sandbox.javascript.literals import given_by_a_hook
from sandbox.javascript.positions import caret
from sandbox.javascript.tracing import copy_of
from sandbox.verdicts import Failed, Fired, RunReport, Verdict
from sandbox.workbench.chat_replay import time_of, verdicts_along
from sandbox.workbench.explain import reasons, said, word
from sandbox.workbench.files import memory_named, read_usable, zone_of
from sandbox.workbench.fixtures import Case, Unusable, fixture_files, fixtures_beside, read_fixture
from sandbox.workbench.terminal import Terminal, UsageError, settled

EXIT_PASSED = 0
EXIT_FAILED = 1
EXIT_MISUSE = 2
_MOST_MESSAGES = 3
_MOST_DIFFERENCES = 10


class CaseResult(NamedTuple):
    """The result of a case. `reasons`: why the case fails, in the first line, then details; empty if it passes.
    `why`: the findings of its trigger at the end of its chat."""

    case: Case | Unusable
    reasons: tuple[str, ...]
    why: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        """`.` passed, `F` failed, `E` could not be run."""
        if not self.reasons:
            return "."
        if isinstance(self.case, Unusable):
            return "E"
        return "F"


async def _tested(case: Case, sandbox: TriggerSandbox) -> CaseResult:
    """Run a case, and find why it fails and what its trigger found. Raises SandboxError if it
    cannot be run."""
    if isinstance(case.expected, tuple):
        verdicts = await verdicts_along(sandbox, case.source, case.scenes(), case.last_fired)
        wrong = tuple(_wrong_firings(case, case.expected, verdicts))
        return CaseResult(case, wrong)

    end = case.end()
    report = await sandbox.run(
        case.source,
        end.context,
        now=end.now,
        seed=end.seed,
        copy=copy_of(case.source),
        last_fired=case.last_fired,
    )
    lines = list(_wrong_verdict(case, case.expected, report.verdict))
    if lines:
        lines += [f"{padded('console', 9)}{line}" for line in report.console]

    return CaseResult(case, tuple(lines), tuple(_why(case, report)))


def _why(case: Case, report: RunReport) -> Iterator[str]:
    """Yield the verdict, and the lines in which `run` explains it."""
    yield _("it {said}", said(report.verdict))
    messages = case.end().context["messages"]
    first = len(case.messages) - len(messages) + 1
    yield from reasons(case.source, report, messages, first)


def test(options: argparse.Namespace) -> int:
    """Return 0 when all cases pass, 1 when one fails, 2 when one cannot be run. Raises UsageError."""
    cases = collect(fixture_files(options.paths), options.encoding)
    if options.host == "hook":
        cases = [_of_a_hook(case) for case in cases]
    terminal = Terminal(sys.stdout)
    return run(cases, terminal, options.k or "", first_only=options.x, shows_why=options.why)


def _of_a_hook(case: Case | Unusable) -> Case | Unusable:
    """Return a case whose searches get the messages that a hook gives."""
    if isinstance(case, Unusable):
        return case
    return replace(case, window=min(case.window, given_by_a_hook([case.source])))


def test_pack(options: argparse.Namespace) -> int:
    """Run the fixtures beside a pack that use it. Returns 1 when a case fails. Raises UsageError."""
    memories, _unusable = read_usable(options.pack)
    cases = [case for case in collect(fixtures_beside(options.pack)) if _is_of(case, options.pack)]
    if not cases:
        raise UsageError(
            "no fixture beside {pack} names it; write one with `pack: {name}`, see docs/how-to/test-triggers.md",
            options.pack,
            Path(options.pack).name,
        )

    terminal = Terminal(sys.stdout)
    code = run(cases, terminal)
    tested: set[str] = set()
    for case in cases:
        if isinstance(case, Case) and case.memory:
            tested.add(memory_named(options.pack, memories, case.memory).name)

    # A trigger without a test is a reminder, not an error.
    untested = [memory.name for memory in memories if memory.name not in tested]
    if untested:
        terminal.show(_("without a case: {untested}", ", ".join(untested)), "yellow")

    return code


def _is_of(case: Case | Unusable, pack: str) -> bool:
    if isinstance(case, Unusable) and case.line is None:
        return True  # a whole fixture that cannot be read: it may name this pack
    return (
        case.pack is not None
        and (Path(case.file).parent / case.pack).resolve() == Path(pack).resolve()
    )


def collect(files: Iterable[Path], encoding: str | None = None) -> list[Case | Unusable]:
    """Return the cases of all files; a file that cannot be read counts as an unusable case."""
    cases: list[Case | Unusable] = []
    for path in files:
        try:
            cases += read_fixture(path, encoding)
        except UsageError as error:
            cases.append(Unusable(str(path), None, name=path.name, reason=str(error)))
    return cases


def run(
    all_cases: Sequence[Case | Unusable],
    terminal: Terminal,
    words: str = "",
    *,
    first_only: bool = False,
    shows_why: bool = False,
) -> int:
    """Run the cases whose file and name contain `words` and print the results. Return the exit code. Raises
    UsageError."""
    cases = [
        case for case in all_cases if words.casefold() in f"{case.file} {case.name}".casefold()
    ]
    if not cases:
        raise UsageError(
            "-k matches none of the {found} cases; give a part of a case's name", len(all_cases)
        )

    terminal.show(
        _(
            "collected {cases} in {files}",
            counted(len(cases), "case"),
            counted(len({case.file for case in cases}), "file"),
        )
    )
    started = time.perf_counter()
    # Filled while the cases run, so that what ran is reported even if a later case cannot run.
    results: list[CaseResult] = []
    try:
        settled(_run_cases(cases, terminal, results, first_only=first_only))
    finally:
        terminal.show()

    for result in results:
        if result.reasons:
            _show_failure(terminal, result)
        if shows_why and result.why:
            _show_why(terminal, result)

    if len(results) < len(cases):
        terminal.show(_("stopped at the first failure (-x)"))

    signs = Counter(result.sign for result in results)
    summary = _summary(signs, not_chosen=len(all_cases) - len(cases))
    color = "red" if signs["F"] or signs["E"] else "green"
    terminal.rule(_("{summary} in {seconds:.2f} s", summary, time.perf_counter() - started), color)
    if signs.keys() == {"."}:
        for path in dict.fromkeys(map(_file_under_test, cases)):
            if path is not None:
                terminal.show(_("to store it: {adding}", adding(path)))

    if signs["E"]:
        return EXIT_MISUSE

    return EXIT_FAILED if signs["F"] else EXIT_PASSED


async def _run_cases(
    cases: Sequence[Case | Unusable],
    terminal: Terminal,
    results: list[CaseResult],
    *,
    first_only: bool,
) -> None:
    """Run the cases, show a sign for each, in a line for each file, and append what became of them to `results`, which
    has the cases that were run even if a later one raises. `first_only`: stop after the first that does not pass."""
    file_of_line = None
    # Neighbours in the same time zone share a sandbox; another zone needs a new sandbox, since V8 keeps its first
    # zone.
    for zone, cases_of_zone in groupby(cases, _zone_of_case):
        async with TriggerSandbox(timezone=zone) as sandbox:
            for case in cases_of_zone:
                result = await _result_of(case, sandbox)
                results.append(result)
                if case.file != file_of_line:
                    file_of_line = case.file
                    terminal.show(f"\n{case.file} ", end="")
                terminal.show(result.sign, "red" if result.reasons else "green", end="")
                if first_only and result.reasons:
                    return


async def _result_of(case: Case | Unusable, sandbox: TriggerSandbox) -> CaseResult:
    if isinstance(case, Unusable):
        return CaseResult(case, reasons=(case.reason,))
    return await _tested(case, sandbox)


def _zone_of_case(case: Case | Unusable) -> str | None:
    if isinstance(case, Unusable):
        return None
    return case.timezone


def _summary(signs: Mapping[str, int], *, not_chosen: int) -> str:
    """Return how many cases have each sign."""
    parts: list[str] = []
    if signs["F"]:
        parts.append(_("{count} failed", signs["F"]))
    if signs["."]:
        parts.append(_("{count} passed", signs["."]))
    if signs["E"]:
        parts.append(counted(signs["E"], "error"))
    if not_chosen:
        parts.append(_("{found} not selected", not_chosen))
    return joined(", ", parts)


def _file_under_test(case: Case | Unusable) -> Path | None:
    """Return the file of the trigger that a case tests: its pack, or the file beside the fixture
    with the same name. Return None if there is no such file."""
    fixture = Path(case.file)
    path = fixture.with_name(fixture.name.removesuffix(".trigger.yaml") + ".js")
    if case.pack is not None:
        path = fixture.parent / case.pack
    if not path.is_file():
        return None
    return path


def adding(path: Path) -> str:
    """Return the command that stores the trigger of a file, or a pack, in the memory."""
    prompt = "" if path.suffix == ".json" else _(" --prompt 'what the model should know'")
    return f"memory-server add-trigger {shlex.quote(str(path))}" + prompt


def new(options: argparse.Namespace) -> int:
    """Write a trigger and its fixture, which the author edits. Returns 0. Raises UsageError, and then writes nothing. A
    template has an example of a trigger, a line `---`, and the cases that it passes."""
    template = (
        Path(__file__)
        .with_name("templates")
        .joinpath(f"{options.kind}.template")
        .read_text("utf-8")
    )
    source, _line, cases = _named(template, options.kind, options.name).partition("---\n")
    path = Path(options.folder) / f"{options.name or options.kind}.js"
    fixture = path.with_name(f"{path.stem}.trigger.yaml")
    quoted_name = json.dumps(path.name, ensure_ascii=False)
    head = (
        f"trigger_file: {quoted_name}\ntz: UTC  # write the time zone of your server here\ncases:\n"
    )
    files = {
        path: source,
        fixture: f"# When {quoted_name} fires and when it stays quiet.\n{head}{cases}",
    }
    # Refused before anything is written, so that an error leaves no half of the example.
    _refuse_existing(files, force=options.force)
    if not path.parent.is_dir():
        raise UsageError("the folder {parent} does not exist; make it first", path.parent)

    for file_path, text in files.items():
        _write_new(file_path, text)

    terminal = Terminal(sys.stdout)
    for line in source.splitlines():
        terminal.show(f"    {line}")

    terminal.show()
    terminal.show(_("written: {path}, and {name} beside it", path, fixture.name), "green")
    terminal.show(
        _(
            "next: edit both files, then run: trigger-sandbox test {quote}",
            shlex.quote(str(fixture)),
        )
    )
    terminal.show(_("to store it, run: {adding}", adding(path)))
    return 0


def _refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    """Refuse to replace what is there. Raises UsageError."""
    existing = [path for path in paths if os.path.lexists(path)]
    if existing and not force:
        raise UsageError(
            "{taken} exists already; add --force to replace it, or choose another name", existing[0]
        )
    for path in existing:
        if not (path.is_symlink() or path.is_file()):
            raise UsageError("{file} is not a file; choose another name", path)


def _write_new(path: Path, text: str) -> None:
    """Write a file in the place of what is there. A link is replaced, never followed. Raises UsageError."""
    try:
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise UsageError("{value} cannot be written: {reason}", path, error.strerror) from error


def _named(template: str, kind: str, name: str | None) -> str:
    """Write the name that the author gives into the places of a template: in a comment, as keys, and in a message."""
    person = name or ("小满" if spoken() == "zh" else "Ann")
    subject = name or f"The {kind}"
    texts = {
        "{subject}": " ".join(subject.split()),
        "{person}": " ".join(person.split()),
        "{key}": f"{literals.string(name)}, " if name else "",
        "{name}": literals.string(person),
        "{said}": json.dumps(f"{person}: 生日 birthday", ensure_ascii=False),
    }
    for placeholder, text in texts.items():
        template = template.replace(placeholder, text)
    return template


def _show_failure(terminal: Terminal, result: CaseResult) -> None:
    """Show the place of the case, as editors open it with a click, the reason, then details."""
    case = result.case
    terminal.rule(case.name, "bold", "-")
    terminal.show(f"{case.file}:{case.line}" if case.line else case.file, "dim")
    first, *rest = result.reasons
    terminal.show(first, "red")
    for line in rest:
        terminal.show("    " + line)


def _show_why(terminal: Terminal, result: CaseResult) -> None:
    terminal.rule(result.case.name, "bold", "-")
    for line in result.why:
        terminal.show(line)


def _wrong_verdict(case: Case, expected: str, verdict: Verdict) -> Iterator[str]:
    """Yield the difference, the time, the last messages and the trigger, if the verdict is not the
    expected one."""
    kind = verdict.kind if isinstance(verdict, Failed) else ""
    if expected in (word(verdict), f"failed ({kind})"):
        return
    yield _("expected {expected}, but it {said}", _(expected), said(verdict))
    if isinstance(verdict, Failed):
        pointer = caret(case.source, verdict.line, verdict.column) or ""
        yield from pointer.splitlines()
    yield padded(N_("now"), 9) + f"{_local(case, case.now)} ({case.timezone})"
    if not case.messages:
        yield _("chat     no messages")
    first_shown = max(0, len(case.messages) - _MOST_MESSAGES)
    for index in range(first_shown, len(case.messages)):
        yield f"{padded('chat', 9)}{message_line(case, index + 1)}"
    for line in _clipped(case.source):
        yield f"{padded('trigger', 9)}{line}"


def _wrong_firings(
    case: Case, numbers: Sequence[int], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Yield the difference and the first wrong messages, if a case fires at other messages than
    `numbers`, or fails at one."""
    fired: list[int] = []
    wrong: list[int] = []
    for number, verdict in enumerate(verdicts, start=1):
        has_fired = isinstance(verdict, Fired)
        if has_fired:
            fired.append(number)
        if has_fired != (number in numbers) or isinstance(verdict, Failed):
            wrong.append(number)

    if not wrong and fired == list(numbers):
        return

    yield _("expected to fire {at}, but it fired {at2}", _at(numbers), _at(fired))
    for number in wrong[:_MOST_DIFFERENCES]:
        expected = _("fired") if number in numbers else _("quiet")
        yield f"{message_line(case, number)}"
        yield _("         expected {wanted}, but it {said}", expected, said(verdicts[number - 1]))

    if len(wrong) > _MOST_DIFFERENCES:
        yield _("and {messages}", counted(len(wrong) - _MOST_DIFFERENCES, "more message"))


def _at(numbers: Sequence[int]) -> str:
    if not numbers:
        return _("never")
    return _("at {numbers}", ", ".join(map(str, numbers)))


def message_line(case: Case, number: int) -> str:
    """Return message `number` (from 1) on one line: its number, its time if it has one, who and what."""
    message = case.messages[number - 1]
    time = time_of(message, UTC)
    said_at = ""
    if time is not None:
        said_at = f"{_local(case, time)} "
    who = message.get("name") or message["role"]
    text = " ".join(str(message["content"]).split())
    return f"#{number} {said_at}{who}: {text}"


def _local(case: Case, moment: datetime) -> str:
    return moment.astimezone(zone_of(case.timezone)).isoformat(" ", "minutes")


def _clipped(source: str, most: int = 8) -> list[str]:
    """Return the first lines of a trigger, and how many more it has."""
    lines = source.rstrip().splitlines()
    if len(lines) <= most:
        return lines
    return [*lines[:most], _("... {lines} more lines", len(lines) - most)]
