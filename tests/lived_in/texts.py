"""What people and programs write, as months of use bring it: usual sentences in two languages, and odd texts.

A text that looks like a fault of a face, such as `{name}`, stands between the marks `⟦` and `⟧`, so that a look
at a face can tell the user's words from those of the program.
"""

from __future__ import annotations

import unicodedata
from random import Random

SENTENCES = (
    "我喜欢吃披萨，周末常去南京西路那家店。",
    "我的猫叫米酱，三岁了，怕打雷。",
    "妈妈的生日是 5 月 2 日，今年想送她一条围巾。",
    "明天下午三点有项目评审，记得带上设计稿。",
    "我對花生過敏，去餐廳要先問。",
    "My cat is called Miso and she is afraid of thunder.",
    "The ferry to the island leaves at nine on Tuesdays.",
    "We decided to deploy with fly deploy --now, not with the old script.",
    "Dr. Halloran is my dentist; the next appointment is on 2026-05-14.",
    "I moved to Berlin last month. The rent is 1,180 euros.",
    "上周三我们去看了海，风很大，鞋子都湿了。",
    "She prefers tea to coffee, and milk only on Sundays. #tea #habits",
    "Пицца была холодной, но вечер удался.",
    "昨天晚上写完了第三章，字数 12,480。",
    "Please remind me of the mango tart when somebody comes to dinner.",
)
ANSWERS = (
    "记下了。",
    "Noted.",
    "好的，我会记得。",
    "That sounds lovely; I will keep it in mind.",
    "嗯。",
    "",
)
QUESTIONS = (
    "米酱怕什么？",
    "What was the name of my cat?",
    "我们什么时候去看海的？",
    "When does the ferry leave?",
    "披萨店在哪里？",
    "Who is my dentist?",
    "What did we say yesterday about the deployment?",
    "……",
    "?",
    "天气",
)
ODD = (
    "⟦{name} %s %(x)s {0!r} {{x}} [red]x[/red] {count:,}⟧",
    "⟦Traceback (most recent call last): it failed⟧",
    unicodedata.normalize("NFD", "Café Zoë déjà vu, naïve façade"),
    "👩‍👩‍👧‍👦🏳️‍🌈🎂 生日快乐！！！",
    "🙂",
    "。",
    "……",
    "a\x00b\x1b[31mred\x1b[0m\x07 \x7f\x85",
    "line one\r\nline two\r\n\r\n\tindented\u2028separator\u2029end",
    "\ufeff\u200b\u200dzero\u00adwidth",
    "\u202eright to left\u202c עברית العربية",
    "<b>bold</b> & &lt;i&gt; <script>alert(1)</script> <!-- x -->",
    "# Heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\n```js\nlet x = 1;\n```\n[link](https://example.org/?a=1&b=2)",
    "---\ntitle: front matter\n---\n: colon first",
    '{"role": "user", "content": "json"}',
    "C:\\Users\\me\\notes.txt /etc/hosts ../../x",
    "@everyone --help -c -- - '\" `x` $(id)",
    "12345",
    "2026-02-30 25:61",
    "<private>my secret number is 4711</private> and this is public",
    "ｆｕｌｌｗｉｄｔｈ　ＡＢＣ　１２３",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙algo",
    "ends with a lone high surrogate",
    "word " * 400,
    "很长的句子，" * 900,
    "x" * 16_000,
)
IMPORTED = (
    "Hanna is allergic to hazelnuts",
    "Rounding of VAT fixed, part 2. Prices are kept in cents",
    "request: Fix rounding learned: half-even completed: tested",
)
"""What the samples of other programs say."""
TRUE_NOW = (
    "In {days} days I visit {name}",
    "{days}天后我要去看{name}",
    "My locker {number} is in the cellar",
    "I have the key of locker {number} no more",
    "museum what is true now",
    "My locker is number {number}",
    "My locker is number 0{number} now",
)
"""What is planned, and what is said of the same thing later; the last two are found without a model that says so."""
ROOMS = (
    "default",
    "小明",
    "work/2026",
    "a b",
    "100%",
    "?x#y&z=1",
    "⟦{count}⟧",
    "CON",
    "..",
    "😀",
    "Café",
    "x" * 60,
)
FOLDERS = ("/srv/shop", "/srv/书店", "/tmp", "/srv/a b/c&d")
NAMES = ("阿澈", "Ann", "bob-2", "⟦{user}⟧", "x" * 80, " ", "")
TAGS = ("tea", "db", "生活", "a b", "⟦{tag}⟧", "#x")
USERS = ("ann", "ann/1", "小明", "bob", "a:b", "⟦{user}⟧")
KEYS = ("pool size", "port", "部署", "a/b", "..", "⟦{key}⟧", "CON", "x" * 90, "Café")
TRIGGERS = (
    "true",
    "false",
    "context.messages.some(m => m.content.includes('披萨'))",
    "match_keys(context.messages, ['猫', 'cat']) > 0",
    "const d = new Date(context.now ?? Date.now()); return d.getMonth() === 4 && d.getDate() === 2;",
    "new Date().getDay() === 2",
    "throw new Error('⟦{x}⟧')",
    "while (true) {}",
    "let x = ;",
    "context.nothing()",
    "return 'a text';",
    "Math.random() < 0.5",
    "({})",
    "// only a comment",
    "[1, 2, 3].includes(new Date().getHours())",
)


def sentence(rng: Random) -> str:
    """Mostly a usual sentence, sometimes an odd text, at times one put together."""
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(SENTENCES)
    if kind < 0.8:
        return f"{rng.choice(SENTENCES)} {rng.choice(SENTENCES)} {rng.randrange(1000)}"
    return rng.choice(ODD)


def message(rng: Random, role: str, at_ms: int | None = None) -> dict[str, object]:
    """A message, with or without a time and a name."""
    content = sentence(rng)
    if role != "user":
        content = rng.choice((*ANSWERS, content))
    spoken: dict[str, object] = {"role": role, "content": content}
    if at_ms is not None:
        spoken["timestamp"] = at_ms
    if rng.random() < 0.2:
        spoken["name"] = rng.choice(NAMES)
    return spoken


def exchange(rng: Random, at_ms: int | None = None) -> list[dict[str, object]]:
    """What a user said, and mostly an answer to it."""
    messages = [message(rng, "user", at_ms)]
    if rng.random() < 0.8:
        answer_ms = None
        if at_ms is not None:
            answer_ms = at_ms + 1_000
        messages.append(message(rng, "assistant", answer_ms))
    return messages


_OTHER_WORDS = (
    ("cat", "pet", "felines"),
    ("安眠药", "失眠", "睡不着"),
    ("⟦{name}⟧", "<b>bold</b>", "'; drop"),
    ("a" * 60, "混在 一起 mixed"),
    (),
)


def other_words(rng: Random) -> list[str]:
    """Words that a model gives beside its messages, none of them with a comma."""
    return list(rng.choice(_OTHER_WORDS))
