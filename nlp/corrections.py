"""Whether one text says that something is no longer as an older one says. Pure; when unsure, it does not.

Two rules, in Chinese and English. A *frame*: both have a sentence that begins in the same words and tells of a state, with
another value in the same place (Standup is in the Attic; 装修预算二十五万). A *mark*: the newer one says that something of the
older one ended or changed (I'm not in the flat share any more; 法语不学了，换成西班牙语). A question, a quotation, a condition, a
joke, another person, a temporary phrase and a list (also, 还有) correct nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from nlp.once import Once
from nlp.stems import FUNCTION_CHARACTERS, says_little

_MOST_SENTENCE: Final = 120
"""Characters of a sentence that says that something ended."""
_MOST: Final = 8
"""States, ended things and values that are read of a text: people tell of a few."""
MOST_CHARS: Final = 400
"""Characters of a text that is read: a longer text is mostly pasted, and others wrote it."""
_LEAST_WORDS: Final = 3
"""Words of an English frame."""
_LEAST_CHARACTERS: Final = 4
"""Characters of a Chinese frame."""

_SENTENCE: Final = Once(
    lambda: re.compile(r"[^。！？!?\n.]*(?:\.(?!\s|$)[^。！？!?\n.]*)*[。！？!?\n.]?")
)
_UNSURE: Final = Once(
    lambda: re.compile(
        r"[?？|\[\"“”「」『』]|要是|如果|假如|万一|吗|嗎|暂时|暫時|这[周週几幾两兩]|這[周週幾兩]|先[睡住用]|还有|還有|也[是在有叫]"
        r"|另外|以为|以為|听说|聽說|昨[天晚]|今[天晚]|明[天早]|梦|夢"
        r"|\b(?:if|imagine|would|could|might|maybe|perhaps|also|another|too|as well|this week|for now"
        r"|at the moment|temporarily|today|tonight|yesterday|tomorrow|who told|says?|said|wish|dreamt?)\b",
        re.IGNORECASE,
    )
)
"""A sentence with any of these corrects nothing, and is not corrected by a frame."""
_JOKE: Final = Once(
    lambda: re.compile(r"[开開]玩笑|哈哈哈|\b(?:lol|haha\w*|jk|joking|kidding)\b", re.IGNORECASE)
)
_WORD: Final = Once(lambda: re.compile(r"[a-z]+|'[a-z]+|\d+(?:[.,:]\d+)*"))
_STATE: Final = Once(
    lambda: re.compile(
        r"(?P<own>(?:i|we)[^\w']{1,3}(?:live|work|study|teach|drive|use|charge|pay|earn|weigh|take|rent)\b)"
        r"|(?:[a-z]+[^\w']{1,3}){0,4}?[a-z]+(?:[^\w']{1,3}(?:is|are|goes|go|starts?|costs?|takes place)| ?'s)\b",
        re.IGNORECASE,
    )
)
"""The beginning of an English sentence that tells of a state. The group `own` matches a state of the speaker."""
_SUBJECTS: Final = (
    "i you he she it we they this that there here what which who how why when where one thing part day "
    "time life best only first last next point problem idea question feeling plan goal key weather"
)
_OF_EVERYTHING: Final = frozenset(_SUBJECTS.split())
"""Subjects of which many things are said that are true together."""
_PREPOSITIONS: Final = frozenset(("in", "on", "at", "to", "by", "for"))
_VALUE: Final = Once(
    lambda: re.compile(
        r"\d|(?:in|on|at|to|by|for) |(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may |june|july"
        r"|august|september|october|november|december|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    )
)
"""How a value begins of which a state has only one: a number, a day, a place."""
_VALUE_CHARS: Final = 24
"""Characters after a state in which its value begins."""
_NUMERAL: Final = "0-9０-９零一二三四五六七八九十百千万两兩半"
_CHINESE_STATE: Final = (
    "(?:最[喜爱愛][欢歡]?的.{1,4}是|[号號码碼址]是|[在住叫]|用的是|负责人是|負責人是)"
)
_CHINESE_STATE_ENDS: Final = Once(lambda: re.compile(f"{_CHINESE_STATE}$"))
_CHINESE_FRAME: Final = Once(
    lambda: re.compile(rf".{{0,13}}?(?:{_CHINESE_STATE}(?<=.{{3}})|.(?<=.{{4}})(?=[{_NUMERAL}]))")
)
"""The shortest frame of a Chinese sentence: a state, or what precedes a number. It has 3 or 4 characters at least."""
_LIKED: Final = "liked "
_WAS: Final = "was_"
_RELATIONS: Final = Once(
    lambda: re.compile(
        r"\b[Cc]all me (?P<name>[A-Z][\w ]{1,20}|that)"
        r"|(?:[叫喊]我|改[叫喊])(?P<chinese_name>[^，。吧就了]{1,6})(?=吧|就|了|，|。|$)(?<!起床)"
        r"|(?:(?<![单單])[号號][:：码碼]?|[电電][话話]|手[机機]|现在是|現在是|\bphone|(?<![Oo]rder )\bnumber)"
        r"[^\d，。]{0,12}(?P<phone>\d[\d -]{6,}\d)"
        r"|(?:[Pp]arcels|[Dd]eliver\w*|[Aa]ddress|快[递遞]|地址)[^\d，。]{0,24}(?P<address>\d+ [A-Z]\w+|[A-Z]\w+ \d+)"
        r"|(?:\bI(?:'m| am)|\bme on|\bnow it's) (?:now |on )?(?:an? )?(?P<diet>vegan|vegetarian|pescatarian|keto|low[- ]\w+)\b"
        r"|\b(?:I(?:'m| am)(?: now)?|we're) in the (?P<timezone>[A-Z]{2,5}) time ?zone"
        r"|\bI(?:'m on|'m now on| am on|(?:'ve| have)? (?:moved|switched) to|(?:'ve)? joined) the (?P<team>[A-Z]\w+) team"
        r"|\b(?:I(?: now)? live in|I'm living in) (?:(?P<home>[A-Z]\w+)(?: [A-Z]\w+)* (?:now|these days)\b"
        r"|(?P<was_home>[A-Z]\w+))"
        r"|\bI(?:'ve)? moved to (?!the )(?P<home_moved>[A-Z]\w+)"
        r"|\b(?:I work (?:at|for)(?: the)? (?:(?P<job>[A-Z]\w+)(?: [A-Z]\w+)* (?:now|these days)\b|(?P<was_job>[A-Z]\w+)))"
        r"|[我咱](?:们|們)?(?:已[经經])?(?:搬[到去来來进進]了?|[现現]在住在?)(?P<home_zh>[\u3400-\u9fff]{2})"
        r"|我住在?(?P<was_home_zh>[\u3400-\u9fff]{2})"
    )
)
"""Relations with a single value for each person: how to call them, the phone, the address, home and so on. `was_`: an
older text that has it is corrected, and a newer text that only has it corrects nothing, because it may be the same
place."""
_HELD: Final = Once(
    lambda: re.compile(
        r"(?P<subject>(?:\w+(?:'s)? ){0,4}?(?:title|employer|manager|boss|e-?mail|deadline|release|version|role|dentist|doctor"
        r"|landlord|password|budget|rent|owner)(?: (?:for|of)(?: \w+){1,3}?)?) "
        r"(?:is now|is|moved to|changed to|has moved to|was moved to|will be) (?:now )?(?:an? )?"
        r"(?P<held>v?[A-Z\d][\w.@-]*(?: [A-Z\d][\w.-]*)*|\S+@\S+)"
    )
)
"""The subject of a relation that a person, a team or a thing has, and its value: a name, a number or a day."""
_SIGNS_OF_HELD: Final = (
    *(
        " title",
        "mployer",
        " manager",
        " boss",
        "-mail",
        " email",
        "Email",
        "eadline",
        " release",
        " version",
    ),
    *(" role", "entist", "octor", "andlord", "assword", " budget", " rent ", " owner"),
)
_SIGNS_OF_HOLDING: Final = (" is ", "moved to ", "changed to ", "will be ")
"""Each text that `_HELD` matches has some of these."""
_NO_SUBJECT: Final = (
    "the my our a so for of is and but current official new actually correction update fyi s now"
)
_SIGNS_OF_RELATION: Final = {
    "name": ("all me ",),
    "chinese_name": ("叫", "喊"),
    "phone": ("号", "號", "电话", "電話", "手机", "手機", "现在是", "現在是", "phone", "number"),
    "address": ("arcels", "eliver", "ddress", "快递", "快遞", "地址"),
    "diet": ("vegan", "vegetar", "pescat", "keto", "low-", "low carb", "low fat"),
    "timezone": ("zone",),
    "team": (" team",),
    "home": (" live in", "living in", "moved to"),
    "home_zh": ("住", "搬"),
    "job": ("I work",),
}
_SIGNS_OF_RELATIONS: Final = tuple(chain.from_iterable(_SIGNS_OF_RELATION.values()))
_SIGNS_OF_TASTE: Final = (
    *("I can't stand", "I hate", "I detest", "I don't", "I really", "I absolutely", "I love"),
    *("I like", "I adore", "I enjoy", "I eat", "I drink"),
    *("烦", "煩", "厌", "厭", "不喜", "不吃", "不喝", "受不了", "喜欢", "喜歡"),
    *("爱吃", "愛吃", "爱喝", "愛喝", "无", "無"),
)
_SIGNS_OF_VALUE: Final = (*_SIGNS_OF_RELATIONS, *_SIGNS_OF_TASTE, *_SIGNS_OF_HELD)
"""Each text that has a value of such a relation has some of these."""
_THING: Final = r"(?!(?:that|when|this|these|those|what|being|having|start|feel|going|getting|doing|making|your|their)\w*)\w{4,}"
_THING_ENDS: Final = (
    r"(?=\W*$|[,;.!]| (?:now|again|a lot|so much|at all|any ?more|these days|lately|but|though)\b)"
)
_CHINESE_THING_ENDS: Final = r"(?=\W|$|[了啊呢嘛啦的但可]|不[欢歡])"
"""What is said of a thing alone: swimming pools are not swimming, and 烤鸭 of a town is not the town."""
_TASTES: Final = Once(
    lambda: re.compile(
        rf"\bI (?:can't stand|hate|detest|don't (?:like|eat|drink)) (?P<dislike>{_THING}){_THING_ENDS}"
        rf"|\bI (?:really |absolutely )?(?:love|like|adore|enjoy|eat|drink) (?P<like>{_THING}){_THING_ENDS}"
        rf"|(?:最[烦煩]|[讨討][厌厭]|不喜[欢歡]|不吃|不喝|受不了)(?P<dislike_zh>[\u3400-\u9fff]{{2}}){_CHINESE_THING_ENDS}"
        rf"|(?:(?<!不)喜[欢歡]|[爱愛]吃|[爱愛]喝|[无無](?=..不[欢歡]))(?P<like_zh>[\u3400-\u9fff]{{2}}){_CHINESE_THING_ENDS}",
    )
)
"""What a speaker likes, and what not."""
_CLAUSE_END: Final = re.compile(r"[,，;；。!！\n]|\.(?!\w)")
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them|so|there)\s*$", re.IGNORECASE)
_OF_ANYTHING: Final = re.compile("[我咱们們最近现現在正一直都还還觉覺得想自己]")
"""Characters that do not say of what a Chinese frame tells."""
_CHINESE_EVENT: Final = re.compile("[了过過]|[昨今明前后後]天")
_SIGNS_OF_END: Final = (
    *("不", "戒了", "辞了", "辭了", "换", "換", "改", "no longer", "No longer"),
    *("any more", "anymore", "after all", " off", " cancelled", "witched from"),
)
"""Each text that says that something ended has some of these."""
_ENDED: Final = Once(
    lambda: re.compile(
        r"(?P<chinese>[^。；！]{0,16})(?:不再|不[学學吃喝用去练練住玩干幹抽做]了|不在那|戒了|[辞辭]了|[换換][了成到]|改[成叫到在为為口])(?![么麼什怎])"
        r"|\bno longer (?P<no_longer>(?:\w+ ?){1,4})"
        r"|(?:\bnot|n't) (?P<not>(?:\w+ ){1,5})(?:any ?more\b(?! (?!and|but|so|since|because|now|as)\w)|after all\b)"
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


class Frame(NamedTuple):
    """A sentence that tells of a state of which there is one, and a part of it that each sentence has that tells of the
    same state with another value."""

    sentence: str
    sign: str


class Statement(NamedTuple):
    """What a text says that may correct an older text: the states that it tells of, the words of each thing that ended,
    and its values of the relations that have one value at a time."""

    frames: tuple[Frame, ...] = ()
    ended: tuple[frozenset[str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()

    def signs(self) -> tuple[str, ...]:
        """Parts of texts, as people write them. Each text that this statement corrects has some of these parts."""
        signs = [frame.sign for frame in self.frames]
        for words in self.ended:
            chinese_pairs = [word for word in words if not word.isascii()]
            signs += chinese_pairs or [max(words, key=len)]
        for relation, _value in self.values:
            signs += _signs_of(relation)
        signs += [sign[:1].swapcase() + sign[1:] for sign in signs]
        signs += [sign.replace("'", "’") for sign in signs]
        return tuple(dict.fromkeys(signs))

    def corrects(self, older: str) -> bool:
        """Return whether this one, said later by the same person, says that something of an older text is no longer
        so."""
        if len(older) > MOST_CHARS:
            return False
        older = _plain(older)
        says_otherwise = (
            any(_is_told_in(older, words) for words in self.ended)
            or self._has_other_value(older)
            or any(_tells_otherwise(older, frame) for frame in self.frames)
        )
        return says_otherwise and _JOKE().search(older) is None

    def _has_other_value(self, older: str) -> bool:
        for relation, value in self.values:
            signs = _signs_of(relation)
            parts = [part for part in _parts(older) if has_sign(part, signs)]
            known = {known.removeprefix(_WAS): former for known, former in _values(parts)}
            if known.get(relation, value) != value:
                return True
        return False


def _signs_of(relation: str) -> tuple[str, ...]:
    """Return parts; each text that tells a value of a relation has some of them."""
    word = max(relation.removeprefix(_LIKED).split(), key=len)
    return _SIGNS_OF_RELATION.get(relation, (word, word.capitalize()))


def statement_of(text: str) -> Statement:
    """Return what a text says that may correct an older one; most texts say nothing of that kind."""
    text = _plain(text)
    if len(text) > MOST_CHARS:
        return Statement()
    frames = list(filter(None, map(_frame_of, _sentences(text))))
    has_ended = has_sign(text, _SIGNS_OF_END)
    has_value = has_sign(text, _SIGNS_OF_VALUE)
    if not (frames or has_ended or has_value) or _JOKE().search(text) is not None:
        return Statement()

    # A sentence that is not sure of what it says corrects nothing.
    frames = [frame for frame in frames if _is_sure(frame.sentence)]
    ended = list(filter(None, _ended_things(text))) if has_ended else []

    values: list[tuple[str, str]] = []
    if has_value:
        signs = [sign for sign in _SIGNS_OF_VALUE if sign in text]
        parts = [part for part in _parts(text) if has_sign(part, signs)]
        all_values = dict.fromkeys(_values(parts))
        values = [value for value in all_values if not value[0].startswith(_WAS)]

    return Statement(tuple(frames[:_MOST]), tuple(ended[:_MOST]), tuple(values[:_MOST]))


def has_sign(text: str, signs: Sequence[str]) -> bool:
    """Return whether a text has any of these parts. Ten times as fast as a regular expression."""
    return any(map(text.__contains__, signs))


def _plain(text: str) -> str:
    """Normalize the apostrophes, and remove the full stop after titles, which does not end a sentence."""
    for title in ("Mr", "Mrs", "Ms", "Dr", "St"):
        text = text.replace(f"{title}. ", f"{title} ")
    return text.replace("’", "'")


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE().findall(text):
        if stripped := sentence.strip():
            yield stripped


def _is_sure(sentence: str) -> bool:
    return _UNSURE().search(sentence) is None


def _parts(text: str) -> Iterator[str]:
    """Yield the sentences and the clauses of a text."""
    yield from _sentences(text)
    yield from _CLAUSE_END.split(text)


def _values(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the relations that have a single value at a time, each with its value; liking a thing is such a relation."""
    for part in parts:
        values = list(_values_in(part))
        if values and _OF_ANOTHER().search(part) is None and _is_sure(part):
            yield from values


