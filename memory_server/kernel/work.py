"""The work done in a turn: the files that were changed, and the commands that failed. Pure.

Clients report calls of tools and their results in their own formats (interchange/, operations/hook_events.py). Of a
result only the status and a few telling words are kept: a program printed it, so it is not what a person said.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import product, starmap
from pathlib import PurePosixPath
from typing import Any

from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import dataclass, frozen
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


@frozen
class Failure:
    """A command that failed: its head, its exit status (None if it had no status), and the telling words of its
    error."""

    command: str
    status: int | None
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.command, *self.words))


@frozen
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


@frozen
class ToolCall:
    """A call of a tool: the files that it changes or reads, or the command that it runs."""

    files: tuple[str, ...] = ()
    command: str = ""
    changes: bool = False


def tool_call(name: object, arguments: object) -> ToolCall:
    """Return the command that a call of a tool runs, or the files that it reads or changes; empty
    for a tool that does something else."""
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
    """Return the command line of a tool that runs commands, without the shell around it; '' if none exists."""
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
    outputs: list[tuple[str, str, bool | None]] = field(default_factory=list)
    """The commands that may have failed, each with its output, and what the client says. What failed is found only
    when it is asked for: a transcript is read at each turn, and only its last turn is stored."""

    def call(self, call_id: object, name: object, arguments: object) -> None:
        self.calls[str(call_id)] = tool_call(name, arguments)

    def result(self, call_id: object, output: str, *, failed: bool | None = None) -> None:
        """Take the result of a call. `failed` is what the client says; if it is None, an exit status in the output
        tells it."""
        call = self.calls.pop(str(call_id), None)
        if call is None:
            return
        if call.command and failed is not False:
            self.outputs.append((call.command, output, failed))
        if call.changes and not failed:
            self.touched |= dict.fromkeys(call.files)

    def within(self, folder: str | None) -> Work:
        """Return the work in the project at `folder`: the files changed there, by relative paths, and the first failures
        of commands, up to the most that a memory keeps of each."""
        paths = (path_in(folder, path) for path in self.touched)
        touched = tuple(dict.fromkeys(path for path in paths if path))
        failures: dict[Failure, None] = {}
        for command, output, failed in self.outputs:
            failure = failure_of(command, output, failed=failed)
            if failure is not None:
                failures[failure] = None
            if len(failures) == MOST_FAILED:
                break
        return Work(touched[:MOST_TOUCHED], tuple(failures))


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


_MARK = re.compile(r"\[removed: [^\]\n]{1,60}\]")
_NOISE = re.compile(
    r"\x1b\[[0-9;?]{0,20}[A-Za-z]|</?untrusted_context>|^Process Group PGID: \d{1,10}$",
    re.MULTILINE,
)
"""The colours of a terminal, and what Gemini CLI writes around an output."""


def _without_secrets(text: str) -> str:
    """Return a text without secrets, our marks in their places, and what is no word of the program."""
    return _MARK.sub("", without_secrets(_NOISE.sub("", text), with_pairs=True).text)


# --- commands ----------------------------------------------------------------------------------------------

_BEFORE_COMMANDS = frozenset(
    words_between_commas(
        "cd, export, source, ., set, echo, pushd, mkdir, unset, true, sleep, exit, for, select, case, [, [[, test, done, fi,"
        "esac, printf, read, local, declare, typeset, readonly, alias, :, break, continue, return, shift, trap, wait,"
        "function"
    )
)
_RUNNERS = frozenset(
    words_between_commas(
        "sudo, time, nice, env, npx, bunx, exec, nohup, command, xvfb-run, if, while, until, !, do, then, else, elif"
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
_SIMPLE_COMMAND = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|(?<!&)&(?!&)|[^&|;\n])+""", re.DOTALL
)
"""A command up to the next one of its line. What is quoted belongs to it: `ssh host "ps | grep x"`."""
_UP_TO_QUOTE = re.compile(r"[^\"']*+\S*+")
_CLOSED = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^"'\\])*+""", re.DOTALL)
"""A text up to a quote that is not closed."""
_COMMENTS = re.compile(r"^[ \t]{0,80}#.*", re.MULTILINE)
_LABELS = re.compile(
    r"""(?:\bcase(?:(?!\sin\s)[^;\n]){1,200}+\sin(?=\s)|;;&?|;&)\s{0,80}+(?:#[^\n]{0,400}\n\s{0,80}+){0,5}+\(?"""
    r"""(?:"[^"\n]{0,80}"|'[^'\n]{0,80}'|[^()\n;"']){1,200}+\)"""
)
"""What is before the commands of a case: `case $1 in start)`, and `;; (a | b)` of a later one, also after a comment."""
_AND = " && "
"""What stands between the heads of a line."""


