"""Choose what to say at the point of action: which memories of a project say something about a file or a command, or
report the same failure. A pure decision: nothing is read or noted here.

A memory says something about a file if a sentence names it and speaks of a rule, a decision, a reason or a fault; a
mere change of the file says nothing about it. Silence is the rule (docs/reference/hooks.md, "At the point of
action").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.passages import chunks_of
from memory_server.conversations.recall.prompt_lines import when_text
from memory_server.kernel.messages import Message
from memory_server.kernel.recalled_block import FRAME_CHARS, marked, one_line
from memory_server.kernel.text import CHARS, Language, clipped, language_of, words_between_commas
from memory_server.kernel.values import dataclass, frozen
from memory_server.kernel.work import (
    IN_ANY_ERROR,
    Failure,
    Work,
    command_head,
    heads_of,
    is_same_failure,
    work_json,
)

MOST_CHARS = 600
"""Characters of an addition, its frame included."""
MOST_REMARKS = 2
CALLS_BETWEEN = 5
"""Calls of tools from one addition to the next, unless a failure is repeated."""
_RECENT_MS = 20 * 60_000
"""The age up to which a memory without a session may be of this one."""
_RARE_COUNT, _RARE_SHARE = 3, 20
"""A file name is rare if at most so many memories of the project have it, or at most one in so many."""
_COMMON_NAMES = frozenset(
    words_between_commas(
        "__init__.py, __main__.py, main.py, index.js, index.ts, index.html, index.tsx, mod.rs, main.rs, lib.rs, main.go, "
        "README.md, package.json, Makefile, Dockerfile, utils.py, test.py, app.py, config.py, models.py, types.ts, .gitignore, "
        "CLAUDE.md, AGENTS.md, GEMINI.md, settings.json, pyproject.toml, setup.py, conftest.py, Cargo.toml, go.mod, mix.exs, "
        "tsconfig.json, docker-compose.yml, requirements.txt"
    )
)
_LEAST_WORDS = 4
"""Words of a sentence below which it says nothing."""
_QUOTED_WORDS = 8
"""Words of an error that are quoted."""
_ABOUT_CHARS, _SAID_CHARS = 60, 150
_RULES = (
    r"(?i)\b(?:must|never|(?<!as )always|do(?: no|n['’])t|should(?: no|n['’])t|not allowed|forbidden|careful|beware|on purpose"
    r"|decided|agreed|chose|deprecated|generated(?!/|[` ]{1,2}(?:folder|directory|目录|文件夹))|vendored|frozen"
    r"|(?:before|after|on) (?:each|every|any)|before (?:you )?commit(?:ting)?)\b"
    r"|每次|前[要先]|必须|不要|不能|不可|不许|别[改动删用碰]|千万|只能|一定要|决定|约定|自动生成|注意|小心|保持|故意|不再"
)
_RULE = re.compile(_RULES)
"""Words of rules and decisions."""
_TELLS = re.compile(
    _RULES
    + r"|\b(?:should|can(?:no|['’])t|has to|have to|needs? to|instead|avoid|unless|until|because|since|so that"
    r"|reason|due to|otherwise|breaks?|broken?|broke|fail(?:s|ed|ure)?|bug|wrong|deadlocks?|locks?|slow|corrupts?"
    r"|crash(?:e[sd])?|race|applied)\b"
    r"|因为|所以|否则|导致|失败|报错|出错|崩溃|已经|改成|换成"
)
"""Words of rules, decisions, reasons and faults."""
_FORBIDS = (
    r"(?i:(?:\b(?:(?:do|must|should) ?not|(?:do|must|should)n['’]?t|you (?:can(?:no|['’])t|may not)|never|avoid|no(?= plain)"
    r"|instead of|rather than)|(?:^|[.:;!?。] ?|\b(?:use|run|call|try|start|install|always)\b[^.;!?]{0,60}[ ,(])not"
    r"|不要|不能|不许|禁止|(?<![分区个特级类识判辨鉴离告性])别)"
    r"(?:[ `再直接用跑运行]|(?:use|run|call|try|start|install|the|plain) ){0,5})(?<![A-Za-z0-9_.-])"
)
"""What is before a program that is forbidden. `not` alone forbids where something is to be used instead of it."""
_AFTER_PROGRAM = r"`?(?=$|[,.;:!)，。；！]| ?[一-鿿]| (?:in|for|here|because|since|but|and|or|directly|yourself)\b)"
"""What follows a program that is named without a subcommand: `never plain pytest`, not `never npm publish`."""
_OF_THE_DAY = re.compile(
    r"(?i)\W{0,5}(?:please|let['’]?s|let me|can|could|would|is|are|was|how|where|who|which|write|create|add|update|make|fix"
    r"|remove|implement|show|check|run|rename|want)\b|.{0,200}\b(?:I(?:['’](?:ll|d|ve|m)| (?:will|should|need|can|could|would"
    r"|want|have|am))|now)\b"
)
"""Questions without a mark, requests, plans and reports: what was to be done then says nothing for later."""
_MOST_SAME = 5
"""Most turns that are read with the same failure, the newest, and after each of them."""
_SHORT_WORD = 3
_FEW_FAILURES = _FEW_SENTENCES = 2
_WORDS = re.compile(r"\w[\w./:@-]*\w")
_POINTS_BACK = re.compile(
    r"(?i)(?:it|this|that|they|these|those|so|and|because|otherwise)\b|[它这那因否]"
)
_PATHS = re.compile(
    r"(?<![^\W一-鿿]|[/.@-])(?!(?<=[一-鿿])[一-鿿])(?:[一-鿿]{1,40}(?=[\w.@-])(?![一-鿿]))?"
    r"@?((?:[\w.@-]{1,80}/){0,20}\.?[\w@-][\w.@-]{0,80}\.[A-Za-z][A-Za-z0-9_]{0,11})(?![A-Za-z0-9_/-])"
)
"""Names of files in a text, with their folders. Chinese has no blank before or after a name: `请改src/pay.py里的舍入`."""
_NOT_IN_WORD = r"(?<![^\W一-鿿]|[.-])(?!(?<=[一-鿿])[一-鿿])"
_NOT_GOING_ON = r"(?![^\W一-鿿]|-|\.\w)"
"""Before and after a name in a sentence: no part of a longer name. Chinese may touch a name in Latin letters."""
_GIT_GOES_ON = (
    r"(?![\w(/-]|\.\w)(?= (?:to (?!an? |th|it)|into|in|on|from|without|before|until|with|after|when|unless|if|and|or"
    r"|directly|straight|anything|everything|code|main|master|branch\w*|force|tags?|(?:an? |the )?(?:PRs?|pull|branch\w*"
    r"|changes?)|remote|origin|now|please|your|my|all|unreviewed|broken|messages?|titles?|must|should|needs?)\b"
    r"|[^\w ]| ?$| [^\w ]"
    r"| (?:it|them|that|this|these|those)(?=[^\w ]|$| (?:now|please|and|then|to (?!an? |th))))"
)
_COMMIT_GOES_ON = (
    r"(?![\w(/-]|\.\w)(?! (?:to (?:an? |th|it)|(?:\w+ ){0,2}(?:transactions?|offsets?)\b))"
)
"""What follows a verb of git: one can also push a limit, merge cells, or commit to a plan or a transaction."""
_GOES_ON = {"commit": _COMMIT_GOES_ON, "push": _GIT_GOES_ON, "merge": _GIT_GOES_ON}
_CHINESE_GIT_GOES_ON = r"(?=$|[^\w]|[A-Za-z到进前后时吧了并和]|[之以]|代码|分支|主干|改动|一下|信息|说明|未|没|含|密钥)"
_CHANGES = (
    r"\b(?i:edit|chang|modif|touch|writ|delet|remov|renam|add|put|format|(?:is|are|auto-?) ?generated|frozen|vendored|hand)"
    r"|[改动删碰写放加]|生成|冻结"
)
"""What a rule about a folder forbids or explains: not each sentence with its name is about its files."""
_CHINESE = {"commit": "提交", "push": "推送", "merge": "合并"}
_READ_CHARS = 1_000
_RULES_OF_GIT = {
    f"git {verb}": re.compile(
        rf"(?i)git {verb}{_NOT_GOING_ON}|\b(?:before|after|when(?:ever)?|until|unless|without|every|each|any|never|always|avoid"
        rf"|not|\w+n['’]t) (?:\w+ ){{0,2}}?{verb}(?:t?ing|t?ed|e?s|d)?{_GOES_ON[verb]}"
        rf"|\b{verb}(?:s| messages?| titles?)\b(?=.{{0,40}}\b(?:must|should)|[.:]|$)"
        rf"|(?<!表单)(?<!订单)(?<!事务){chinese}(?:之?[前后]|以[前后]|时|代码|信息|说明)"
        rf"|(?:不要|不能|不许|禁止|别|必须|才能)[^，。；]{{0,12}}{chinese}{_CHINESE_GIT_GOES_ON}"
    )
    for verb, chinese in _CHINESE.items()
}
"""Sentences about a command of git, which people call by its verb: `run make lint before you commit`."""
_ASKED_OF_GIT = {
    f"git {verb}": re.compile(
        rf"(?i)(?<!the )(?<!this )(?<!last )\b{verb}\b{_GOES_ON[verb]}"
        rf"|(?<!表单)(?<!订单)(?<!事务){chinese}{_CHINESE_GIT_GOES_ON}"
    )
    for verb, chinese in _CHINESE.items()
}
"""Prompts that ask for a command of git: `ok, commit and push`."""
_QUOTED = re.compile(r"`([^`\n]{3,200})`")
_RUN_MORE = ("run", "exec", "compose")
"""Subcommands that name the work in their first argument, as in `npm run build`."""
_MOST_PATHS = 5
_MOST_DEFINED = 6
"""Names that are looked for: each takes a millisecond for a megabyte of texts."""


@dataclass(frozen=True)
class Act:
    """An act that is about to be done or was done. `files` (relative to the project) are changed or read, and
    `defined` are the names that their text defines. `command` is run, and `failure` is how it failed. `said` is a
    prompt, which names files and commands. `about` describes the act for the record."""

    files: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    command: str = ""
    failure: Failure | None = None
    said: str = ""
    about: str = ""

    @cached_property
    def named_files(self) -> tuple[str, ...]:
        """The files of the act, and the files that its command or prompt names."""
        named = _PATHS.findall(f"{self.command}\n{self.said}")
        return tuple(dict.fromkeys((*self.files, *named)))[:_MOST_PATHS]


def act_json(act: Act) -> dict[str, Any]:
    """Return the JSON of an act with a tool, for the server of a linked machine."""
    failed = Work(failed=(act.failure,) if act.failure else ())
    return {
        "files": list(act.files),
        "defined": list(act.defined),
        "command": act.command,
        "about": act.about,
        "failed": work_json(failed).get("failed", []),
    }


@frozen
class Scene:
    """The place and time of an act. `session` is the id of this session. A memory that is muted in any of `places`
    stays silent. `seen` are the keys of what the session was given. `calls_since` counts the calls of tools since the
    last addition, or is None before the first addition."""

    folder: str | None
    session: str | None
    places: frozenset[str]
    seen: Collection[str]
    now_ms: int
    notes: DayNotes
    calls_since: int | None = None


@frozen
class Remark:
    """A statement of a memory about `about`, a file or a command: what was `said`, and the `line` for the model."""

    memory: ShortTermMemory
    about: str
    said: str
    line: str

    @property
    def key(self) -> str:
        """The key by which a session knows that it was given."""
        return f"action {self.memory.id} {self.about}"


def seen_key(memory_id: str) -> str:
    """Return the key by which a session knows that it was given a whole memory."""
    return f"memory {memory_id}"


def remarks(act: Act, memories: Sequence[ShortTermMemory], scene: Scene) -> list[Remark]:
    """Return at most `MOST_REMARKS` remarks on an act from memories of its project, the most useful
    first; usually none. None come soon after the last ones, except on a failure, or if the session
    has seen them."""
    # Frequent additions would distract the model; only a repeated failure may come at once.
    if act.failure is None and scene.calls_since is not None and scene.calls_since < CALLS_BETWEEN:
        return []

    of_project = [memory for memory in memories if memory.folder == scene.folder]
    if scene.folder is None:
        return []

    if act.failure is not None:
        candidates = _remarks_on_failure(act.failure, of_project, scene)
    else:
        candidates = _remarks_of_statements(act, of_project, scene)

    shown_texts: set[str] = set()
    chosen: list[Remark] = []
    room = MOST_CHARS - FRAME_CHARS
    for remark in candidates:
        is_new = (
            shown_texts.isdisjoint((remark.memory.id, remark.said)) and remark.key not in scene.seen
        )
        if not (remark.said and is_new) or len(remark.line) + 1 > room:
            continue

        shown_texts |= {remark.memory.id, remark.said}
        room -= len(remark.line) + 1
        chosen.append(remark)
        if len(chosen) == MOST_REMARKS:
            break
    return chosen


def block_of(chosen: Sequence[Remark]) -> str:
    """Return the remarks marked as recalled."""
    lines = "\n".join(remark.line for remark in chosen)
    return marked(lines, language_of([lines])) if lines else ""


def _speaking(
    candidates: Iterable[ShortTermMemory], of_project: Iterable[ShortTermMemory], scene: Scene
) -> list[ShortTermMemory]:
    """Return the candidates that may speak here: memories that are neither muted nor corrected, and are of other
    sessions. A recent memory of an unknown session may be of this one, so it is left out too."""
    possible: list[ShortTermMemory] = []
    for memory in candidates:
        is_own = memory.session is not None and memory.session == scene.session
        may_be_own = memory.session is None and scene.now_ms - memory.time_ms < _RECENT_MS
        if not (is_own or may_be_own) and scene.places.isdisjoint(memory.muted):
            possible.append(memory)
    if not possible:
        return []
    corrected = {older.id for memory in of_project for older in memory.corrects}
    return [memory for memory in possible if memory.id not in corrected]


# --- failures ----------------------------------------------------------------------------------------------


def _remarks_on_failure(
    failure: Failure, memories: Sequence[ShortTermMemory], scene: Scene
) -> Iterator[Remark]:
    """Yield what the answer of the newest turn with the same failure says of it, and what the next turn of its
    session says of it; of older turns, as long as none says anything. A remark may be without words: the caller
    leaves it out."""
    failing = _speaking((memory for memory in memories if memory.work.failed), memories, scene)
    same: list[tuple[ShortTermMemory, Failure]] = []
    for memory in sorted(failing, key=_age_order):
        same += [(memory, past) for past in memory.work.failed if is_same_failure(past, failure)]

    for memory, former in same[:_MOST_SAME]:
        end = _sentences_on_failure(memory, former)
        words = " ".join(former.words[:_QUOTED_WORDS])
        yield _remark("failed", former.command, end, memory, scene, words)

        # The turn that solved the failure is usually in the same session.
        of_session = (sibling for sibling in memories if sibling.session == memory.session)
        later = [sibling for sibling in of_session if sibling.time_ms > memory.time_ms]
        # The turns right after it come last in this order, so they are looked at backwards.
        for sibling in sorted(_speaking(later, memories, scene), key=_age_order)[
            : -_MOST_SAME - 1 : -1
        ]:
            end_of_other = _sentences_on_failure(sibling, former)
            if end_of_other:
                yield _remark("after", former.command, end_of_other, sibling, scene)
                return
        if end:
            return


def _age_order(memory: ShortTermMemory) -> tuple[int, str]:
    """Return a key that sorts the newest memory first."""
    return -memory.time_ms, memory.id


def _sentences_on_failure(memory: ShortTermMemory, failure: Failure) -> str:
    """Return the last sentences of the answer that are about a failure; empty if none is. If little else failed in that
    turn, what tells something is about it, and so is a short answer."""
    if not memory.messages or memory.messages[-1].role != "assistant":
        return ""
    end = ""
    failures = memory.work.failed
    had_few = failure in failures and len(failures) <= _FEW_FAILURES
    sentences = list(_sentences(memory.messages[-1].content))
    is_short = len(sentences) <= _FEW_SENTENCES
    for sentence in reversed(sentences):
        if end and len(sentence) + len(end) >= _SAID_CHARS:
            break
        if _is_question(sentence) or not _is_long_enough(sentence):
            continue
        is_about = _about(sentence, failure) >= (1 if had_few else 2)
        if is_about or (had_few and (is_short or _tells(sentence))):
            end = f"{sentence} {end}".strip()
    return end


def _about(sentence: str, failure: Failure) -> int:
    """Count the words of a failure in a sentence. A name such as `event_store` counts as two words, and so does the
    command, but for `git commit` and the like, of which much is said."""
    words = set(_WORDS.findall(sentence.casefold()))
    count = 0
    for head in heads_of(failure.command):
        beginning = head.split()[:2]
        if " ".join(beginning) in sentence:
            count = max(count, 1 + (beginning[0] != "git"))
    for word in failure.words:
        is_name = not word[1:].islower()
        if len(word) > _SHORT_WORD and word.casefold() in words - IN_ANY_ERROR:
            count += 1 + is_name
    return count


# --- statements --------------------------------------------------------------------------------------------


_MOST_READ = 50
"""Most memories about one subject whose sentences are read, the newest: each takes up to 1 ms in the shared process."""


def _remarks_of_statements(
    act: Act, memories: Sequence[ShortTermMemory], scene: Scene
) -> Iterator[Remark]:
    """Yield a remark for each memory that states something about a subject of the act: by the rank
    of the subject, the user's before the model's, the newest first. Memories that the session has
    seen are left out."""
    candidates: list[tuple[int, int, str, Remark]] = []
    for subject in _subjects(act, memories):
        speaking = sorted(_speaking(subject.candidates, memories, scene), key=_age_order)
        for memory in speaking[:_MOST_READ]:
            if seen_key(memory.id) in scene.seen:
                continue
            statement = _statement_about(subject, memory)
            if statement is not None:
                remark = _remark(statement.role, subject.name, statement.content, memory, scene)
                rank = subject.rank + (statement.role == "assistant")
                candidates.append((rank, *_age_order(memory), remark))
    for *_order, remark in sorted(candidates, key=itemgetter(0, 1, 2)):
        yield remark


@dataclass(frozen=True)
class _Subject:
    """A subject of sentences: a file, a folder, or a command with its flags. The `pattern` finds its names, of which
    `candidates` have some. A smaller `rank` comes first. Of a subject that `is_common` only rules count."""

    name: str
    pattern: re.Pattern[str]
    candidates: Sequence[ShortTermMemory]
    rank: int
    flags: frozenset[str] | None = None
    is_common: bool = False

    def is_in(self, sentence: str) -> bool:
        """Tell whether a sentence speaks of this subject; of a command, only with flags that the act has too."""
        if self.pattern.search(sentence) is None:
            return False
        if self.flags is None:
            return True
        # A sentence about `git push --force` does not apply to `git push`.
        return self.flags.issuperset(re.findall(r"(?<![\w-])--?[a-z][\w-]*", sentence))


def _named(*names: str) -> re.Pattern[str]:
    """Return the pattern of any of these names."""
    return re.compile(f"{_NOT_IN_WORD}(?:{'|'.join(map(re.escape, names))}){_NOT_GOING_ON}")


def _folder_named(names: Sequence[str], ending: str) -> re.Pattern[str]:
    """Return the pattern of a folder and its files with an `ending` such as `.ts`: `generated/`, `generated/*.ts`,
    `src/generated` or `the folder generated`. The last name is the shortest one."""
    either = "|".join(map(re.escape, names))
    return re.compile(
        rf"(?m)^(?=.*(?:{_CHANGES})).*?(?:{_NOT_IN_WORD}(?<!\w/)(?:{either})(?:/(?:\*{{1,2}}/?)*(?:{re.escape(ending)})?(?![\w.*-]*[A-Za-z0-9_/])"
        rf"|(?<=/{re.escape(names[-1])})(?![^\W一-鿿]|[/*.-]+\w|/)|[` ]{{0,2}}(?:folder|directory|目录|文件夹))"
        rf"|(?:folder|directory|目录|文件夹) `?(?:{either}){_NOT_GOING_ON})"
    )


def _subjects(act: Act, memories: Sequence[ShortTermMemory]) -> Iterator[_Subject]:
    """Yield what an act is about, with the memories that name it: each file by its path and its
    rare name, its folders, rare names that it defines, and commands, also those that a prompt
    quotes or asks for."""
    for path in act.named_files:
        parts = path.split("/")
        holders = _holders(parts[-1], memories)

        with_folder = ["/".join(parts[number:]) for number in range(len(parts) - 1)]
        if with_folder:
            yield _Subject(path, _named(*with_folder), holders, rank=0)
        if _is_rare(parts[-1], holders, memories):
            yield _Subject(path, _named(parts[-1]), holders, rank=2)

        for depth in range(1, len(parts)):
            folders = ["/".join(parts[start:depth]) for start in range(depth)]
            named = _folder_named(folders, PurePosixPath(path).suffix)
            holders = _asking(named, folders[-1], memories)
            yield _Subject(f"{folders[0]}/", named, holders, rank=2, is_common=True)

    for name in act.defined[:_MOST_DEFINED] if act.files else ():
        holders = _holders(name, memories)
        if _is_rare(name, holders, memories):
            yield _Subject(act.files[0], _named(name), holders, rank=4)

    asked_of_git = [name for name, asked in _ASKED_OF_GIT.items() if asked.search(act.said)]
    for line in (act.command, *_QUOTED.findall(act.said), *asked_of_git):
        flags = frozenset(word.partition("=")[0] for word in line.split() if word[0] == "-")
        for head in heads_of(command_head(line)):
            words = head.split()
            forbidden = re.compile(f"{_FORBIDS}{re.escape(words[0])}{_AFTER_PROGRAM}")
            holders = _asking(forbidden, words[0], memories)
            yield _Subject(words[0], forbidden, holders, rank=1)
            if len(words) < 2 or words[1].startswith("-"):
                continue

            name = " ".join(words[: 3 if words[1] in _RUN_MORE else 2])
            holders = _holders(name, memories)
            is_common = words[0] == "git" or not _is_rare(name, holders, memories)
            pattern = _RULES_OF_GIT.get(name) or _named(name)
            if name in _RULES_OF_GIT:  # rules may name only the verb, also as the first word
                holders = _asking(pattern, words[1][1:], memories)
                holders += _asking(pattern, _CHINESE[words[1]], memories)
            yield _Subject(name, pattern, holders, rank=0, flags=flags, is_common=is_common)


def _asking(
    pattern: re.Pattern[str], name: str, memories: Iterable[ShortTermMemory]
) -> list[ShortTermMemory]:
    """Return the memories in which a user's message has a name, and a pattern finds something in its beginning: rules
    stand in short messages of users."""
    return [
        memory
        for memory in memories
        if any(
            message.role == "user"
            and name in message.content
            and pattern.search(message.content, 0, _READ_CHARS)
            for message in memory.messages
        )
    ]


def _holders(name: str, memories: Iterable[ShortTermMemory]) -> list[ShortTermMemory]:
    return [memory for memory in memories if name in memory.text]


def _is_rare(
    name: str, holders: Sequence[ShortTermMemory], memories: Sequence[ShortTermMemory]
) -> bool:
    """Tell whether few memories hold a name, which is neither common nor short."""
    is_telling = name not in _COMMON_NAMES and len(name) >= 4
    return is_telling and len(holders) <= max(_RARE_COUNT, len(memories) // _RARE_SHARE)


def _statement_about(subject: _Subject, memory: ShortTermMemory) -> Message | None:
    """Return the first sentence of a memory that says something about a subject, if there is one of the user a
    sentence of the user; or None."""
    messages = memory.messages or (Message("user", memory.text),)
    for role in ("user", "assistant"):
        for number, message in enumerate(messages):
            if message.role != role:
                continue

            sentence = _telling_sentence(subject, message.content)

            # An answer need not name the file that the question named.
            before = messages[number - 1].content if number else ""
            is_answer = role == "assistant" and not subject.is_common
            if not sentence and is_answer and _asks_about(subject, before):
                sentence = next(filter(_tells, _sentences(message.content)), "")
            if sentence:
                return Message(message.role, sentence)
    return None


def _telling_sentence(subject: _Subject, text: str) -> str:
    """Return the first sentence of a text that states something about a subject, with the next one
    if it goes on; empty if none exists. Of a common subject only a rule counts."""
    sentences = list(_sentences(text))
    for number, sentence in enumerate(sentences):
        if not subject.is_in(sentence) or _is_question(sentence):
            continue
        if subject.is_common and _RULE.search(sentence) is None:
            continue
        following = "".join(sentences[number + 1 : number + 2])
        goes_on = _tells(following) and not _PATHS.search(following)
        if goes_on and (_tells(sentence) or _POINTS_BACK.match(following)):
            return f"{sentence} {following}"
        if _tells(sentence):
            return sentence
    return ""


def _asks_about(subject: _Subject, text: str) -> bool:
    """Return whether a message asks about a subject and about no other file, so that the answer speaks of it."""
    return _is_question(text) and subject.is_in(text) and len(set(_PATHS.findall(text))) <= 1


def _tells(sentence: str) -> bool:
    """Return whether a sentence states a rule, a decision, a reason or a fault."""
    if _is_question(sentence) or _TELLS.search(sentence) is None:
        return False
    if _RULE.search(sentence) is None and _OF_THE_DAY.match(sentence):
        return False
    return _is_long_enough(sentence)


def _is_long_enough(sentence: str) -> bool:
    # A Chinese word has some two characters.
    return len(re.findall(r"[一-鿿]{1,2}|[^\s一-鿿，。；：、]+", sentence)) >= _LEAST_WORDS


def _is_question(text: str) -> bool:
    return text.rstrip(" \"'”’)）*_`").endswith(("?", "？"))


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text on one line each, without code."""
    for chunk in chunks_of(text, longest=400):
        if not chunk.code:
            sentence = one_line(text[chunk.start : chunk.end]).lstrip("-*#>• ")
            if sentence:
                yield sentence


