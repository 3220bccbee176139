"""Makes a data folder with the code of an older commit, and packs it into one text file for the tests:

    git worktree add /tmp/older COMMIT
    python tests/cli/folders_of_0_1_0/make.py /tmp/older tests/cli/folders_of_0_1_0/2026-11-22.json

It runs with the packages of this environment and the source of that commit.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

HANNA = "My sister Hanna is allergic to hazelnuts. She lives in Lisbon."
DEPLOY = "We deploy on Tuesdays: then the on-call team is complete."
POOLS = "Pools run in transaction mode."
PLUMBER = "After the backup: the plumber comes on Friday."
MARLIN = [
    {"role": "user", "content": "The boat is called Marlin."},
    {"role": "assistant", "content": "Noted."},
]
ALLERGY = {
    "conversation_id": "小明",
    "name": "过敏",
    "prompt": "小明对芒果过敏，提醒他。",
    "trigger": 'match_keys(context.messages, ["芒果", "mango"]) > 0',
}
NUTS = {
    "conversation_id": "default",
    "name": "nuts",
    "prompt": "Hanna is allergic to hazelnuts. Warn.",
    "trigger": 'match_keys(context.messages, ["praline", "nougat"]) > 0',
}


def _tool(tool: str, /, **arguments: object) -> Sequence[str]:
    return ("call", tool, json.dumps(arguments, ensure_ascii=False))


STEPS: Sequence[tuple[str, Sequence[str]]] = (
    ("2026-11-02T09:00+00:00", ("remember", "--session", "monday", HANNA)),
    ("2026-11-02T09:05+00:00", ("remember", "--session", "monday", DEPLOY)),
    (
        "2026-11-02T09:10+00:00",
        _tool("remember_turn", conversation_id="work/2026", messages=MARLIN),
    ),
    ("2026-11-03T10:00+08:00", ("-c", "小明", "remember", "我家猫叫煤球，今年三岁，最怕打雷。")),
    ("2026-11-03T10:10+08:00", _tool("add_long_term_memory", **ALLERGY)),
    ("2026-11-03T10:20+00:00", _tool("add_long_term_memory", **NUTS)),
    ("2026-11-04T09:00+00:00", ("recall", "--session", "tuesday", "What is Hanna allergic to?")),
    (
        "2026-11-04T09:30+00:00",
        ("remember", "--session", "tuesday", "The code of the door is 4711."),
    ),
    (
        "2026-11-04T09:40+00:00",
        _tool("delete_short_term_memories", conversation_id="default", pattern="/4711/"),
    ),
    ("2026-11-04T10:00+00:00", _tool("remember", type="tech", topic="postgres", content=POOLS)),
    (
        "2026-11-04T10:01+00:00",
        _tool("memory_add", messages="Likes green tea.", user_id="ana", mode="direct"),
    ),
    ("2026-11-04T10:02+00:00", _tool("memoryAdd", content="A long report about the harbour.")),
    (
        "2026-11-04T10:03+00:00",
        _tool("save_to_memory", key="tests", content="The tests need a clock."),
    ),
    ("2026-11-04T10:05+00:00", ("--tenant", "alice", "remember", "Alice likes tulips.")),
    ("2026-11-04T11:00+00:00", ("backup",)),
    ("2026-11-04T11:10+00:00", ("remember", "--session", "wednesday", PLUMBER)),
)


def main(code: Path, target: Path) -> None:
    """Run the steps, and the export of that version; write the packed files."""
    with tempfile.TemporaryDirectory() as temporary_folder:
        home = Path(temporary_folder)
        for name in ("data", "project/.git", "home"):
            (home / name).mkdir(parents=True)
        for now, words in STEPS:
            _run(code, home, "--now", now, *words)
        exported = _exported(code, home)
        files = {}
        for path in sorted(home.rglob("*")):
            name = path.relative_to(home).as_posix()
            if path.is_file() and path.stat().st_size and not name.startswith("home/"):
                files[name] = _packed(path.read_bytes())
        target.write_text(
            json.dumps({"files": files, "export": exported}, ensure_ascii=False, indent=1) + "\n",
            "utf-8",
        )


def _exported(code: Path, home: Path) -> str:
    """What that version writes by `export`."""
    file = home / "home" / "export.jsonl"
    _run(code, home, "--now", "2026-11-04T12:00+00:00", "export", str(file))
    return file.read_text("utf-8")


def _run(code: Path, home: Path, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home / "home"),
        "TZ": "UTC",
        "LANGUAGE": "en",
        "PYTHONPATH": str(code),
        "MEMORY_SERVER_DAEMON__ENABLED": "0",
        "MEMORY_SERVER_TOOLSETS": "all",
        "MEMORY_SERVER_LAYERS__PROJECT_DIR": str(home / "project"),
    }
    command = (sys.executable, "-m", "memory_server", "--data-dir", str(home / "data"), *words)
    completed = subprocess.run(
        command, env=environment, cwd=home / "project", capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        raise SystemExit(f"{words}: {completed.stderr}")
    return completed.stdout


def _packed(content: bytes) -> str | dict[str, str]:
    """Text as it is; anything else compressed and in base 64."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"zlib": base64.b64encode(zlib.compress(content, 9)).decode("ascii")}


def unpacked(packed: str | dict[str, str]) -> bytes:
    """The content of a file of the packed folder."""
    if isinstance(packed, str):
        return packed.encode("utf-8")
    return zlib.decompress(base64.b64decode(packed["zlib"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