def _values_in(part: str) -> Iterator[tuple[str, str]]:
    # An expression is tried only where any of its signs is: most parts have none.
    if has_sign(part, _SIGNS_OF_RELATIONS):
        for match in _RELATIONS().finditer(part):
            relation = match.lastgroup or ""
            yield relation.replace("_moved", ""), "".join(match[relation].lower().split())
    if has_sign(part, _SIGNS_OF_TASTE):
        for match in _TASTES().finditer(part):
            thing = match.lastgroup or ""
            yield _LIKED + match[thing].lower(), thing[:4]
    if has_sign(part, _SIGNS_OF_HELD) and has_sign(part, _SIGNS_OF_HOLDING):
        for match in _HELD().finditer(part):
            subject = frozenset(re.findall(r"\w+", match["subject"].lower()))
            yield " ".join(sorted(subject.difference(_NO_SUBJECT.split()))), match["held"].lower()


def _is_told_in(text: str, words: frozenset[str]) -> bool:
    """Return whether a text tells of a thing of its speaker: it has all English words for it, or a pair of Chinese
    characters."""
    told: set[str] = set()
    for clause in _CLAUSE_END.split(text):
        shared = words & _telling(clause)
        if not shared or _OF_SPEAKER().search(clause) is None or not _is_sure(clause):
            continue
        if _OF_ANOTHER().search(clause) is None and _ENDED().search(clause) is None:
            told |= shared
    return told == words or any(not word.isascii() for word in told)


