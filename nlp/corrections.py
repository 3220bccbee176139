"""Whether one text says that something is no longer as an older one says. Pure; when unsure, it does not.

Two rules, in Chinese and English. A *frame*: both have a sentence that begins in the same words and tells of a state, with
another value in the same place (Standup is in the Attic; 装修预算二十五万). A *mark*: the newer one says that something of the
older one ended or changed (I'm not in the flat share any more; 法语不学了，换成西班牙语). A question, a quotation, a condition, a
joke, another person, a temporary phrase and a list (also, 还有) correct nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nlp.once import Once
from nlp.stems import FUNCTION_CHARACTERS, says_little

_MOST_SENTENCE: Final = 120
"""Characters of a sentence that says that something ended."""
MOST_CHARS: Final = 400
"""Characters of a text that is read: in a longer one somebody pastes what others wrote."""
_LEAST_WORDS: Final = 3
"""Words of an English frame."""
_LEAST_CHARACTERS: Final = 4
"""Characters of a Chinese frame."""

_SENTENCE: Final = Once(lambda: re.compile(r"[^。！？!?\n]+?(?:[。！？!?\n]|\.(?=\s|$)|$)"))
_UNSURE: Final = Once(
    lambda: re.compile(
        r"[?？|\[\"“”「」『』]|要是|如果|假如|万一|吗|嗎|暂时|暫時|这[周週几幾两兩]|這[周週幾兩]|先[睡住用]|还有|還有|也[是在有叫]"
        r"|另外|以为|以為|听说|聽說|昨[天晚]|今[天晚]|明[天早]|梦|夢"
        r"|\b(?:if|imagine|would|could|might|maybe|perhaps|also|another|too|as well|this week|for now"
        r"|at the moment|temporarily|today|tonight|yesterday|tomorrow|who told|says?|said|wish|dreamt?)\b",
        re.IGNORECASE,
    )
)
"""A sentence with one of these corrects nothing, and is not corrected by a frame."""
_JOKE: Final = Once(
    lambda: re.compile(r"[开開]玩笑|哈哈哈|\b(?:lol|haha\w*|jk|joking|kidding)\b", re.IGNORECASE)
)
_WORD: Final = Once(lambda: re.compile(r"[a-z]+|'[a-z]+|\d+(?:[.,:]\d+)*"))
_STATE: Final = Once(
    lambda: re.compile(
        r"(?:i|we) (?:live|work|study|teach|drive|use|charge|pay|earn|weigh|take|rent)\b"
        r"|(?:(?:my|our|the) )?(?:[a-z]+ ){1,4}?(?:is|are|'s|goes|go|starts?|costs?|takes place)\b"
    )
)
"""How the frame of a state begins, in words with a blank between them."""
_SUBJECTS: Final = (
    "i you he she it we they this that there here what which who how why when where one thing part day "
    "time life best only first last next point problem idea question feeling plan goal key weather"
)
_OF_EVERYTHING: Final = frozenset(_SUBJECTS.split())
"""Subjects of which many things are said that are true together."""
_VALUE: Final = Once(
    lambda: re.compile(
        r"\d|(?:in|on|at|to|by|for) |(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may |june|july"
        r"|august|september|october|november|december|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    )
)
"""How a value begins of which a state has only one: a number, a day, a place."""
_NUMERAL: Final = "0-9０-９零一二三四五六七八九十百千万两兩半"
_CHINESE_STATE: Final = Once(
    lambda: re.compile(
        r"(?:最[喜爱愛][欢歡]?的.{1,4}是|[号號码碼址]是|[在住]|叫|用的是|负责人是|負責人是)$"
    )
)
_CHINESE_STATE_BEGINS: Final = Once(lambda: re.compile(rf"最[喜爱愛]|[在住叫是]|[{_NUMERAL}]"))
_STATE_CHARS: Final = 14
"""Characters of a Chinese sentence in which its state begins."""
_HINT_CHARS: Final = 3
_LIKED: Final = "liked "
_RELATIONS: Final = Once(
    lambda: re.compile(
        r"\b[Cc]all me (?P<name>[A-Z][\w ]{1,20}|that)|(?:[叫喊]我|改[叫喊])(?P<chinese_name>[^，。吧就了]{1,6})"
        r"|(?:[号號][:：码碼]?|[电電][话話]|手[机機]|现在是|現在是|\bphone|\bnumber)[^\d，。]{0,12}(?P<phone>\d[\d -]{6,}\d)"
        r"|(?:[Pp]arcels|[Dd]eliver\w*|[Aa]ddress|快[递遞]|地址)[^\d，。]{0,24}(?P<address>\d+ [A-Z]\w+|[A-Z]\w+ \d+)"
    )
)
"""Relations of which a person has one value: how to call them, the phone, the address."""
_HINTS_OF_RELATION: Final = {
    "name": ["call me"],
    "chinese_name": ["叫", "喊"],
    "phone": list("0123456789"),
    "address": list("0123456789"),
}
_THING: Final = r"(?!(?:that|when|this|these|those|what|being|having|start|feel|going|getting|doing|making|your|their)\w*)\w{4,}"
_TASTES: Final = Once(
    lambda: re.compile(
        rf"\bI (?:can't stand|hate|detest|don't (?:like|eat|drink)) (?P<dislike>{_THING})"
        rf"|\bI (?:really |absolutely )?(?:love|like|adore|enjoy|eat|drink) (?P<like>{_THING})"
        r"|(?:最[烦煩]|[讨討][厌厭]|不喜[欢歡]|不吃|不喝|受不了)(?P<dislike_zh>[\u3400-\u9fff]{2})"
        r"|(?:(?<!不)喜[欢歡]|[爱愛]吃|[爱愛]喝|[无無](?=..不[欢歡]))(?P<like_zh>[\u3400-\u9fff]{2})",
    )
)
"""What a speaker likes, and what not."""
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them|so|there)\s*$", re.IGNORECASE)
_OF_ANYTHING: Final = re.compile("[我咱们們最近现現在正一直都还還觉覺得想自己]")
"""Characters that do not say of what a Chinese frame tells."""
_CHINESE_EVENT: Final = re.compile("[了过過]|[昨今明前后後]天")
_ENDED: Final = Once(
    lambda: re.compile(
        r"(?P<chinese>[^。；！]{0,16})(?:不再|不[学學吃喝用去练練住玩干幹抽做]了|不在那|戒了|[辞辭]了|[换換][了成到]|改[成叫到在为為口])(?![么麼什怎])"
        r"|\bno longer (?P<no_longer>(?:\w+ ?){1,4})"
        r"|(?:\bnot|n't) (?P<not>(?:\w+ ){1,5})(?:any ?more|after all)\b"
        r"|\b(?P<off>\w{3,})(?:'s| is) (?:off|cancelled)(?=[,.!;]|$)"
        r"|\bswitched from (?P<from>(?:\w+ ){1,3})to\b",
        re.IGNORECASE,
    )
)
"""What ended, and the mark that says so."""
_OF_SPEAKER: Final = Once(lambda: re.compile(r"我|咱|\b(?:i|i'm|my|me|we|our|us)\b", re.IGNORECASE))
_OF_ANOTHER: Final = Once(
    lambda: re.compile(
        r"我(?:[爸妈媽姐弟哥妹爷爺奶舅姨叔同朋室邻鄰领領][^们們]?|老[婆公板師师])|他|她|\b(?:he|she|they|his|her|their"
        r"|my (?:\w+ )?(?:mum|mom|mother|dad|father|sister|brother|friend|flatmate"
        r"|roommate|uncle|aunt|boss|neighbou?r|colleague))\b",
        re.IGNORECASE,
    )
)


class Statement(NamedTuple):
    """What a text says that may correct, or be corrected: the sentences that tell of a state; the words of each thing
    that ended; the words of what it tells of its speaker; and its values of the relations that have one."""

    frames: tuple[str, ...] = ()
    ended: tuple[frozenset[str], ...] = ()
    told: frozenset[str] = frozenset()
    values: tuple[tuple[str, str], ...] = ()

    def hints(self) -> list[str]:
        """Beginnings and words, of which a text has one that this one corrects, in small letters."""
        hints = [frame[:_HINT_CHARS].lower() for frame in self.frames]
        hints += [word for words in self.ended for word in words]
        for relation, _value in self.values:
            hints += _HINTS_OF_RELATION.get(relation, [relation.removeprefix(_LIKED)])
        return hints

    def corrects(self, older: Statement) -> bool:
        """Whether this one, said later by the same person, says that something of `older` is no longer so."""
        if any(_is_told_in(words, older.told) for words in self.ended):
            return True
        known = dict(older.values)
        if any(known.get(relation, value) != value for relation, value in self.values):
            return True
        for frame in self.frames:
            same_state = _same_english_state if frame.isascii() else _same_chinese_state
            if any(same_state(frame, former) for former in older.frames):
                return True
        return False


def statement_of(text: str) -> Statement:
    """What a text says of its speaker's states."""
    if len(text) > MOST_CHARS or _JOKE().search(text) is not None:
        return Statement()
    sentences = list(_sentences(text))
    told: set[str] = set()
    clauses = re.split(r"[,，;；。.!！\n]", text)
    for clause in clauses:
        is_unsure = any(pattern().search(clause) for pattern in (_UNSURE, _OF_ANOTHER, _ENDED))
        if not is_unsure and _OF_SPEAKER().search(clause) is not None:
            told |= _telling(clause)
    return Statement(
        frames=tuple(filter(_tells_of_state, sentences)),
        ended=tuple(filter(None, _ended_things(sentences))),
        told=frozenset(told),
        values=tuple(_values((*sentences, *clauses))),
    )


