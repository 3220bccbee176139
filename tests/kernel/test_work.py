"""What was done in a turn: which call changes which file, how a command is known, and which words its error tells."""

from __future__ import annotations

from typing import Any

import pytest

from memory_server.kernel.work import (
    MOST_ERROR_WORDS,
    MOST_FAILED,
    MOST_TOUCHED,
    Failure,
    ToolCall,
    Work,
    WorkSeen,
    command_head,
    defined_in,
    error_words,
    failure_of,
    is_same_failure,
    path_in,
    taken_work,
    tool_call,
    work_json,
)


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("Edit", {"file_path": "/p/a.py"}, ToolCall(("/p/a.py",), changes=True)),
        ("Write", {"file_path": "/p/a.py", "content": "x"}, ToolCall(("/p/a.py",), changes=True)),
        ("NotebookEdit", {"notebook_path": "/p/a.ipynb"}, ToolCall(("/p/a.ipynb",), changes=True)),
        ("replace", {"file_path": "a.py"}, ToolCall(("a.py",), changes=True)),
        ("apply_patch", "*** Update File: a.py\n@@\n", ToolCall(("a.py",), changes=True)),
        ("Read", {"file_path": "/p/a.py"}, ToolCall(("/p/a.py",))),
        ("Bash", {"command": "make test"}, ToolCall(command="make test")),
        ("shell", {"command": ["bash", "-lc", "make test"]}, ToolCall(command="make test")),
        ("exec_command", {"cmd": "make test"}, ToolCall(command="make test")),
        ("Grep", {"path": "/p"}, ToolCall()),
        ("Edit", {"file_path": 5}, ToolCall(changes=True)),
        (None, None, ToolCall()),
    ],
)
def test_a_call_names_the_files_that_it_changes_or_the_command_that_it_runs(
    name: object, arguments: Any, call: ToolCall
) -> None:
    assert tool_call(name, arguments) == call


@pytest.mark.parametrize(
    ("folder", "path", "relative"),
    [
        ("/home/x/p", "/home/x/p/src/a.py", "src/a.py"),
        ("/home/x/p", "src/a.py", "src/a.py"),
        ("/home/x/p", "./a.py", "a.py"),
        ("/home/x/p", "/home/x/other/a.py", ""),
        ("/home/x/p", "/home/x/pp/a.py", ""),
        ("C:\\p", "C:\\p\\a.py", "a.py"),
        ("/p", "../a.py", ""),
        (None, "/tmp/a.py", ""),
    ],
)
def test_a_path_is_told_from_the_folder_of_its_project(
    folder: str | None, path: str, relative: str
) -> None:
    assert path_in(folder, path) == relative


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("npm test", "npm test"),
        ("cd web && npm run build 2>&1 | tail -20", "npm run build"),
        ("FOO=1 sudo ./bin/deploy.sh prod", "deploy.sh prod"),
        ("uv run pytest tests/a.py -q", "pytest tests/a.py -q"),
        ("python -m pytest -x", "pytest -x"),
        ("npx jest --ci", "jest --ci"),
        ("timeout 60 make check", "make check"),
        ("git push --force origin main", "git push --force origin main"),
        ("cat <<'EOF' > a\nsecret text\nEOF", "cat"),
        ("echo hi", ""),
        ('"" ""', ""),
        ("\xa0", ""),
        # what may be a password
        ("mysql -u root -phunter2 db", "mysql -u -p db"),
        ("curl -u admin:S3cr3tPass https://x.y/z", "curl -u https://x.y/z"),
        ("sshpass -p hunter2 ssh a@b", "sshpass -p ssh a@b"),
        ("docker login -p hunter2xyz", "docker login"),
        ("vault login s.abcdef", "vault login"),
        ("cargo publish --token=abc", "cargo publish --token"),
        ("make 'unclosed", "make 'unclosed"),
        ("", ""),
    ],
)
def test_a_command_is_known_by_program_and_first_arguments(command: str, head: str) -> None:
    assert command_head(command) == head


TRACE = """Traceback (most recent call last):
  File "/home/x/p/app/models.py", line 12, in load
    import pydantic_core
ModuleNotFoundError: No module named 'pydantic_core'
"""


