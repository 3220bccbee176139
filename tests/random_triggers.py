"""Random triggers on random chats, to compare what condition_reading.py and conditions.py say with what V8 does.

The chats come first, and most words of the triggers are cut out of their texts: across the borders of messages, in
another case, in another spelling. Many triggers are traps: they look like shapes that are read.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox.conditions import named_text, speaker_names
from sandbox.javascript.spelling import folded

WORDS = """
生日 慶祝 庆祝 後天 后天 咖啡 下雨 貓咪 猫咪 臺灣 台湾 我的生日 今天 乾杯 干杯
發髮 头发 ＡＩ ｃａｔ Ｃａｔ ＣＡＴ\u3000ａ
cat Cat education the good morning goodmorning C++ .NET node.js don't a b s k i I x-y 17 2026 [x] a|b (c) $5
café CAFÉ straße STRASSE STRAẞE ß ẞ ſet Set K\u212a \u212ak \u212b å İstanbul istanbul ıs Is ΣΑΣ σας Σας ς Ω \u2126
привет ПРИВЕТ Ꭰ ꭰ Ა ა \u0264 \ua7cb \u019b \ua7dc ﬁ fi ŉ ʼn ǰ \u0345 ι Ι µ μ Μ ϐ β すし スシ ｽｼ 안녕 🎂 🎂🎉 é e\u0301
""".replace("\n", " ").split(" ")
OTHERS = ["zyx", "没有", "ｚ", "qq q", "", "ＺＺ", "\u019b", "Ქ", "zz", "沒有", "qx", "wv"]
GLUES = [" ", " ", "", "\n", ",", "\u3000", "a", "日"]
ROLES = ["user", "assistant", "system", "char", "other", "user", "assistant"]
_TRADITIONAL = {
    folded(char): char for char in map(chr, range(0x4E00, 0xA000)) if folded(char) != char
}

# A rule in each block: `name:` and its alternatives between bars; `3*` says it three times. After the double bar are
# the odd ones, which V8 refuses, or which are not read. <name> is a rule, or a method of Chance. TAB,
# LF, CR stand for these characters; NBSP, BOM and LS for others that look like blanks.
GRAMMAR = r"""
form: 40*<or><end> ¦ 4*return <or><end> ¦ // aLFreturn <or>; ¦ return(<or>) ¦ return /**/ <or> ¦ 2*await <one>
  ¦ return await <one>; ¦ (await <one>) || <one> ¦ !await <one> ¦ /* a */ <or> ¦ await <one> && <one>
  ¦ // World infoLF<or> ¦ // World infoLFtrue<end>
  ¦ return <constant><end> ¦ <one>CRLF  && <one> ‖ return LF<or> ¦ return /*LF*/ <or> ¦ await <one>; ¦ await <one>; // c
  ¦ await <one><end> ¦ "use strict"; <or> ¦ <or>LF<one> ¦ <or>; <one> ¦ <one>, <one> ¦ (<one>, <one>)
  ¦ const a = <one> && nope; return <one> ¦ if (<one>) <one> ¦ const a = <one>LFa || <one> ¦ let args = 1; <one>
  ¦ <one> <!-- <one> ¦ <one> --> 1 ¦ 0 --> <one> ¦ <one> ? <one> : 0 ¦ <one> ?? <one>
  ¦ function match_keys() { return 1 }; <one> ¦ <one> // LS || true ¦ <one> // CR || true ¦ BOM<one>
  ¦ <one>CR&& <one> ¦ <one> NBSP&& <one> ¦ { <one> } ¦ [<one>] ¦ `a` && <one> ¦ <one> + <one> ¦ (<one>) + (<one>) > 1
  ¦ void <one> ¦ -<one> ¦ typeof <one> ¦ ~~<one> ¦ +<one> > 0 ¦ <one> === undefined ¦ <one> in {} ¦ <one>LF(<one>)
  ¦ 3*<trap> && <one> ¦ 3*<one> && <trap> ¦ 3*<trap> || <one>
