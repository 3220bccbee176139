"""How often the model reads of an earlier fault before it makes the call that would repeat it: 30 made transcripts.

In the first session somebody states a rule, or something fails and is mended. Weeks of other work lie between. In the
second session the model makes the calls of a script, the last of which repeats the fault; before each call, what the hooks
have given until then is looked at. Three more projects hear of nothing that happened: what comes there is needless, and so
is what comes about something else than the fault.

    python tests/bench/repeated_faults.py
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from hook_transcripts import assistant, event, transcript, user

from memory_server.cli.parser import main


class Fault(NamedTuple):
    """`said` and `answer`: the first session, in which `failed` (a command and its output) went wrong. `prompt` and
    `calls`: the second one, whose last call repeats the fault. `needle`: what the model must read before it."""

    said: str
    answer: str
    prompt: str
    calls: list[str]
    needle: str
    failed: tuple[str, str] | None = None


FAULTS = [
    Fault(
        "migrations/0042.sql must never be edited, it is applied in production.",
        "Noted.",
        "Make the price column wider.",
        ["read migrations/0042.sql", "edit migrations/0042.sql"],
        "applied in production",
    ),
    Fault(
        "Fix the totals.",
        "Fixed. src/totals.py must round each line before the sum, because the tax office checks lines.",
        "Speed the invoice totals up.",
        ["run ls src", "read src/totals.py", "edit src/totals.py"],
        "round each line",
    ),
    Fault(
        "api/schema.json is generated, so don't edit it by hand; run `make schema`.",
        "Understood.",
        "Add a field `note` to orders.",
        ["read api/schema.json", "edit api/schema.json"],
        "generated",
    ),
    Fault(
        "We decided that config/flags.yml keeps old flags, because the phones read them for a year.",
        "I keep them.",
        "Clean up the flags we no longer use.",
        ["run grep -r flag src", "read config/flags.yml", "edit config/flags.yml"],
        "phones read them",
    ),
    Fault(
        "Why does checkout hang?",
        "lib/checkout.rb took a lock twice, which deadlocks; it must never call reserve inside the transaction.",
        "Reserve the stock in the checkout as well.",
        ["read lib/checkout.rb", "edit lib/checkout.rb"],
        "never call reserve",
    ),
    Fault(
        "vendor/parser.js is vendored: change it upstream instead.",
        "Ok.",
        "The parser drops the last comma, please mend it.",
        ["run node bug.js", "read vendor/parser.js", "edit vendor/parser.js"],
        "upstream instead",
    ),
    Fault(
        "src/clock.ts must use UTC only, local time broke the reports in March.",
        "Noted.",
        "Show the time in the header.",
        ["read src/header.ts", "read src/clock.ts", "edit src/clock.ts"],
        "UTC only",
    ),
    Fault(
        "Deploy it.",
        "The vault was sealed; `vault login` must run before make deploy.",
        "Ship version 2.",
        ["run git status", "run make deploy", "run make deploy"],
        "vault login",
        ("make deploy", "Exit code 2\nError: vault is sealed, permission denied"),
    ),
    Fault(
        "Run the tests.",
        "The tests need the database: `docker compose up -d db` first, otherwise they fail.",
        "Are all tests green?",
        ["run pytest -q", "run pytest -q"],
        "docker compose up",
        ("pytest -q", "Exit code 1\nE psycopg.OperationalError: connection refused on port 5432"),
    ),
    Fault(
        "Build the docs.",
        "It needs the old sphinx: pip install 'sphinx<8' helped.",
        "Build the handbook.",
        ["run make html", "run make html"],
        "sphinx<8",
        ("make html", "Exit code 2\nImportError: cannot import name 'stemmer' from sphinx.search"),
    ),
    Fault(
        "Publish the package.",
        "The registry refused it until the version in Cargo.toml and the tag were the same.",
        "Publish 0.9.",
        ["run cargo publish", "run cargo publish"],
        "and the tag were the same",
        ("cargo publish", "Exit code 101\nerror: crate version 0.8.0 is already uploaded"),
    ),
    Fault(
        "Never run `terraform apply` here; the pipeline applies, because the state is shared.",
        "Understood.",
        "Run `terraform apply` for the new bucket.",
        ["run terraform apply -auto-approve"],
        "pipeline applies",
    ),
    Fault(
        "git push --force is not allowed on main, since it lost Ana's commits.",
        "I will not.",
        "Please `git push --force` the cleaned history.",
        ["run git push --force origin main"],
        "lost Ana",
    ),
    Fault(
        "What about src/legacy/billing.php?",
        "It is frozen until the audit is over, so nothing may change there.",
        "Rename the customer field everywhere.",
        ["run grep -rl customer src", "read src/legacy/billing.php", "edit src/legacy/billing.php"],
        "audit is over",
    ),
    Fault(
        "web/Upload.tsx must keep the old field names, otherwise the mobile app breaks.",
        "Ok.",
        "Tidy web/Upload.tsx up.",
        ["edit web/Upload.tsx"],
        "mobile app breaks",
    ),
    Fault(
        "数据库迁移 db/0007_users.sql 千万不要改，线上已经跑过了。",
        "好的。",
        "给用户表加一列。",
        ["read db/0007_users.sql", "edit db/0007_users.sql"],
        "线上已经跑过",
    ),
    Fault(
        "部署脚本怎么回事？",
        "scripts/deploy.sh 必须先停 worker，否则任务会丢失。",
        "把部署脚本改快一点。",
        ["read scripts/deploy.sh", "edit scripts/deploy.sh"],
        "先停 worker",
    ),
    Fault(
        "跑一下测试。",
        "失败是因为没有启动 redis；先运行 redis-server 就好了。",
        "测试全过了吗？",
        ["run npm test", "run npm test"],
        "redis-server",
        ("npm test", "Exit code 1\nError: connect ECONNREFUSED 127.0.0.1:6379"),
    ),
    Fault(
        "charge_card must never be retried, because customers paid twice.",
        "Noted.",
        "Make the payments more robust.",
        ["read-def src/pay.py charge_card", "edit src/pay.py"],
        "paid twice",
    ),
    Fault(
        "We agreed: InvoiceNumber stays a string, since leading zeros matter.",
        "Yes.",
        "Sort the invoices by number.",
        ["read-def app/invoice.kt InvoiceNumber", "edit app/invoice.kt"],
        "leading zeros",
    ),
    Fault(
        "docs/api.md is generated from the code, so edit the docstrings instead.",
        "Ok.",
        "Describe the new endpoint.",
        ["read docs/api.md", "edit docs/api.md"],
        "docstrings instead",
    ),
    Fault(
        "Dockerfile.prod must keep alpine 3.18; newer ones broke the fonts.",
        "Noted.",
        "Update the base images.",
        ["run ls", "read Dockerfile.prod", "edit Dockerfile.prod"],
        "broke the fonts",
    ),
    Fault(
        "Why is the search slow?",
        "Because src/search/index.go locks per word. Don't add a lock there again.",
        "Make the index safe for several writers.",
        ["read src/search/index.go", "edit src/search/index.go"],
        "Don't add a lock",
    ),
    Fault(
        "The release notes must not be written by hand.",
        "Right, tools/notes.py writes CHANGES.rst from the tickets.",
        "Add last week's changes to CHANGES.rst.",
        ["read CHANGES.rst", "edit CHANGES.rst"],
        "from the tickets",
    ),
    Fault(
        "Start the server.",
        "Port 8080 was taken by the proxy; PORT=8081 helped.",
        "Start it please.",
        ["run npm start", "run npm start"],
        "PORT=8081",
        ("npm start", "Exit code 1\nError: listen EADDRINUSE: address already in use :::8080"),
    ),
    Fault(
        "ci/build.yml must not cache node_modules, because the cache was poisoned once.",
        "Ok.",
        "Make the pipeline faster.",
        ["read ci/build.yml", "edit ci/build.yml"],
        "poisoned once",
    ),
    Fault(
        "Compile it.",
        "gcc 13 rejects it; CC=clang make all works.",
        "Compile the tool.",
        ["run make all", "run make all"],
        "CC=clang",
        ("make all", "Exit code 2\nerror: invalid conversion from const char to char in lexer.c"),
    ),
    Fault(
        "include/abi.h must never change its order, plugins are compiled against it.",
        "Noted.",
        "Group the fields of the struct.",
        ["read include/abi.h", "edit include/abi.h"],
        "compiled against it",
    ),
    Fault(
        "The staging key belongs into the vault only.",
        "Yes.",
        "Give staging the new key.",
        ["write .env.staging"],
        "vault only",
    ),
    Fault(
        "Do the import.",
        "The import must run at night, because it locks the orders.",
        "Import the new catalogue now.",
        ["run bin/import catalogue.csv"],
        "at night",
    ),
]
NOISE = [
    ("Rename the helper in src/text.py.", "I renamed it in src/text.py and src/app.py."),
    ("Why is the header grey?", "The style sheet web/site.css sets it."),
    ("Add a test for the parser.", "tests/test_parser.py has three more cases."),
    ("What does src/app.py do?", "It starts the web server and reads the settings."),
    ("Thanks!", "You are welcome."),
    ("The button should be green.", "It is green now, in web/site.css."),
    ("Make the log shorter.", "src/log.py writes one line a request."),
    ("Update the readme.", "README.md has the new command."),
]
DAY = 86_400
NOW = 1_795_900_000


class Session:
    """The hooks of one home, called in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.calls = 0

    def hook(self, happened: dict[str, Any], at: int) -> str:
        moment = _iso(at)
        out, sys.stdin = io.StringIO(), io.TextIOWrapper(io.BytesIO(json.dumps(happened).encode()))
        binary = io.BytesIO()
        out = io.TextIOWrapper(binary, write_through=True)
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            main(["--data-dir", str(self.folder / "data"), "--now", moment, "hook"])
        text = binary.getvalue().decode()
        if not text:
            return ""
        return str(json.loads(text)["hookSpecificOutput"]["additionalContext"])

    def remember(
        self, name: str, said: str, answer: str, at: int, failed: tuple[str, str] | None
    ) -> None:
        moment = _iso(at)
        work: list[dict[str, Any]] = []
        if failed is not None:
            call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": failed[0]}}
            result = {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": failed[1],
                "is_error": True,
            }
            work = [assistant(call, at=moment), user([result], at=moment)]
        path = self.folder / f"{name}.jsonl"
        path.write_bytes(transcript(user(said, at=moment), *work, assistant(answer, at=moment)))
        self.hook(
            self._event("Stop", name, transcript_path=str(path), last_assistant_message=answer), at
        )

    def _event(self, event_name: str, session: str, **fields: Any) -> dict[str, Any]:
        return event(
            event_name, session_id=session, cwd=str(self.project), prompt_id="p1", **fields
        )

    def work(self, prompt: str, calls: list[str]) -> list[str]:
        """What the model has read before each call, and after the last one."""
        read = [self.hook(self._event("SessionStart", "now", source="startup"), NOW)]
        read.append(self.hook(self._event("UserPromptSubmit", "now", prompt=prompt), NOW + 1))
        before = ["\n".join(read)]
        for number, call in enumerate(calls):
            read += self.call(call, NOW + 30 * (number + 1))
            before.append("\n".join(read))
        return before

    def call(self, call: str, at: int) -> list[str]:
        kind, _, rest = call.partition(" ")
        self.calls += 1
        use = {"tool_use_id": f"u{self.calls}"}
        if kind == "run":
            use |= {"tool_name": "Bash", "tool_input": {"command": rest}}
            texts = [self.hook(self._event("PreToolUse", "now", **use), at)]
            output = next(
                (fault.failed[1] for fault in FAULTS if fault.failed and fault.failed[0] == rest),
                None,
            )
            if output is not None:
                texts.append(
                    self.hook(self._event("PostToolUseFailure", "now", error=output, **use), at)
                )
            return texts
        path, _, name = rest.partition(" ")
        file = str(self.project / path)
        if kind.startswith("read"):
            content = {"type": "text", "file": {"content": f"def {name or 'f'}():\n    pass\n"}}
            use |= {
                "tool_name": "Read",
                "tool_input": {"file_path": file},
                "tool_response": content,
            }
            return [self.hook(self._event("PostToolUse", "now", **use), at)]
        use |= {
            "tool_name": "Edit",
            "tool_input": {"file_path": file, "old_string": "a", "new_string": "b"},
        }
        return [self.hook(self._event("PreToolUse", "now", **use), at)]