def test_the_words_of_an_error_are_of_the_lines_that_speak_of_one() -> None:
    assert error_words("collected 5 items\n" + TRACE)[:4] == (
        "ModuleNotFoundError",
        "No",
        "module",
        "named",
    )
    assert "collected" not in error_words("collected 5 items\n" + TRACE)
    assert (
        len(error_words("error: " + " ".join(f"word{n}x" for n in range(50)))) == MOST_ERROR_WORDS
    )


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("Exit code 3\nhi\nbad", 3),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nerror: no", 1),
        ("Chunk ID: 5\nProcess exited with code 127\nOutput:\nnot found", 127),
        ("Output: bad\nExit Code: 2", 2),
    ],
)
def test_a_command_failed_where_its_output_has_a_status(output: str, status: int) -> None:
    failure = failure_of("make test", output, failed=True)
    assert failure is not None
    assert (failure.command, failure.status) == ("make test", status)


@pytest.mark.parametrize(
    "output",
    [
        "fine",
        "Exit code 0\nfine",
        "The user doesn't want to proceed with this tool use. The tool use was rejected",
        "PreToolUse:Bash hook error: blocked",
    ],
)
def test_a_command_that_was_refused_or_ended_well_did_not_fail(output: str) -> None:
    assert failure_of("make test", output) is None


def test_a_huge_output_costs_little_and_no_secret_stays_of_it() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    output = (
        "Exit code 1\n"
        + "x" * 5_000_000
        + f"\nfatal: bad token {token} for https://u:hunter22@db/x"
    )
    failure = failure_of(f"curl -H 'Authorization: Bearer {token}' x", output)
    assert failure is not None
    assert token[:20] not in failure.text
    assert "hunter22" not in failure.text


def failure(command: str, *words: str, status: int = 1) -> Failure:
    return Failure(command, status, words)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            failure("npm test", "TypeError", "undefined"),
            failure("npm test", "typeerror", "x"),
            True,
        ),
        (
            failure("npm test", "TypeError", "undefined"),
            failure("npm test", "ENOENT", "file"),
            False,
        ),
        (failure("npm test", "TypeError"), failure("yarn test", "TypeError"), False),
        (failure("pytest a.py", "A", "B", "C"), failure("pytest b.py -q", "A", "B", "C"), True),
        (failure("git push"), failure("git push"), True),
        (failure("git push"), failure("git push", status=2), False),
    ],
)
def test_a_failure_is_repeated_by_the_same_command_and_words(
    one: Failure, other: Failure, same: bool
) -> None:
    assert is_same_failure(one, other) is same


def test_a_turn_keeps_a_bounded_number_of_files_and_failures_once_each() -> None:
    seen = WorkSeen()
    for number in range(50):
        seen.call(number, "Edit", {"file_path": f"/p/f{number % 40}.py"})
        seen.result(number, "ok")
        seen.call(f"b{number}", "Bash", {"command": f"make t{number % 20}"})
        seen.result(f"b{number}", "Exit code 1\nerror: bad", failed=True)
    seen.call("x", "Edit", {"file_path": "/p/never.py"})
    seen.result("x", "<tool_use_error>String not found</tool_use_error>", failed=True)
    work = seen.within("/p")
    assert (len(work.touched), len(work.failed)) == (MOST_TOUCHED, MOST_FAILED)
    assert "never.py" not in work.touched


def test_work_survives_its_json_and_another_form_stays_where_it_is() -> None:
    work = Work(("a.py",), (Failure("make", 2, ("no", "rule")), Failure("x", None, ())))
    fields = work_json(work) | {"other": 1}
    assert taken_work(fields) == work
    assert fields == {"other": 1}
    for wrong in ({"touched": "a.py"}, {"failed": [{"command": 1}]}, {"touched": ["a"] * 31}):
        kept = dict(wrong)
        assert taken_work(kept) == Work()
        assert kept == wrong


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def charge_card(x):\n    value = 1\n", ("charge_card",)),
        ("export default class InvoiceTotals {}", ("InvoiceTotals",)),
        ("func (s *Server) HandleOrder(w) {", ("HandleOrder",)),
        ("def update(x):\nclass Widget:", ()),
        ("CREATE TABLE order_items (id int)", ("order_items",)),
        ("the class is_full today", ()),
    ],
)
def test_a_text_defines_the_names_that_are_hardly_words(code: str, names: tuple[str, ...]) -> None:
    assert defined_in(code) == names
