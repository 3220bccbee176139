"""The work done in a turn: the files that were changed, and the commands that failed. Pure.

Clients report calls of tools and their results in their own formats (interchange/, operations/hook_events.py). Of a
result only the status and a few telling words are kept: a program printed it, so it is not what a person said.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import dataclass
from sandbox import WRONG_VALUES

MOST_TOUCHED = 30
MOST_FAILED = 10
MOST_ERROR_WORDS = 12
MOST_HEAD_CHARS = 120
"""Characters of the head of a command: program, subcommand and the first arguments."""
_MOST_PATH_CHARS = 300
_MOST_WORD_CHARS = 40
_MOST_HEAD_WORDS = 6
COMMAND_CHARS = 2_000
"""Characters of a command that are examined."""
_OUTPUT_CHARS = 20_000
"""Characters of an output that are examined, at its beginning and at its end."""

CHANGING = frozenset(
    words_between_commas(
        "edit, write, multiedit, notebookedit, replace, write_file, apply_patch, create_file, edit_file, "
        "replace_string_in_file, multi_replace_string_in_file, insert_edit_into_file"
    )
)
READING = frozenset(("read", "read_file"))
RUNNING = frozenset(
    words_between_commas(
        "bash, shell, exec_command, shell_command, local_shell, local_shell_call, run_shell_command, run_in_terminal"
    )
)
"""The tools of Claude Code, VS Code, Codex and Gemini CLI that change a file, read a file and run a command, in small
letters."""
_PATH_NAMES = ("file_path", "filePath", "notebook_path", "absolute_path", "path")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,300})$", re.MULTILINE)
_STATUS = re.compile(
    r"(?i)(?:exit(?:ed with)? (?:code|status)|process exited with code):? (-?\d{1,10})"
)
_TIMED_OUT = "Command timed out"


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that failed: its head, its exit status (None if it had no status), and the telling words of its
    error."""

    command: str
    status: int | None
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.command, *self.words))


@dataclass(frozen=True, slots=True)
class Work:
    """The files that were changed, relative to the project, and the commands that failed."""

    touched: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.touched or self.failed)

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.touched, *(failure.text for failure in self.failed))


NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: the files that it changes or reads, or the command that it runs."""

    files: tuple[str, ...] = ()
    command: str = ""
    changes: bool = False


def tool_call(name: object, arguments: object) -> ToolCall:
    """Return what a call does; empty for a tool that does something else."""
    tool = str(name).lower()
    if not isinstance(arguments, Mapping):
        arguments = {"input": arguments}
    if tool in RUNNING:
        return ToolCall(command=_command_in(arguments))
    if tool not in CHANGING and tool not in READING:
        return ToolCall()
    files = [value for name in _PATH_NAMES if isinstance(value := arguments.get(name), str)]
    if tool == "apply_patch":
        files += _PATCHED_FILE.findall(str(arguments.get("input") or arguments.get("command")))
    return ToolCall(files=tuple(files), changes=tool in CHANGING)


def _command_in(arguments: Mapping[str, Any]) -> str:
    command = arguments.get("command", arguments.get("cmd", ""))
    if isinstance(command, list):  # Codex: ["bash", "-lc", "make test"]
        command = (
            command[-1]
            if len(command) == 3 and command[1] in ("-c", "-lc")
            else " ".join(map(str, command))
        )
    return str(command or "")


_DEFINED = re.compile(
    r"(?m)^[ \t]{0,40}(?:(?:export|default|public|private|static|async|pub|abstract) ){0,4}"
    r"(?:def|class|function|func|fn|interface|struct|enum|trait|type|const|CREATE TABLE) "
    r"(?:\([^)\n]{0,60}\) )?(\w{6,60})"
)
_MOST_DEFINED = 40


def defined_in(text: str) -> tuple[str, ...]:
    """Return the names that a text of code defines, if they hardly occur as words: `charge_card`, `InvoiceTotals`."""
    names = dict.fromkeys(_DEFINED.findall(text[:_OUTPUT_CHARS]))
    return tuple(name for name in names if "_" in name.strip("_") or not name[1:].islower())[
        :_MOST_DEFINED
    ]


@dataclass(slots=True)
class WorkSeen:
    """The work in a turn, as the lines of a transcript report it. `calls` are the calls without a result yet, by
    their id."""

    calls: dict[str, ToolCall] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)
    failed: list[Failure] = field(default_factory=list)

    def call(self, call_id: object, name: object, arguments: object) -> None:
        self.calls[str(call_id)] = tool_call(name, arguments)

    def result(self, call_id: object, output: str, *, failed: bool | None = None) -> None:
        """Take the result of a call. `failed` is what the client says; if it is None, an exit status in the output
        tells it."""
        call = self.calls.pop(str(call_id), None)
        if call is None:
            return
        failure = failure_of(call.command, output, failed=failed)
        if failure is not None and failure not in self.failed:
            self.failed.append(failure)
        if call.changes and not failed:
            self.touched |= dict.fromkeys(call.files)

    def within(self, folder: str | None) -> Work:
        """Return the work in a project."""
        paths = (path_in(folder, path) for path in self.touched)
        touched = tuple(dict.fromkeys(path for path in paths if path))
        return Work(touched[:MOST_TOUCHED], tuple(self.failed[:MOST_FAILED]))


def path_in(folder: str | None, path: str) -> str:
    """Return a path relative to the folder of a project; empty for a path elsewhere."""
    path = path.replace("\\", "/")
    root = (folder or "").replace("\\", "/").rstrip("/")
    if root and path.startswith(root + "/"):
        path = path[len(root) + 1 :]
    path = path.removeprefix("./")
    if not path or path.startswith(("/", "~", "../")) or path[1:2] == ":":
        return ""
    return path[:_MOST_PATH_CHARS]


def failure_of(command: str, output: str, *, failed: bool | None = None) -> Failure | None:
    """Return how a command failed, by its output, or None if it did not fail or never ran. `failed` as in
    `WorkSeen.result`."""
    if not command or failed is False:
        return None

    ends = output
    if len(output) > 2 * _OUTPUT_CHARS:  # whole lines, so that no secret is cut in two
        first_lines = output[:_OUTPUT_CHARS].rpartition("\n")[0]
        ends = first_lines + "\n" + output[-_OUTPUT_CHARS:].partition("\n")[2]

    match = _STATUS.search(ends[:200]) or _STATUS.search(ends[-200:])

    if match is None:
        if not ends.startswith(_TIMED_OUT):
            return None
        ends = _TIMED_OUT
    elif not int(match[1]):
        return None
    # Remove secrets before anything is cut: half of a secret cannot be recognized.
    head = command_head(_without_secrets(command[:COMMAND_CHARS]))
    if not head:
        return None
    if match is None:
        return Failure(head, None, ("timed", "out"))
    return Failure(
        head, int(match[1]), error_words(_without_secrets(ends.replace(match[0], "", 1)))
    )


def _without_secrets(text: str) -> str:
    return without_secrets(text, with_pairs=True).text


# --- commands ----------------------------------------------------------------------------------------------

_BEFORE_COMMANDS = frozenset(
    words_between_commas("cd, export, source, ., set, echo, pushd, mkdir, unset, true, sleep")
)
_RUNNERS = frozenset(
    words_between_commas(
        "sudo, time, nice, env, npx, bunx, exec, nohup, timeout, command, xvfb-run"
    )
)
_RUNNERS_OF_TWO = (
    ("uv", "run"),
    ("poetry", "run"),
    ("pnpm", "exec"),
    ("python", "-m"),
    ("python3", "-m"),
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,60}=")
_NEXT_COMMAND = re.compile(r"&&|\|\|?|;|\n")


def command_head(command: str) -> str:
    """Return program, subcommand and first arguments of the first command of a line that does something itself,
    without folders, settings of variables, redirections and possible passwords, or an empty text."""
    for piece in _NEXT_COMMAND.split(command):
        words = _words_of(piece)
        if words and words[0] not in _BEFORE_COMMANDS:
            words[0] = PurePosixPath(words[0].replace("\\", "/")).name
            head = " ".join(_public_words(words)[:_MOST_HEAD_WORDS]).replace("`", "'")
            return " ".join(head.split())[:MOST_HEAD_CHARS]
    return ""


_LOGINS = frozenset(("login", "htpasswd", "passwd", "chpasswd", "signin", "set-password"))
"""Programs and subcommands whose arguments are names and passwords."""
_SHORT_OPTIONS = re.compile(r"-[A-Za-z]{1,4}")
_OPTION_WITH_PASSWORD = re.compile(
    r"-[paukPHb]|--(?i:[a-z]+-){0,3}(?i:pass|password|passphrase|passwd|pwd|user|token|secret|key|auth|header|credentials?)"
)


def _public_words(words: list[str]) -> list[str]:
    """Return the words without possible passwords: a word after an option for one, or a part that is joined to an
    option or follows a login. `-p` may also be a port: a head without it is only less exact."""
    public: list[str] = []
    follows_option = False
    for word in words:
        option = word
        if word.startswith("--"):
            option = word.partition("=")[0]
        elif word.startswith("-") and _SHORT_OPTIONS.fullmatch(word) is None:
            option = word[:2]  # mysql -psecret1
        if not follows_option:
            public.append(option)
        takes_password = option == word and _OPTION_WITH_PASSWORD.fullmatch(word) is not None
        follows_option = takes_password and not follows_option
        if word in _LOGINS:
            break
    return public


def _words_of(piece: str) -> list[str]:
    try:
        words = shlex.split(piece, comments=True)
    except ValueError:
        words = piece.split()

    kept: list[str] = []
    for word in words:
        if word.startswith("<<"):
            break
        if re.match(r"[0-9&]?[<>]", word) or len(word) > _MOST_WORD_CHARS * 2 or "\n" in word:
            continue
        kept.append(word)

    while kept:
        if _ASSIGNMENT.match(kept[0]) or kept[0] in _RUNNERS:
            is_timeout = kept[0] == "timeout"
            kept = kept[1:]
            if is_timeout:
                kept = kept[1:]
        elif tuple(kept[:2]) in _RUNNERS_OF_TWO:
            kept = kept[2:]
        else:
            break
    return kept


def is_same_command(one: str, other: str) -> bool:
    """Return whether two heads of commands are the same program with at least half of the same arguments."""
    if one.split()[:1] != other.split()[:1]:
        return False
    arguments = set(one.split()[1:])
    other_arguments = set(other.split()[1:])
    return 2 * len(arguments & other_arguments) >= len(arguments | other_arguments)


def is_same_failure(one: Failure, other: Failure) -> bool:
    """Return whether two failures are of the same command and have most of their words in common."""
    if one.command.split()[:1] != other.command.split()[:1]:
        return False
    words = {word.casefold() for word in one.words}
    other_words = {word.casefold() for word in other.words}
    least = min(len(words), len(other_words))
    if not least:
        return one.command == other.command and one.status == other.status
    shared = len(words & other_words)
    if is_same_command(one.command, other.command):
        return 2 * shared >= least
    return shared >= 3 and 4 * shared >= 3 * least


# --- errors ------------------------------------------------------------------------------------------------

_TELLS = re.compile(
    r"(?i)error|fail|exception|not found|no such|denied|cannot|can't|undefined|fatal|panic|unexpected|refused|missing"
    r"|invalid|unable|conflict|错误|失败|异常|找不到|无法|拒绝"
)
_WORD = re.compile(r"[^\W\d_](?:[\w./:@-]{0,80}\w)?")
_LITTLE = frozenset(
    words_between_commas(
        "a, an, and, are, as, at, be, by, do, for, from, has, have, in, is, it, of, on, or, that, the, this, to, was, were, "
        "with, will, see, most, recent, call, last, file, line, traceback"
    )
)


def error_words(output: str) -> tuple[str, ...]:
    """Return the telling words of an error, from the lines that speak of an error, or else from the last lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling_lines = [line for line in lines if _TELLS.search(line[:500])]
    words: dict[str, str] = {}
    for line in [*reversed(telling_lines[-2:]), *telling_lines[:1]] or lines[-2:]:
        for word in _telling_words(line[:500]):
            words.setdefault(word.casefold(), word)
    return tuple(words.values())[:MOST_ERROR_WORDS]