def _iso(at: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def measure() -> tuple[int, int, int]:
    """How many faults were read of in time, how many additions at tools were needless, and the calls of tools."""
    in_time = 0
    needless = 0
    calls = 0
    for number, fault in enumerate(FAULTS):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HOME"] = folder
            session = Session(Path(folder))
            session.remember("fault", fault.said, fault.answer, NOW - 40 * DAY, fault.failed)
            for row, (said, answer) in enumerate(NOISE):
                session.remember(f"noise{row}", said, answer, NOW - (30 - row) * DAY, None)
            others = [
                "read src/text.py",
                "edit src/text.py",
                "read web/site.css",
                "run git diff",
                "edit src/app.py",
            ]
            before = session.work(fault.prompt, [*others, *fault.calls])
            has_read = fault.needle in before[-2]
            at_prompt = fault.needle in before[0]
            in_time += has_read
            additions = [
                block for block in before[-1].split("<recalled-memories>")[1:] if "\n[" in block
            ]
            needless += sum(fault.needle not in block for block in additions)
            calls += session.calls
            where = (
                "at the prompt"
                if at_prompt
                else "at a tool"
                if has_read
                else "too late"
                if fault.needle in before[-1]
                else "never"
            )
            print(f"{number + 1:2d} {where:14s} {fault.calls[-1]}")
    return in_time, needless, calls


if __name__ == "__main__":
    found, needless, calls = measure()
    print(f"read in time: {found} of {len(FAULTS)}; needless: {needless} in {calls} calls of tools")
