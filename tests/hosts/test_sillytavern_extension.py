"""The extension for SillyTavern without SillyTavern: its parts under Node, its texts, its size. The running program is
in test_in_sillytavern.py."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from clients.node_clients import node

EXTENSION = Path(__file__).parents[2] / "distribution" / "sillytavern"
MOST_LINES = 360
SCRIPT = (EXTENSION / "index.js").read_text("utf-8")


def test_its_parts_do_what_they_should_in_a_stub_of_the_program(tmp_path: Path) -> None:
    served = tmp_path / "scripts" / "extensions" / "third-party" / "any name"
    served.mkdir(parents=True)
    shutil.copy(EXTENSION / "index.js", served / "index.mjs")
    command = [
        node(),
        str(Path(__file__).with_name("sillytavern_parts.mjs")),
        (served / "index.mjs").as_uri(),
    ]
    completed = subprocess.run(
        command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=60
    )
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed.stderr


def test_every_text_is_in_chinese_and_no_other() -> None:
    texts = {
        re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", "${}", text)
        for text in re.findall(r"\bt`([^`]*)`", SCRIPT)
    }
    texts |= set(
        re.findall(r'data-i18n="([^"]*)"', (EXTENSION / "settings.html").read_text("utf-8"))
    )
    chinese = json.loads((EXTENSION / "i18n" / "zh-cn.json").read_text("utf-8"))
    assert {re.sub(r"\$\{\d\}", "${}", text) for text in chinese} == texts
    for english, text in chinese.items():
        assert sorted(re.findall(r"\$\{\d\}", text)) == sorted(re.findall(r"\$\{\d\}", english))


def test_it_is_small_and_makes_no_markup_of_what_was_said() -> None:
    lines = [
        line for line in SCRIPT.splitlines() if line.strip() and not line.strip().startswith("//")
    ]
    assert len(lines) <= MOST_LINES
    assert SCRIPT.count("innerHTML") == 1, (
        "of an element that holds text, for a question of the program"
    )
    assert SCRIPT.count("insertAdjacentHTML") == 1, "its own panel"
    assert "cache:" not in SCRIPT, "it would make a preflight of every request"
    assert not re.search(r"\bimport\s+.*\bfrom\b", SCRIPT), "nothing but the context"