end: 6* ¦ ; ¦ ;; ¦ LF ¦  // ok ¦  /* a */ ¦  // return await ¦ LF// xLF ¦ ;TAB
or: 4*<one> ¦ 2*<last> ¦ 4*<one> && <or> ¦ 3*<one> || <or> ¦ (<or>) && (<or>) ¦ (<or>) || <one> ¦ !<one> && <or>
  ¦ !!<one> && <one> ‖ 4*context.participants.odd > 1 && <every> ¦ !(<or>) ¦ <one> == <one> ¦ <one> === <one>
  ¦ (<or>) > 0 ¦ (<or>) === false
one: 6*<call><maybe> ¦ 4*<every> ¦ 4*<loop> ¦ 4*<found> ¦ 2*<listed> ¦ 2*<dated> ¦ <constant> ¦ 2*<every> && <every>
  ‖ <trap>
maybe: 5* ¦ 2*<than> ¦ 4* > 0 ¦  === 0
than:  <sign> <number>
last: <null> || <since> ¦ <null> || <or> ¦ <null> || <since> && <or> ¦ <notnull> && <since>
  ¦ (<notnull> && <since>) || <or> ¦ (<notnull>) && <since> ¦ <notnull> && (<or> || <since>)
  ¦ <or> && <notnull> && <since> ¦ <null> || (<since> && <or>) ¦ context.last_fired?.messages<than>
  ¦ args.last_fired?.ms<than> && <or> ¦ <or> && (<null> || <since>)
  ‖ <or> && <since> ¦ <since> || <or> ¦ <notnull> || <since> ¦ <null> && <since> ¦ (<or> && <null>) || <since>
  ¦ <null> || <or> || <since> ¦ <or> || <null> || <since> ¦ context.last_fired?.nothing<than> ¦ context.last_fired<than>
  ¦ context.last_fired.messages.a && <or> ¦ <one> && context.last_fired?.ms.a ¦ !<null> && <since>
  ¦ (<null> || <or>) && <since> ¦ !(<notnull>) || <since> ¦ <notnull> && <one> || <since> ¦ context.lastFired.ms > 1
null: context.last_fired === null ¦ !context.last_fired ¦ null == args.last_fired ¦ context?.last_fired == null
notnull: context.last_fired !== null ¦ context.last_fired ¦ null != args.last_fired ¦ !!context.last_fired
since: context.last_fired.messages<than> ¦ context.last_fired.ms<than> ¦ args.last_fired.messages >= 3
sign: 3*> ¦ 2*>= ¦ === ¦ !== ¦ < ¦ <= ¦ == ¦ !=
number: 3*0 ¦ 2*1 ¦ 2 ¦ -1 ¦ -0 ‖ 0.5 ¦ true ¦ false ¦ null ¦ undefined ¦ '' ¦ '0'
call: match_keys(<list>, <keys><scope>)
every: match_keys_all(<list>, <keys><scope>) ¦ match_keys_all(context.messages, [<literal>, <literal>])
list: 6*<messages> ¦ context ¦ args ‖ []
scope: 6* ¦ , 'any' ¦ , 'user' ¦ , 'char' ¦ , 'assistant' ¦ 6*, <who>, <depth> ‖ , 'other' ¦ , 'nobody' ¦ , 7
who: 'any' ¦ 'any' ¦ 'user' ¦ 'assistant' ¦ 'both' ¦ 2*'named'
depth: 0 ¦ 1 ¦ 1 ¦ 2 ¦ 3 ¦ 4 ¦ 5 ¦ 6 ¦ 9 ¦ 17 ¦ -1 ¦ null ‖ -2 ¦ undefined ¦ 2.5 ¦ '3' ¦ NaN
keys: 9*[<literal>] ¦ 5*[<literal>, <literal>] ¦ [<literal>,<literal>,<literal>,] ¦ 2*[<literal>, <pattern>]
  ¦ [<pattern>] ‖ []