def command_head(command: str) -> str:
    """Return the heads of the commands of a line that do something themselves, joined by `&&`: of each its program,
    subcommand and first arguments, without folders, settings of variables, redirections and possible passwords. What
    reads from a pipe has no head. Return the last heads if they are long, and an empty text if none exists."""
    command = _LABELS.sub(";", _COMMENTS.sub("", command))
    closed = next(_CLOSED.finditer(command)).end()
    heads: list[str] = []
    for match in _SIMPLE_COMMAND.finditer(command):
        # After a quote that is not closed, and in a here-document, is text, which may be a password.
        if match.start() > closed:
            break
        words = _words_of(match[0])
        before = command[: match.start()].rstrip("\n")
        is_piped = before.endswith("|") and not before.endswith("||")
        is_command = words and words[0] not in _BEFORE_COMMANDS and words[0][0] != "-"
        if is_command and not is_piped:
            words[0] = PurePosixPath(words[0].replace("\\", "/")).name
            head = " ".join(_public_words(words)).replace("`", "'")
            heads.append(" ".join(head.split()))
        if "<<" in match[0]:
            break

    heads = list(dict.fromkeys(filter(None, heads)))
    while len(heads) > 1 and len(_AND.join(heads)) > MOST_HEAD_CHARS:
        heads = heads[1:]  # the last one failed more often: what stands before it prepares
    return _AND.join(heads)[:MOST_HEAD_CHARS]


def heads_of(command: str) -> list[str]:
    """Return the single heads that `command_head` joined."""
    return [head for head in command.split(_AND) if head.strip()]


_LOGIN = re.compile(
    r"(?i)(?:^|^(?:.{0,999} )?(?:ssh|sshpass|xargs|watch|su|doas|exec|run) (?:.{0,999}[ /])?)"
    r"(?:login|passwd|chpasswd|htpasswd|wpa_passphrase|ftp|lftp|ncftp|tnftp|telnet|cadaver|smbclient|rpcclient|winexe"
    r"|mount\.cifs|sqlplus|xfreerdp|vncviewer|iwconfig|keytool|ldapsearch|ldapadd|ldapmodify|snmpget|snmpwalk)$"
    r"|(?:^|[ /])(?:(?:docker|podman|nerdctl|buildah|skopeo|helm registry|vault|bao|az|oc|cf|bw|heroku|npm|argocd)"
    r" (?:-\S{1,99} (?:[^-\s]\S{0,99} )?){0,4}(?:login|signin)|net (?:use|user)|cf auth|openssl passwd"
    r"|(?:redis|valkey)-cli (?:\S{1,99} ){0,8}auth|(?:mysqladmin|nmcli|ipmitool) (?:\S{1,99} ){0,8}password"
    r"|rabbitmqctl (?:\S{1,99} ){0,8}(?:add_user|change_password|authenticate_user))$"
)
"""Words before names and passwords: a program for logins, also where another one such as `ssh` runs it, or a program
with a subcommand."""
_SHORT_OPTIONS = re.compile(r"-[A-Za-z]{1,4}")
_NAME_OF_VALUE = re.compile(r"[^\s=:-][^\s=:]{0,60}[=:]")
_BEFORE_PASSWORD = re.compile(
    r"(?:^| )(?:-[paukPHb]|-[a-z]{0,10}pass[a-z]{0,6}"
    r"|--(?i:[a-z]+-){0,3}(?i:pass|password|passphrase|passwd|pwd|user|token|secret|key|auth|header|credentials?)"
    r"|ssh-keygen (?:.{0,999} )?-N"
    r"|(?:config|configure|set|put|write|add) (?:.{0,999} )?"
    r"[\w./:-]{1,60}(?i:[._:]password|_pass|_pw|[._]token|_authtoken|_access_key|_api_key))$"
)
"""An option that a password may follow, or the name of a setting that is written: `mysql -p`, `keytool -storepass`,
`git config user.password`."""
_PASSWORD_OF_NAME = re.compile(
    r"(?i)((?:pass|password|passwd|pwd?|token|secret|key)=|^(?:pass|x-[a-z-]{1,40}):(?!:)).*"
)
"""A password after its name, also `pass:` of openssl and a header. A part of a test or task, as in
`npm run test:token:e2e`, is not a name."""