# --- lines -------------------------------------------------------------------------------------------------

_FORMS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "user": "[{when}, the user said about {about}: {said}]",
        "assistant": "[{when}, the answer was about {about}: {said}]",
        "failed": "[{when}: `{about}` failed in the same way; the program printed `{words}`; that turn ended with: {said}]",
        "after": "[{when}: the next turn about `{about}` ended with: {said}]",
    },
    "zh": {
        "user": "[{when}，关于 {about}，用户说过：{said}]",
        "assistant": "[{when}，关于 {about}，当时的回答是：{said}]",
        "failed": "[{when}，`{about}` 也这样失败过，程序输出：`{words}`；那一轮最后说：{said}]",
        "after": "[{when}，之后关于 `{about}`：{said}]",
    },
}
"""The lines for the model, in the language of what was said. What a program printed is fenced."""


def _remark(
    form: str, about: str, said: str, memory: ShortTermMemory, scene: Scene, words: str = ""
) -> Remark:
    """Write what a memory says of an act as a line, in the language of `said`. `form` names the sentence, `about` the
    file or command, and `words` are quoted from a failure."""
    language = language_of([said])
    line = _FORMS[language][form].format(
        when=when_text(memory.time_ms, scene.now_ms, scene.notes.zone, language),
        about=clipped(one_line(about), _ABOUT_CHARS, CHARS),
        said=scene.notes.within(clipped(said, _SAID_CHARS, CHARS), memory.time_ms),
        words=one_line(words),
    )
    return Remark(memory, about, said, line)
