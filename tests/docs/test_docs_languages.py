"""Examples are in the language of their page, English pages are plain, and the Chinese of pages and catalogues has
none of the words that readers took for a translation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from docs.markdown_pages import page

ROOT = Path(__file__).parents[2]
_HAN = re.compile(r"[\u3400-\u9fff]")
CHINESE_IS_THE_SUBJECT = {
    "docs/project/decisions.md": "how Chinese is cut into words",
    "docs/explanation/recall.md": "words, pairs of characters and single characters of Chinese",
    "docs/how-to/connect-a-client.md": "the commands in Chinese",
    "docs/reference/lint-rules.md": "keys of both scripts",
    "docs/reference/trigger-api.md": "how keys of both scripts match",
}
ENGLISH = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
    if not path.name.endswith(".zh-CN.md")
)
CHINESE = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.zh-CN.md", *ROOT.glob("docs/**/*.zh-CN.md"))
)
REPLACED = {
    "不请自来": "自动想起",
    "不问自来": "自动想起",
    "耐心": "等待的时间",
    "触发器成立": "触发条件满足",
    "为什么再做一个": "它有什么不同",
    "暂不给出": "先没给",
    "暂时没有返回": "先没给",
    "归入“": "属于“",
    "裁定": "结果",
    "架子": "归档",
    "彻底擦除": "彻底删除",
    "依据的是哪条规则": "以及原因",
    "对着一段聊天": "用一段聊天",
    "克隆以外": "只在仓库目录里",
    "两个都没有": "如果没有 uv 也没有 pipx",
    "会话窗口": "会话",
    "已记为": "已保存",
    "得到了": "小明：新增 2 条",
    "在看着": "共有 14 个触发器",
    "符合示例作者的预期": "全部答对",
    "不归我们管": "需要你自己删",
    "还差需要的": "需要 15.5 分，还差 9.7 分",
    "个位置里排第": "排在第 3",
    "逃出的尝试": "逃逸测试",
    "带着条件记住": "按条件记住",
    "允许再被忘掉": "取消固定",
    "它还说了": "触发器补充",
    "其他代理": "其他智能体",
    "子代理": "子智能体",
}
"""Words that readers took for a translation, and what stands in their place."""

AVOIDED = {
    r"\bis no (?!longer|more)": "say what is missing: `is not a`, `does not exist`",
    r"\b[Nn]obody\b": "name the actor",
    r"\b[Ss]omebody\b": "name the actor: a person, a user, an editor",
    r"\b[Ww]hoever\b": "a reader, a person who …",
    r"\b[Ee]verybody\b": "all users, all speakers",
    r"(?:^|[.!?] )Of (?!course)": "begin with the subject",
    r"\bof its own accord\b": "by itself",
    r"\bin our hands\b": "not covered",
    r"\bwhat is too much\b": "above these limits",
    r"\b(?:is|are|was|were) told\b": "name who says it",
    r"\b(?:is|are) waited for\b": "a call waits for it",
    r"\bpatience\b": "how long a call waits",
    r"\bleaves the question out\b": "skips the question",
}
"""Words and forms that readers did not understand at once, and what to write."""
WRITTEN_BY_PEOPLE = [
    name
    for name in ENGLISH
    if not name.startswith(("docs/reference/commands", "docs/reference/settings"))
]
"""The sentences of generated pages stand in the code."""


@pytest.mark.parametrize("name", [name for name in ENGLISH if name not in CHINESE_IS_THE_SUBJECT])
def test_the_examples_of_an_english_page_are_english(name: str) -> None:
    assert [
        block.line for block in page(name).blocks if _HAN.search(_without_comments(block.text))
    ] == []


@pytest.mark.parametrize("name", WRITTEN_BY_PEOPLE)
def test_an_english_page_is_plain(name: str) -> None:
    text = re.sub(
        r"<!-- generated.*?<!-- end|```.*?```",
        "",
        (ROOT / name).read_text("utf-8"),
        flags=re.DOTALL,
    )
    for line in text.splitlines():
        assert [form for form in AVOIDED if re.search(form, line)] == [], line


@pytest.mark.parametrize("name", CHINESE_IS_THE_SUBJECT)
def test_each_exception_is_one(name: str) -> None:
    assert _HAN.search((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", CHINESE)
def test_what_is_stored_and_asked_in_the_examples_of_a_chinese_page_is_chinese(name: str) -> None:
    stored_or_asked = re.compile(
        r"""(?:remember|recall|--ask)(?: -\S+ \S+)* (["'])(?P<text>[^"']{4,})\1"""
    )
    examples = "\n".join(block.text for block in page(name).blocks)
    texts = [match["text"] for match in stored_or_asked.finditer(examples)]
    english = [text for text in texts if re.search("[A-Za-z]", text) and not _HAN.search(text)]
    assert [text for text in english if not text.startswith(("{", "$"))] == []


@pytest.mark.parametrize("name", CHINESE)
def test_a_chinese_page_has_no_word_that_was_replaced(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert [word for word in REPLACED if word in text] == []


def test_the_catalogue_has_no_word_that_was_replaced() -> None:
    with (ROOT / "languages/zh/messages.po").open("rb") as content:
        catalogue = read_po(content)
    strings = [text for message in catalogue for text in _strings(message.string)]
    assert len(strings) > 100
    for text in strings:
        assert [word for word in REPLACED if word in text] == [], text


def _strings(string: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(string, str):
        return (string,)
    return tuple(string)


def _without_comments(text: str) -> str:
    """A template of `trigger-sandbox new` has keys in both languages."""
    return re.sub(r"match_keys(?:_all)?\([^)]*\)", "", text)