messages: 6*context.messages ¦ args.messages ¦ context?.messages ¦ 2*context.messages.slice(<start>)
  ¦ context.messages.slice(<start>).slice(<start>) ¦ context.messages.filter(m => <told>)
  ¦ context.messages.slice(<start>).filter((m) => <told>) ¦ context.messages.filter(m => <told>).slice(<start>)
  ‖ context.messages.slice(<start>, <start>)
start: -1 ¦ -1 ¦ -2 ¦ -3 ¦ -5 ¦ -20 ¦ 0 ¦ 1 ¦ 2 ¦ -0
told: m.role === 'user' ¦ m.role !== 'system' ¦ 4*m.content.includes(<literal>) ¦ 2*<pattern>.test(m.content)
  ¦ m.content ¦ 2*m.role === 'user' && m.content.includes(<literal>) ¦ m.content.toLowerCase().includes(<literal>)
  ¦ m.timestamp > 5 ¦ !m.content.includes(<literal>) ¦ m.content?.includes(<literal>) ¦ m.content.length > 5
  ¦ m.content.indexOf(<literal>) >= 0 ¦ ['zz', <literal>].some(k => m.content.includes(k))
  ¦ m.content.startsWith(<literal>) ¦ m.content.trim().endsWith(<literal>)
  ¦ m.content.toLowerCase().indexOf(<literal>)<than> ‖ m.content.toUpperCase().includes(<literal>) ¦ false
  ¦ m.nothing ¦ m.role === 'user' || m.content.includes(<literal>) ¦ m.name.length > 0
  ¦ context.messages.some(x => x.content.includes(<literal>))
text: 3*<content> ¦ <content>.toLowerCase() ¦ <content>.trim() ‖ <content>.normalize() ¦ <content>.slice(1)
content: 3*context.messages.at(-1).content ¦ context.messages.at(-1)?.content
  ¦ 4*context.messages.map(m => m.content).join(<glue>) ¦ <messages>.map(x => x.content).join(<glue>)
  ¦ <messages>.map((x) => x.content.toLowerCase()).join(<glue>) ‖ context.messages.at(-2).content
  ¦ <messages>.at(-1).content ¦ context.messages[0].content ¦ context.messages.map(m => m.content).join()
loop: 4*<messages>.some(m => <told>) ¦ 3*<messages>.every((m) => <told>)
  ¦ 2*<messages>.filter(m => <told>).length<than> ¦ <messages>.some((m) => <told>)<than>
  ‖ <messages>.flatMap(m => <told>) ¦ <messages>.find(m => <told>)<maybe>
found: 4*<text>.includes(<literal>) ¦ <text>.startsWith(<literal>) ¦ <text>.endsWith(<literal>)
  ¦ 2*<text>.indexOf(<literal>)<than> ¦ 3*<pattern>.test(<text>) ¦ <text>.match(<pattern>)<maybe>
  ¦ <text>.search(<pattern>)<than> ¦ <text>.includes(<literal>)<than> ¦ <text>.match(<pattern>) !== null
  ‖ <text>.match(<pattern>)<than> ¦ <text>.lastIndexOf(<literal>) > 0
words: [<literal>] ¦ [<literal>, <literal>] ¦ [<literal>,<literal>, <literal>,] ‖ []
listed: 3*<words>.some(k => <text>.includes(k)) ¦ <messages>.some(m => <words>.some(k => m.content.includes(k)))
  ¦ <words>.some(k => <messages>.some(m => m.content.includes(k))) ¦ <words>.some((w) => !<text>.includes(w))
  ‖ <words>.every(k => <text>.includes(k)) ¦ <words>.includes(<text>)
  ¦ <words>.filter(k => <text>.includes(k)).length<than>
dated: <date> ¦ <date> ¦ 2*<called> ¦ context.conversation_id <sign> <id>
  ¦ [<id>, 'bob'].includes(context.conversation_id)
  ¦ <id> === context.conversation_id ‖ context.conversation_id == 0