def _ended_things(text: str) -> Iterator[frozenset[str]]:
    """Yield the words of each thing that ended, as its speaker says."""
    for sentence in _sentences(text):
        if len(sentence) > _MOST_SENTENCE or not has_sign(sentence, _SIGNS_OF_END):
            continue
        things = [match[match.lastgroup or 0] for match in _ENDED().finditer(sentence)]
        if things and _OF_ANOTHER().search(sentence) is None and _is_sure(sentence):
            yield from [_telling(thing) for thing in things if _PRONOUN.search(thing) is None]


def _frame_of(sentence: str) -> Frame | None:
    """Return the frame of a sentence that may tell of a state that exists only once, or None."""
    sign = _english_sign(sentence) if sentence.isascii() else _chinese_sign(sentence)
    return None if sign is None else Frame(sentence, sign)


def _english_sign(sentence: str) -> str | None:
    """Return the shortest beginning of an English sentence that `_same_english_state` takes for the same state, or
    None."""
    state = _STATE().match(sentence)
    if state is None:
        return None
    state_words = _words(state[0])
    if state["own"] is None and _OF_EVERYTHING.intersection(state_words[:-1]):
        return None

    value_words = _words(sentence[state.end() : state.end() + _VALUE_CHARS])
    if not value_words:
        return None

    # A number is a value by itself; other values need more words before them.
    least_words = len(state_words)
    if not value_words[0].isdigit():
        if _VALUE().match(" ".join(value_words)) is None:
            least_words += 1
        least_words = max(least_words, _LEAST_WORDS)

    words = list(islice(_WORD().finditer(sentence.lower()), least_words))
    sign = sentence[: words[-1].end()]
    if _OF_ANOTHER().search(sign) and not value_words[0].isdigit():
        return None
    return sign