def _telling_words(line: str) -> Iterator[str]:
    for match in _WORD.finditer(line):
        word = match[0]
        if "/" in word:  # the folders differ from run to run
            word = word.rpartition("/")[2]
        if len(word) > 1 and len(word) <= _MOST_WORD_CHARS and word.casefold() not in _LITTLE:
            yield word


# --- JSON --------------------------------------------------------------------------------------------------


def work_json(work: Work) -> dict[str, Any]:
    """Return the JSON fields of the work of a turn; fields without a value are left out."""
    failed = [
        {"command": failure.command, "status": failure.status, "words": list(failure.words)}
        for failure in work.failed
    ]
    fields = {"touched": list(work.touched), "failed": failed}
    return {name: value for name, value in fields.items() if value}


def taken_work(fields: dict[str, Any]) -> Work:
    """Take the work of a turn out of JSON fields. Fields that this program would not write stay among them."""
    given = {name: fields[name] for name in ("touched", "failed") if name in fields}
    if not given:
        return NO_WORK

    try:
        failures: list[Failure] = []
        for row in given.get("failed", ())[:MOST_FAILED]:
            words = tuple(str(word)[:_MOST_WORD_CHARS] for word in row["words"][:MOST_ERROR_WORDS])
            status = None if row["status"] is None else int(row["status"])
            command = row["command"][:MOST_HEAD_CHARS]
            if not command.split():
                return NO_WORK
            failures.append(Failure(command, status, words))

        touched = [path[:_MOST_PATH_CHARS] for path in given.get("touched", ())[:MOST_TOUCHED]]
        work = Work(tuple(touched), tuple(failures))
    except WRONG_VALUES:
        return NO_WORK

    # Only fields that come out equal again are taken, so that nothing is lost.
    if work_json(work) != given:
        return NO_WORK

    for name in given:
        del fields[name]
    return work


def strings_of(values: Iterable[object]) -> str:
    """Join the texts among blocks of a tool's result, in lines."""
    texts: list[str] = []
    for value in values:
        text = value.get("text") if isinstance(value, Mapping) else value
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)