called: 4*on_day(<day>) ¦ 2*days_until(<day>)<than> ¦ days_until(<day>) ¦ on_lunar_day(<lunar>) ¦ !on_day(<day>)
  ¦ on_day(<day>) === true ¦ on_day(<day>)<than> ¦ on_day(2, 29) ‖ on_day(2, 30) ¦ on_day(0, 1) ¦ on_day(13, 1)
  ¦ on_day(4, 31) ¦ on_day(<day>, {before: 3}) ¦ on_day(<day>, {after: 40}) ¦ on_day(7, 0) ¦ days_until(2, 30) >= 0
  ¦ on_day(2, 29, {leap: 'after'}) ¦ lunar().month > 0 ¦ on_lunar_day(<lunar>, {before: 99}) ¦ on_lunar_day(8, 31)
  ¦ on_day ¦ on_day() ¦ on_day(1.5, 1) ¦ on_day('7', 1) ¦ lunar(1) ¦ [1, 2].includes(days_until(<day>))
  ¦ on_lunar_day(<lunar>, {leap: true}) ¦ on_day(<day>, 1)
id: 'ann' ¦ 'default' ¦ "小明" ¦ 'bob' ¦ 'Ann' ‖ 'a\u006en'
constant: false ¦ 0 ¦ context.messages.length ¦ context.messages.length > 2 ¦ context.messages?.length >= 4
  ¦ Math.random() < 0.5 ¦ context.participants.user === 'Ann' ¦ context.participants?.user?.name === 'Ann'
  ¦ Date.now() > 5 ¦ 2*true ¦ 1 < 2 ‖ true ¦ 1 ¦ '' ¦ 'a' ¦ null ¦ undefined ¦ context ¦ context.messages
  ¦ context.participants.odd ¦ 1 > 0 ¦ 0 == false ¦ null == 0 ¦ null === null ¦ 'a' === 'a' ¦ 0 === -0 ¦ []
  ¦ 1 < 2 < 3 ¦ <literal>
trap: context.participants.user.name === 'Ann' ¦ 3*context.participants.odd > 1 ¦ 1 + context.participants.odd ¦ nope
  ¦ nope.a ¦ context.messages.push(1) && false ¦ context.messages.length = 0 ¦ <text>.match(/zz/) !== undefined
  ¦ match_keys(context, <literal>)
  ¦ (match_keys(context.messages, [<literal>]) === 0 && context.messages).some(m => true)
  ¦ match_keys(context.messages, [<literal>, 7]) ¦ match_keys(context.messages, [<literal>][0])
  ¦ match_keys(context.messages) ¦ match_keys(context.messages, [...[<literal>]]) ¦ (context.messages || 1) + ''
  ¦ context.participants.odd == 'x' ¦ match_keys(context.messages, [,<literal>]) ¦ [<literal>] + ''
  ¦ match_keys?.(context.messages, [<literal>]) ¦ context.messages.some(m => context.messages.some(m => m.content))
  ¦ --0 ¦ context.messages.some(context => context.content) ¦ context.messages.some(m => { m.content })
  ¦ context.messages.some(async m => false) ¦ context.messages[-1] ¦ context.messages.some(mLF=> m.content)
  ¦ context.messages.some((m, i) => i > 0) ¦ match_keys = 1 ¦ context.messages.some(await => 1)
  ¦ context.messages.some(m => m.content = <literal>) ¦ new Date().getMonth(1) === 6 ¦ new Date === 1
  ¦ \u0061rgs.messages.length ¦ args['messages'].length ¦ 010 > 7 ¦ 0x1F > 1 ¦ 1n > 0 ¦ 1_000 > 1 ¦ .5 > 0 ¦ 5. > 0
  ¦ '\x61' === 'a' ¦ '\0' && true ¦ '\LFa' ¦ /a/.exec('a') ¦ context.messages.at(-1).content[0] === 'a'
  ¦ new Date().getTime() > 0 ¦ participants.user ¦ context.conversation_id.includes('a')
  ¦ context.conversation_id + 1 ¦ Math.max(1, 0) ¦ match_keys ¦ await
  ¦ match_keys(context.messages, [<literal>]) == false
  ¦ context.messages.slice(1).every(m => m.content.includes(<literal>))
