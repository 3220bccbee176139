"""A lorebook entry as a long-term memory with a readable trigger, and in words what could not be carried over.

SillyTavern seeks keys in the last `scanDepth` messages joined together (facts of world-info.js). A key written
`/re/flags` is an expression; else the case counts only if told. With whole words, one word must stand between
characters that are not ASCII word characters; several words are a substring.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_server.core.contents import Contents
from memory_server.interchange.incoming import Incoming
from memory_server.interchange.worldinfo import Book, Entry
from memory_server.storage.json_store.codec import Json
from sandbox.javascript import literals

SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""
_MACRO = re.compile(r"\{\{[^{}]*\}\}")
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_ASCII = re.compile(r"[!-~]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where an entry does not say; the settings of its owner's SillyTavern. `names`: {{char}}, {{user}}."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """The text with its macros replaced, as far as their meaning is known."""
        known = {f"{{{{{name}}}}}": meaning for name, meaning in self.names.items()}
        return _MACRO.sub(lambda found: known.get(found[0].lower(), found[0]), text)


def expressions(book: Book) -> list[str]:
    """Keys that are expressions in form; which of them V8 does not compile is to be found out before `read`."""
    return [key for entry in book.entries for key in (*entry.keys, *entry.secondary) if _parsed(key, entry) is not None]


def read(
    book: Book, source: str, usual: str, invalid: Collection[str] = (), defaults: Defaults = Defaults()
) -> Incoming:
    """The entries of a lorebook, for the conversation `usual`. `source`: name of its file; `invalid`: expressions that
    V8 does not compile.
    """
    found = Incoming()
    rows: list[tuple[str, Json]] = []
    titles = Counter(defaults.named(entry.title) for entry in book.entries)
    for entry in book.entries:
        title = defaults.named(entry.title)
        place = f"{title} (entry {entry.uid})" if titles[title] > 1 else title
        decorators, content = _decorators(defaults.named(entry.content))
        depth = next(one for one in (entry.depth, defaults.depth, book.depth, SILLYTAVERN_DEPTH) if one is not None)
        if (reason := _why_not(entry, decorators, content, depth)) is not None:
            found.skipped.append((place, reason))
            continue
        lost: list[str] = []
        trigger = _trigger(entry, "@@activate" in decorators, depth, defaults, invalid, lost)
        lost += [f"decorator {name}: has no meaning here" for name in decorators if name != "@@activate"]
        lost += _lost_fields(entry.fields)
        lost += _lost_macros((content, *entry.keys, *entry.secondary), defaults)
        record = {"name": title, "prompt": content, "createdContext": f"{source}, entry {entry.uid}"}
        record["trigger"] = f"{literals.comment(f'World info entry {entry.uid}: {title}')}\n{trigger}"
        rows.append((place, record | ({"notes": lost} if lost else {})))
        found.notes += [f"{place}: {line}" for line in lost]
    found.skipped += [(f"entry {uid}", f"it cannot be read: {fault}") for uid, fault in book.broken]
    found.conversations = [Contents(usual, (), found.long_terms(rows))]
    found.notes += [f"all entries: {line}" for line in _lost_everywhere(book)]
    return found


def _decorators(content: str) -> tuple[list[str], str]:
    """The `@@name` lines that a content begins with, and the rest."""
    lines = content.split("\n")
    count = 0
    while count < len(lines) and lines[count].startswith("@@"):
        count += 1
    return [line.strip() for line in lines[:count]], "\n".join(lines[count:])


def _why_not(entry: Entry, decorators: Collection[str], content: str, depth: int) -> str | None:
    constant = entry.constant or "@@activate" in decorators
    if not entry.enabled:
        return "it is disabled"
    if "@@dont_activate" in decorators:
        return "@@dont_activate keeps it from ever firing"
    if not content.strip():
        return "it has no content"
    if entry.probability <= 0:
        return "its probability is 0"
    if not constant and not entry.keys:
        why = "vectorized: it is found by meaning" if entry.fields.get("vectorized") else "it has no keys"
        return f"{why}; give it a trigger of its own"
    if not constant and depth < 1:
        return f"scanDepth {depth} looks at no message"
    return None


def _trigger(
    entry: Entry, activated: bool, depth: int, defaults: Defaults, invalid: Collection[str], lost: list[str]
) -> str:
    """The keys, with what else must hold: a number of messages, a throw of the dice."""
    conditions = [f"context.messages.length >= {entry.delay}"] if entry.delay else []
    if not (entry.constant or activated):
        if entry.sticky and entry.secondary and entry.logic in ("NOT_ANY", "NOT_ALL"):
            lost.append(f"sticky {entry.sticky}: a trigger does not know when it last fired")
        elif entry.sticky:
            depth += entry.sticky
            lost.append(f"sticky {entry.sticky}: keys are sought {entry.sticky} messages further back instead")
        conditions += _sought(entry, defaults, depth, invalid, lost)
    if entry.delay:
        lost.append(f"delay {entry.delay}: counts only the messages that the client sends")
    if entry.probability < 100:
        conditions.append(f"Math.random() < {entry.probability / 100:g}")
    return "\n  && ".join(conditions or ["true"])


def _sought(entry: Entry, defaults: Defaults, depth: int, invalid: Collection[str], lost: list[str]) -> list[str]:
    primary = [_key(key, entry, defaults, invalid, lost) for key in entry.keys]
    secondary = [_key(key, entry, defaults, invalid, lost) for key in entry.secondary]
    if len(primary) == 1 and secondary and entry.logic == "AND_ALL":
        return [literals.call("match_keys_all", primary + secondary, depth=depth)]
    found = f"{literals.call('match_keys', primary, depth=depth)} > 0"
    if not secondary:
        return [found]
    anywhere = literals.call("match_keys", secondary, depth=depth)
    everywhere = literals.call("match_keys_all", secondary, depth=depth)
    match entry.logic:
        case "AND_ANY":
            return [found, f"{anywhere} > 0"]
        case "NOT_ANY":
            return [found, f"{anywhere} === 0"]
        case "AND_ALL":
            return [found, everywhere]
        case "NOT_ALL":
            return [found, f"!{everywhere}"]


def _parsed(key: str, entry: Entry) -> tuple[str, str] | None:
    """Body and flags of a key that is an expression in form."""
    found = _EXPRESSION.fullmatch(key)
    if found and not _OPEN_SLASH.search(found["body"]):
        return found["body"], found["flags"]
    return (key.replace("/", r"\/"), "") if entry.all_regex else None


def _key(key: str, entry: Entry, defaults: Defaults, invalid: Collection[str], lost: list[str]) -> str:
    """A key as match_keys takes it: a string where that says the same, else an expression."""
    given = _parsed(key, entry)
    if given is not None and key in invalid:
        lost.append(f"key {key}: not a valid expression; sought as plain text, as SillyTavern does")
        given = None
    if given is not None:
        body, flags = given
        if "m" not in flags and (body.startswith("^") or (body.endswith("$") and not body.endswith("\\$"))):
            lost.append(f"key {key}: ^ and $ are the ends of one message here, not of all scanned text")
        line = body.replace("\r", r"\r").replace("\n", r"\n")
        return f"/{line}/{flags.replace('g', '').replace('y', '')}"
    text = defaults.named(key)
    exact = defaults.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
    whole = defaults.whole_words if entry.whole_words is None else entry.whole_words
    whole = whole and not re.search(r"\s", text)
    edged = _ASCII_WORD.match(text[0]) or _ASCII_WORD.match(text[-1])
    foreign = literals.has_ideograph(text) or not (_ASCII.match(text[0]) and _ASCII.match(text[-1]))
    # match_keys wants an edge beside a letter only: it finds `#hello` in `a#hello`, and SillyTavern does not.
    marked = whole and not foreign and not (_ASCII_WORD.match(text[0]) and _ASCII_WORD.match(text[-1]))
    if not exact and not marked and (literals.has_ideograph(text) or whole or not edged):
        return literals.string(text)
    return literals.expression(text, "" if exact else "i", whole=whole and not foreign)


# --- what has no meaning here ------------------------------------------------------------------------------

_LOST: Mapping[str, Callable[[Any], str]] = {
    "cooldown": lambda value: f"cooldown {value}: a trigger does not know when it last fired",
    "group": lambda value: f"group {value!r}: each entry of the group fires for itself",
    "vectorized": lambda _: "vectorized: only its keys are used, not its meaning",
    "delayUntilRecursion": lambda _: "delayUntilRecursion: there is no recursion, so it fires in the first pass",
    "characterFilter": lambda value: f"characterFilter: it fires for every character ({_names(value)})",
    "triggers": lambda value: f"triggers {value}: it fires for every kind of generation",
    "automationId": lambda value: f"automationId {value!r}: no script is started",
}
_ELSEWHERE = (
    "matchPersonaDescription",
    "matchCharacterDescription",
    "matchCharacterPersonality",
    "matchCharacterDepthPrompt",
    "matchScenario",
    "matchCreatorNotes",
)


def _lost_fields(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, say in _LOST.items():
        value = fields.get(name)
        if value and not (name == "characterFilter" and isinstance(value, dict) and not _names(value)):
            yield say(value)
    yield from (f"{name}: only messages are searched" for name in _ELSEWHERE if fields.get(name))


def _names(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    but = "all but " if value.get("isExclude") else ""
    names = [str(one) for one in (*(value.get("names") or ()), *(value.get("tags") or ()))]
    return f"{but}{', '.join(names)}" if names else ""


def _lost_macros(texts: Iterable[str], defaults: Defaults) -> Iterator[str]:
    """The macros that stay in these texts."""
    for macro in dict.fromkeys(_MACRO.findall(" ".join(texts))):
        if defaults.named(macro) == macro:
            name = macro.strip("{}").lower()
            advice = f"give --{name} NAME" if name in ("char", "user") else "nothing replaces it here"
            yield f"{macro}: stays as it is; {advice}"


def _lost_everywhere(book: Book) -> Iterator[str]:
    """What holds for the file as a whole, said once."""
    yield "names of speakers are not searched, only what they say"
    plain = {"order": 100, "position": 0, "depth": 4, "role": 0, "outletName": ""}
    used = [
        name
        for name, usual in plain.items()
        if any(entry.fields.get(name) not in (None, usual, "before_char") for entry in book.entries)
    ]
    if used:
        yield f"{', '.join(used)}: where a text stands in the prompt is for the client to decide"
    if len(book.entries) > 1 and any(not entry.fields.get("excludeRecursion") for entry in book.entries):
        yield "recursion: the text of one memory does not fire another"