def _public_words(words: list[str]) -> list[str]:
    """Return the words without possible passwords: a word after an option for one, a word with a blank after any
    option or the name of a value, and what is joined to an option or follows a login. `-p` may also be a port: a
    head without it is only less exact."""
    public: list[str] = []
    pending = words[::-1]
    former = ""
    while pending and len(public) < _MOST_HEAD_WORDS:
        word = pending.pop()
        is_value = _BEFORE_PASSWORD.search(" ".join([*public, former])) is not None
        if former == "-U":
            # `curl -U me:pass`, but not `pip install -U requests`
            is_value = "%" in word or ":" in word
        if " " in word or "\t" in word:
            is_value = is_value or former.startswith("-") or bool(_NAME_OF_VALUE.match(word))
            if not is_value and not word.startswith("-"):
                # A command in quotes may have options with passwords too: `ssh host "mysql -p… | sort"`.
                pending += _words_of(_SIMPLE_COMMAND.findall(word)[0])[::-1]
                continue
        if not is_value:
            public.append(_option_in(word))
        former = word
        if _LOGIN.search(" ".join(public)):
            break
    return public


def _option_in(word: str) -> str:
    """Return an option without a value that is joined to it, and another word without what follows the name of a
    password in it."""
    if word.startswith("--"):
        return re.split(r"[=\s]", word, maxsplit=1)[0]
    if word.startswith("-") and _SHORT_OPTIONS.fullmatch(word) is None:
        return word[:2]  # mysql -psecret1
    if "::" in word.partition("=")[0]:
        return word  # the name of a test
    return _PASSWORD_OF_NAME.sub(r"\1", word)


def _words_of(piece: str) -> list[str]:
    """Return the words of a simple command up to a here-document, without redirections, long words,
    and what comes before its name: assignments and programs that run it, such as `timeout 5`. A
    quoted word stays whole."""
    piece = piece.replace("\\\n", "")
    try:
        words = shlex.split(piece, comments=True)
    except ValueError:
        # What follows a quote that is not closed may all be one password.
        words = _UP_TO_QUOTE.findall(piece)[0].split()

    kept: list[str] = []
    for word in words:
        if word.startswith("<<"):
            break
        if re.match(r"[0-9&]?[<>]", word) or len(word) > _MOST_WORD_CHARS * 2 or "\n" in word:
            continue
        kept += filter(None, (_without_brackets(word),))

    while kept:
        if kept[0] == "timeout" or tuple(kept[:2]) in _RUNNERS_OF_TWO:
            kept = kept[2:]
        elif _ASSIGNMENT.match(kept[0]) or kept[0] in _RUNNERS:
            kept = kept[1:]
        else:
            break
    return kept


def _without_brackets(word: str) -> str:
    """Return a word without the brackets of a group of commands: those before it, and closing ones that the word does
    not open."""
    word = word.lstrip("({")
    while word.endswith((")", "}")) and sum(map(word.count, ")}")) > sum(map(word.count, "({")):
        word = word[:-1]
    return word


def _has_same_arguments(first: str, second: str) -> bool:
    """Return whether two heads of the same program have at least half of their arguments in common."""
    arguments = set(first.split()[1:])
    other_arguments = set(second.split()[1:])
    return 2 * len(arguments & other_arguments) >= len(arguments | other_arguments)


