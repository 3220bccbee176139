"""`trigger-sandbox new`: writes a trigger and a fixture beside it, once the fixture has been seen to pass."""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.workbench.fixtures.case_runner import Zones, trials
from sandbox.workbench.fixtures.cases import Case, Unusable, cases
from sandbox.workbench.fixtures.forms import Beside
from sandbox.workbench.fixtures.outcomes import Outcome
from sandbox.workbench.sources.files import UsageError, write_files
from sandbox.workbench.sources.yaml_forms import load_yaml, quoted
from sandbox.workbench.templates import recipes
from sandbox.workbench.templates.calendar_words import WordError
from sandbox.workbench.templates.recipes import Recipe, Trial
from sandbox.workbench.terminal import Terminal

_NOT_IN_NAMES = re.compile(r'[\x00-\x1f<>:"/\\|?*#\s]+')

_RESERVED = re.compile(r"con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]", re.IGNORECASE)


def new(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError; then nothing was written."""
    try:
        recipe = recipes.recipe(options.kind, options.words)
    except WordError as error:
        raise UsageError(str(error)) from error
    stem = _NOT_IN_NAMES.sub("-", options.name or recipe.name).strip("-. ")[:60] or options.kind
    if _RESERVED.fullmatch(stem.partition(".")[0].rstrip()):
        stem = f"{options.kind}-{stem}"  # Windows takes it for a device
    source = Path(options.folder) / f"{stem}.js"
    fixture = Path(options.folder) / f"{stem}.trigger.yaml"
    text = fixture_text(recipe, source.name)
    found = cases(str(fixture), load_yaml(text), _Draft(source.parent, recipe.source))
    if wrong := [outcome for outcome in _outcomes(found) if not outcome.passed]:
        raise UsageError(
            f"no good trigger can be made of these words ({wrong[0].case.name}: {wrong[0].reasons[0]}); choose others"
        )
    write_files([(source, recipe.source + "\n"), (fixture, text)], force=options.force)
    terminal = Terminal(sys.stdout)
    for line in recipe.source.splitlines():
        terminal.say(f"    {line}")
    terminal.say()
    terminal.say(f"written: {source} and, beside it, {fixture.name}; its {len(found)} cases pass", "green")
    terminal.say(f"next: edit both, then: trigger-sandbox test {shlex.quote(str(fixture))}")
    return 0


class _Draft(Beside):
    """The fixture's trigger before it is written."""

    def __init__(self, folder: Path, source: str) -> None:
        super().__init__(folder)
        self._source = source

    def text(self, name: str) -> str:
        return self._source


def _outcomes(found: Sequence[Case | Unusable]) -> list[Outcome]:
    async def run() -> list[Outcome]:
        async with Zones() as zones:
            return [outcome async for outcome in trials(found, zones)]

    try:
        return asyncio.run(run())
    except SandboxError as error:
        raise UsageError(str(error)) from error


def fixture_text(recipe: Recipe, source_name: str) -> str:
    """The fixture as a person would write it."""
    lines = [
        f"# When {quoted(source_name)} fires and when it stays quiet.",
        f"trigger_file: {quoted(source_name)}",
        "tz: UTC  # write the time zone of your server here",
        "cases:",
    ]
    for trial in recipe.trials:
        lines += _case_lines(trial)
    return "\n".join(lines) + "\n"


def _case_lines(trial: Trial) -> list[str]:
    messages = [f"      - {role}: {quoted(text)}" for role, text in trial.chat]
    name = f"  - name: {quoted(trial.name)}"
    return [name, f"    now: {trial.now}", "    chat:", *messages, f"    expect: {trial.expect}"]