def _chinese_sign(sentence: str) -> str | None:
    """Return the shortest beginning of a Chinese sentence that `_same_chinese_state` takes for the same state, or
    None."""
    frame = _CHINESE_FRAME().match(sentence)
    if frame is None or _CHINESE_EVENT.search(frame[0]):
        return None
    return frame[0]


def _tells_otherwise(text: str, frame: Frame) -> bool:
    """Return whether a text tells of the same state with another value."""
    is_english = frame.sentence.isascii()
    same_state = _same_english_state if is_english else _same_chinese_state
    for sentence in _sentences(text):
        is_other = is_english == sentence.isascii() and same_state(frame.sentence, sentence)
        if is_other and _is_sure(sentence):
            return True
    return False


def _words(sentence: str) -> list[str]:
    return _WORD().findall(sentence.lower())


# The same frame with another value


def _same_english_state(newer: str, older: str) -> bool:
    """Return whether both tell of the same state with different values."""
    words, former = _words(newer), _words(older)
    length = _common(words, former)
    frame = " ".join(words[:length])
    state = _STATE().match(frame)
    if state is None or length >= min(len(words), len(former)):
        return False

    subject = frame.split()[:-1]
    is_of_speaker = state["own"] is not None
    if not is_of_speaker and _OF_EVERYTHING.intersection(subject):
        return False

    values = " ".join(words[length:]), " ".join(former[length:])
    numbers = words[length].isdigit() and former[length].isdigit()
    if numbers and words[length + 1 : length + 3] == former[length + 1 : length + 3]:
        return True  # I charge 50 an hour

    # A short frame such as "I am" begins sentences about many things.
    if length < _LEAST_WORDS or _OF_ANOTHER().search(frame):
        return False
    if is_of_speaker and words[1] in ("take", "use", "pay"):
        return False  # of several things; only an amount is one value

    rest = frame[state.end() :].strip()
    if _is_name(newer, length) != _is_name(older, length):
        return False  # I work in Berlin, in marketing

    if is_of_speaker and rest:
        return True
    if words[length] != former[length] and {words[length], former[length]} <= _PREPOSITIONS:
        return False  # The meeting is on Monday, in Berlin
    # "The print is on the 3rd" has one value; "let's keep going" and "the colours are so vivid" tell of many things.
    return all(_VALUE().match(f"{rest} {value}".lstrip()) for value in values)


