"""Try real models, as the settings name them: python tests/llm/try_provider.py --settings FILE

Not a test: it sends two sentences of ours to the models of [llm], and needs their keys. Prints what came back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from memory_server.config import load
from memory_server.runtime.app import App
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

TALK = [
    {
        "role": "user",
        "content": "My sister Anna moved from Bonn to Köln, and I am allergic to peanuts.",
    },
    {"role": "assistant", "content": "Good to know."},
]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=Path, required=True)
    settings_file = parser.parse_args().settings
    with tempfile.TemporaryDirectory() as folder:
        settings = load(os.environ, {"data_dir": folder}, settings_file)
        async with App(settings) as app:
            for tool, arguments in (
                ("memory_add", {"messages": TALK}),
                ("memory_update", {"memory_id": 1, "data": "It was in May."}),
                ("memory_search", {"query": "May she eat nuts?"}),
                ("memory_get_stats", {}),
            ):
                print(tool, (await call(TOOLS[tool], app.call, arguments)).structured, "\n")


if __name__ == "__main__":
    asyncio.run(main())