middle: 9* ¦ . ¦ .* ¦ .+ ¦ \s* ¦ .? ¦ (b|日) ¦ (?:a|的)? ¦ \b ¦ .{0,9} ¦ (|x) ¦ ? ¦ [ab] ¦ [Cc日]+ ¦ [^a]? ¦ [/\]b]{0,3}
  ‖ [a-]
  ¦ [] ¦ [^] ¦ [z-a] ¦ [[a]] ¦ * ¦ + ¦ {0} ¦ (?=x) ¦ (?!x)
  ¦ (?<n>x) ¦ \x61 ¦ ()
before: 6* ¦ \b ¦ ^ ¦ (?<!\w)
after: 6* ¦ \b ¦ $ ¦ (?!\w) ¦ s? ‖ ?
flags: 2* ¦ 5*i ¦ 3*iu ¦ u ¦ g ¦ gi ¦ s ¦ m ‖ y ¦ v ¦ ii
"""
_LOOKS = {"TAB": "\t", "LF": "\n", "CR": "\r", "NBSP": "\xa0", "BOM": "\ufeff", "LS": "\u2028"}


def _rules() -> dict[str, list[list[str]]]:
    """The usual and the odd alternatives of each rule."""
    rules: dict[str, list[list[str]]] = {}
    for name, body in re.findall(r"^(\w+):((?:.|\n  )*)", GRAMMAR, re.MULTILINE):
        rules[name] = []
        for part in body[1:].replace("\n  ", " ").split(" ‖ "):
            forms: list[str] = []
            for form in part.split(" ¦ "):
                times = re.match(r"(\d+)\*", form)
                text = form[times.end() :] if times else form
                text = re.sub("TAB|LF|CR|NBSP|BOM|LS", lambda sign: _LOOKS[sign[0]], text)
                forms += [text] * (int(times[1]) if times else 1)
            rules[name].append(forms)
    return rules


RULES = _rules()


class Chance:
    """One chat, and triggers about it."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.oddness = 0.0
        ways = [
            *({}, {"user": "Ann"}, {"user": {"name": "Ann"}, "odd": {"toString": 1}}, {"odd": []}),
            *(
                {"user": {"name": "小明"}, "char": "Ｃａｔ"},
                {"user": {}, "char": {"name": "Robin"}},
                {"char": 3},
            ),
        ]
        self.context: dict[str, Any] = {
            "messages": [self._message() for _ in range(dice.choice((1, 1, 2, 3, 5, 9, 18)))],
            "conversation_id": dice.choice(("default", "小明", "ann")),
            "participants": dice.choice(ways),
        }
        self.last_fired = dice.choice(
            (None, None, {"messages": dice.randrange(6), "ms": dice.randrange(6)})
        )
        day = datetime(2026, dice.choice((1, 2, 7, 12)), dice.choice((1, 15, 28)), tzinfo=UTC)
        self.now = day + timedelta(hours=dice.randrange(-20, 48), minutes=dice.randrange(60))
        contents = [message["content"] for message in self.context["messages"]]
        names = speaker_names(self.context)
        if dice.random() < 0.3:
            contents = [named_text(message, names) for message in self.context["messages"]]
        self.texts = [glue.join(contents) for glue in (" ", "", "\n")]

    def _message(self) -> dict[str, Any]:
        dice = self.dice
        content = dice.choice(("", " ", "，")).join(
            dice.choices(WORDS, k=dice.choice((0, 1, 2, 4, 8)))
        )
        if dice.random() < 0.2:
            content = self._disguised(content)
        if dice.random() < 0.002:
            content += dice.choice(("\ud83c", "\udf82"))
        message: dict[str, Any] = {"role": dice.choice(ROLES), "content": content}
        if dice.random() < 0.5:
            message |= {"name": dice.choice(("Ann", "小明", "")), "timestamp": 1784280480000}
        return message

    def trigger(self) -> str:
        self.oddness = self.dice.choice((0, 0, 0, 0.03, 0.1, 0.3))
        return self.grown("form")

    def grown(self, name: str) -> str:
        if name in RULES:
            is_odd = self.dice.random() < self.oddness
            form = self.dice.choice(RULES[name][-1 if is_odd else 0])
            return re.sub(r"<(\w{2,})>", lambda name_in_form: self.grown(name_in_form[1]), form)
        text: str = getattr(self, name)()
        return text

    def word(self) -> str:
        dice = self.dice
        if dice.random() < 0.6:
            text = dice.choice(WORDS if dice.random() < 0.2 else OTHERS)
        else:
            whole = dice.choice(self.texts)
            at = dice.randrange(len(whole) + 1)
            text = whole[at : at + dice.choice((1, 2, 2, 3, 4, 6, 9, 20))]
        return self._spelled("".join(char for char in text if not "\ud800" <= char <= "\udfff"))

    def _spelled(self, text: str) -> str:
        match self.dice.randrange(10):
            case 0:
                return text.upper()
            case 1:
                return text.lower()
            case 2:
                return text.swapcase()
            case 3:
                return folded(text)
            case 4:
                return "".join(_TRADITIONAL.get(char, char) for char in text)
            case 5:
                return "".join(
                    chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text
                )
            case 6:
                return self._disguised(text)
        return text

    def _disguised(self, text: str) -> str:
        """A text that looks like this one: with its marks apart, and with a sign in it that nobody sees."""
        form = self.dice.choice(("NFC", "NFD", "NFKD"))
        at = self.dice.randrange(len(text) + 1)
        sign = self.dice.choice(("", "\u00ad", "\u200b", "\u2060", "\ufe0f", "\u200d"))
        return (
            unicodedata.normalize(form, text[:at]) + sign + unicodedata.normalize(form, text[at:])
        )

    def literal(self) -> str:
        return self._quoted(self.word())

    def glue(self) -> str:
        return self._quoted(self.dice.choice(GLUES))

    def _quoted(self, text: str) -> str:
        style = self.dice.randrange(9)
        body = json.dumps(text, ensure_ascii=style == 0)
        return body if style < 3 else "'" + body[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"

    def pattern(self) -> str:
        arms = [self._arm() for _ in range(self.dice.choice((1, 1, 2, 3)))]
        body = "|".join(arms)
        if self.dice.random() < 0.1:
            body = f"({body}).*{self.dice.choice(('8', '日', 'a?'))}"
        return f"/{body or '(?:)'}/{self.grown('flags')}"

    def _arm(self) -> str:
        parts = [
            f"\\{char}" if char in r"\^$.*+?()[]{}|/" else char
            for char in self.word()
            if " " <= char != "\u2028"
        ]
        parts.insert(self.dice.randrange(len(parts) + 1), self.grown("middle"))
        return self.grown("before") + "".join(parts) + self.grown("after")

    def day(self) -> str:
        """The month and the day of a moment near the search, or of any other."""
        near = self.now + timedelta(hours=self.dice.choice((-12, 0, 14, 24)))
        if self.dice.random() < 0.3:
            return f"{self.dice.randrange(1, 13)}, {self.dice.randrange(1, 29)}"
        return f"{near.month}, {near.day}"

    def lunar(self) -> str:
        return f"{self.dice.randrange(1, 13)}, {self.dice.randrange(1, 31)}"

    def date(self) -> str:
        dice = self.dice
        near = self.now + timedelta(hours=dice.choice((-12, 0, 14)))
        parts = {
            "getMonth": near.month - 1,
            "getDate": near.day,
            "getDay": near.isoweekday() % 7,
            "getFullYear": near.year,
        }
        part, value = dice.choice([*parts.items()])
        value = value if dice.random() < 0.5 else dice.randrange(32)
        now = f"new Date().{part}()"
        sign = dice.choice(("===", "===", "==", "!==", ">=", "<"))
        forms = (
            "{now} {sign} {value}",
            "{value} === {now}",
            "[1, {value}].includes({now})",
            "{now} == '{value}'",
        )
        return dice.choice((*forms, forms[0], "new Date(0).getMonth() === {value}")).format(
            now=now, sign=sign, value=value
        )