def _is_name(sentence: str, index: int) -> bool:
    """Return whether a word of an English sentence begins with a capital letter."""
    match = next(islice(_WORD().finditer(sentence.lower()), index, None), None)
    return match is not None and sentence[match.start()].isupper()


def _same_chinese_state(newer: str, older: str) -> bool:
    length = _common(newer, older)
    frame = newer[:length]
    has_subject = len(_OF_ANYTHING.sub("", frame)) >= 2
    if length < _LEAST_CHARACTERS - 1 or not has_subject or _CHINESE_EVENT.search(frame):
        return False
    clause, former = (re.split("[，,；;]", text[length:])[0] for text in (newer, older))
    if not clause or not former:
        return False
    number, former_number = (re.match(f"[{_NUMERAL}]+(.?)", text) for text in (clause, former))
    if length >= _LEAST_CHARACTERS and number and former_number:
        return number[1] == former_number[1]  # of the same unit
    if _CHINESE_STATE_ENDS().search(frame) is None:
        return False
    is_favourite = "最" in frame
    return is_favourite or clause[-2:] == former[-2:] or _common(clause[::-1], former[::-1]) >= 2


def _common(first: str | list[str], second: str | list[str]) -> int:
    """Return the length of the beginning that both share."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def _telling(text: str) -> frozenset[str]:
    """Return the stems of English words and the pairs of Chinese characters that say something."""
    telling = {word for word in _words(text) if len(word) > 3 and not says_little(word)}
    for run in re.findall("[\u3400-\u9fff]{2,}", text):
        for start in range(len(run) - 1):
            pair = run[start : start + 2]
            if FUNCTION_CHARACTERS.isdisjoint(pair) and _OF_ANYTHING.search(pair) is None:
                telling.add(pair)
    return frozenset(telling)