def _values(sentences: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The relations that have one value at a time, each with its value in a text; liking a thing is one of them."""
    for sentence in sentences:
        if _OF_ANOTHER().search(sentence) or _UNSURE().search(sentence):
            continue
        for match in _RELATIONS().finditer(sentence.replace("’", "'")):
            relation = match.lastgroup or ""
            yield relation, "".join(match[relation].lower().split())
        for match in _TASTES().finditer(sentence.replace("’", "'")):
            thing = match.lastgroup or ""
            yield _LIKED + match[thing].lower(), thing[:4]


def _is_told_in(words: frozenset[str], told: frozenset[str]) -> bool:
    """Whether a text tells of a thing: it has all English words for it, or a pair of Chinese characters."""
    shared = words & told
    return shared == words or any(not word.isascii() for word in shared)


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE().finditer(text):
        sentence = match[0].strip()
        if sentence and _UNSURE().search(sentence) is None:
            yield sentence


def _tells_of_state(sentence: str) -> bool:
    """Whether a sentence may tell of a state of which there is one."""
    if sentence.isascii():
        return _STATE().match(" ".join(_words(sentence))) is not None
    beginning = sentence[:_STATE_CHARS]
    return _CHINESE_STATE_BEGINS().search(beginning) is not None


def _ended_things(sentences: Iterable[str]) -> Iterator[frozenset[str]]:
    """The words of each thing that ended, as its speaker says."""
    for sentence in sentences:
        if len(sentence) > _MOST_SENTENCE or _OF_ANOTHER().search(sentence) is not None:
            continue
        for match in _ENDED().finditer(sentence.replace("’", "'")):
            thing = match[match.lastgroup or 0]
            if _PRONOUN.search(thing) is None:
                yield _telling(thing)


def _words(sentence: str) -> list[str]:
    return _WORD().findall(sentence.lower().replace("’", "'"))


# The same frame with another value


def _frames(text: str) -> Iterator[str]:
    """The sentences of a text that may tell of a state of which there is one."""
    for sentence in _sentences(text):
        if not sentence.isascii() or _STATE().match(" ".join(_words(sentence))) is not None:
            yield sentence


def _same_english_state(newer: str, older: str) -> bool:
    """Whether both tell of the same state with different values."""
    words, former = _words(newer), _words(older)
    length = _common(words, former)
    frame = " ".join(words[:length])
    state = _STATE().match(frame)
    if state is None or length >= min(len(words), len(former)):
        return False
    subject = frame.split()[:-1]
    is_of_speaker = frame.startswith(("i ", "we "))
    if not is_of_speaker and _OF_EVERYTHING.intersection(subject):
        return False
    values = " ".join(words[length:]), " ".join(former[length:])
    numbers = words[length].isdigit() and former[length].isdigit()
    if numbers and words[length + 1 : length + 3] == former[length + 1 : length + 3]:
        return True  # I charge 50 an hour
    if length < _LEAST_WORDS or _OF_ANOTHER().search(frame):
        return False
    rest = frame[state.end() :].strip()
    return bool(rest) or all(_VALUE().match(value) for value in values)


def _same_chinese_state(newer: str, older: str) -> bool:
    length = _common(newer, older)
    frame = newer[:length]
    has_subject = len(_OF_ANYTHING.sub("", frame)) >= 2
    if length < _LEAST_CHARACTERS - 1 or not has_subject or _CHINESE_EVENT.search(frame):
        return False
    clause, former = (re.split("[，,；;]", text[length:])[0] for text in (newer, older))
    if not clause or not former:
        return False
    if (
        length >= _LEAST_CHARACTERS
        and re.match(f"[{_NUMERAL}]", clause)
        and re.match(f"[{_NUMERAL}]", former)
    ):
        return True
    if _CHINESE_STATE().search(frame) is None:
        return False
    is_favourite = "最" in frame
    return is_favourite or clause[-2:] == former[-2:] or _common(clause[::-1], former[::-1]) >= 2


def _common(first: str | list[str], second: str | list[str]) -> int:
    """How long both begin in the same way."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def _telling(text: str) -> frozenset[str]:
    """The stems of English words and the pairs of Chinese characters that say something."""
    telling = {word for word in _words(text) if len(word) > 3 and not says_little(word)}
    for run in re.findall("[\u3400-\u9fff]{2,}", text):
        for start in range(len(run) - 1):
            pair = run[start : start + 2]
            if FUNCTION_CHARACTERS.isdisjoint(pair) and _OF_ANYTHING.search(pair) is None:
                telling.add(pair)
    return frozenset(telling)