def is_same_failure(first: Failure, second: Failure) -> bool:
    """Return whether two failures are of the same command and have most of their words in common. Of commands in a
    line any may have failed."""
    all_pairs = product(heads_of(first.command), heads_of(second.command))
    pairs = [pair for pair in all_pairs if pair[0].split()[0] == pair[1].split()[0]]
    if not pairs:
        return False
    words = {word.casefold() for word in first.words} - IN_ANY_ERROR
    other_words = {word.casefold() for word in second.words} - IN_ANY_ERROR
    least = min(len(words), len(other_words))
    if not least:
        # `grep` that finds nothing fails without a word; what says only "failed" is the same if all is.
        return bool(first.words) and first == second
    shared = len(words & other_words)
    if any(starmap(_has_same_arguments, pairs)):
        return 2 * shared >= least
    return shared >= 3 and 4 * shared >= 3 * least


# --- errors ------------------------------------------------------------------------------------------------

_TELLS = re.compile(
    r"(?i)error|fail|exception|not found|no such|denied|cannot|can't|undefined|fatal|panic|unexpected|refused|missing"
    r"|invalid|unable|conflict|错误|失败|异常|找不到|无法|拒绝"
)
IN_ANY_ERROR = frozenset(
    words_between_commas(
        "error, errors, failed, failure, fatal, command, exception, warning, not, no, found, such, cannot, invalid, "
        "unable, could, process, exited"
    )
)
"""Words of errors that tell nothing of the fault."""
_CHATTER = re.compile(
    r"\w{0,9}make(?:\[\d{1,9}\])?: (?:Entering|Leaving) directory|\w{0,9}make(?:\[\d{1,9}\])?: (?:进入|离开)目录"
)
"""What make says of its folders, around the output of each make that another one starts."""
_FOLDERS = re.compile(r"(?:[\w.~+@-]{0,255}/){1,60}")
_WORD = re.compile(r"[^\W\d_](?:[\w./:@-]{0,80}\w)?")
_LITTLE = frozenset(
    words_between_commas(
        "a, an, and, are, as, at, be, by, do, for, from, has, have, in, is, it, of, on, or, that, the, this, to, was, were, "
        "with, will, see, most, recent, call, last, file, line, traceback"
    )
)


def error_words(output: str) -> tuple[str, ...]:
    """Return the telling words of an error, from the lines that speak of an error, or else from the last lines."""
    lines = [line for line in output.splitlines() if line.strip() and not _CHATTER.match(line)]
    telling_lines = list(filter(_tells_of_error, lines))
    words: dict[str, str] = {}
    for line in [*reversed(telling_lines[-2:]), *telling_lines[:1]] or lines[-2:]:
        for word in _telling_words(line[:500]):
            words.setdefault(word.casefold(), word)
    return tuple(words.values())[:MOST_ERROR_WORDS]


def _tells_of_error(line: str) -> bool:
    """Return whether a line speaks of an error. A folder called `failures` does not make it speak of one."""
    beginning = line[:500]
    if not _TELLS.search(beginning):
        return False
    return _TELLS.search(_FOLDERS.sub("", beginning)) is not None


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
    work_fields = {name: fields[name] for name in ("touched", "failed") if name in fields}
    if not work_fields:
        return NO_WORK

    try:
        failures: list[Failure] = []
        for row in work_fields.get("failed", ())[:MOST_FAILED]:
            words = tuple(str(word)[:_MOST_WORD_CHARS] for word in row["words"][:MOST_ERROR_WORDS])
            status = None if row["status"] is None else int(row["status"])
            command = row["command"][:MOST_HEAD_CHARS]
            if not command.split():
                return NO_WORK
            failures.append(Failure(command, status, words))

        touched = [
            path[:_MOST_PATH_CHARS] for path in work_fields.get("touched", ())[:MOST_TOUCHED]
        ]
        work = Work(tuple(touched), tuple(failures))
    except WRONG_VALUES:
        return NO_WORK

    # Only fields that come out equal again are taken, so that nothing is lost.
    if work_json(work) != work_fields:
        return NO_WORK

    for name in work_fields:
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
