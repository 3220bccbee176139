"""Examples are in the language of their page, and the Chinese of pages and catalogues has none of the words that
readers took for a translation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from docs.markdown_pages import page

ROOT = Path(__file__).parents[2]
_HAN = re.compile(r"[\u3400-\u9fff]")
CHINESE_IS_THE_SUBJECT = {
    "docs/explanation/architecture.md": "what a line for a prompt looks like in both languages",
    "docs/explanation/decisions.md": "how Chinese is cut into words",
    "docs/explanation/recall.md": "words, pairs of characters and single characters of Chinese",
    "docs/explanation/recall-quality.md": "measured on Chinese data",
    "docs/how-to/choose-a-language.md": "the commands in Chinese",
    "docs/reference/lint-rules.md": "keys of both scripts",
    "docs/reference/tool-examples.md": "one run in Chinese, in which every tool is called",
    "docs/reference/trigger-api.md": "how keys of both scripts match",
}
ENGLISH = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *ROOT.glob("docs/*/*.md"))
    if not path.name.endswith(".zh-CN.md")
)
CHINESE = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "README.zh-CN.md", *ROOT.glob("docs/*/*.zh-CN.md")))
REPLACED = {
    "不请自来": "自动想起",
    "触发器成立": "触发条件满足",
    "为什么再做一个": "它有什么不同",
    "暂不给出": "暂时没有返回",
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
}
"""Words that readers took for a translation, and what stands in their place."""


@pytest.mark.parametrize("name", [name for name in ENGLISH if name not in CHINESE_IS_THE_SUBJECT])
def test_the_examples_of_an_english_page_are_english(name: str) -> None:
    assert [block.line for block in page(name).blocks if _HAN.search(_without_comments(block.text))] == []


@pytest.mark.parametrize("name", CHINESE_IS_THE_SUBJECT)
def test_each_exception_is_one(name: str) -> None:
    assert _HAN.search((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", CHINESE)
def test_what_is_stored_and_asked_in_the_examples_of_a_chinese_page_is_chinese(name: str) -> None:
    said = re.compile(r"""(?:remember|recall|--ask)(?: -\S+ \S+)* (["'])(?P<text>[^"']{4,})\1""")
    texts = [found["text"] for block in page(name).blocks for found in said.finditer(block.text)]
    english = [text for text in texts if re.search("[A-Za-z]", text) and not _HAN.search(text)]
    assert [text for text in english if not text.startswith(("{", "$"))] == []


@pytest.mark.parametrize("name", CHINESE)
def test_a_chinese_page_has_no_word_that_was_replaced(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert [word for word in REPLACED if word in text] == []


@pytest.mark.parametrize("package", ["memory_server", "sandbox"])
def test_a_catalogue_has_no_word_that_was_replaced(package: str) -> None:
    [file] = (ROOT / package).glob("locale/zh/LC_MESSAGES/*.po")
    with file.open("rb") as content:
        catalogue = read_po(content)
    strings = [text for message in catalogue for text in _strings(message.string)]
    assert len(strings) > 100
    assert [(word, text) for word in REPLACED for text in strings if word in text] == []


def _strings(string: str | tuple[str, ...]) -> tuple[str, ...]:
    return (string,) if isinstance(string, str) else tuple(string)


def _without_comments(text: str) -> str:
    """A template of `trigger-sandbox new` has keys in both languages."""
    return re.sub(r"match_keys(?:_all)?\([^)]*\)", "", text)
