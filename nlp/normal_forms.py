"""One form of a text for its keys: full-width as plain (NFKC), Traditional as Simplified. Stored text is never touched.

Traditional to Simplified is OpenCC's `t2s`: character by character, with a table of exceptions. Its phrase tables
are not used, because they also change words of Mainland users (影片 to 视频). Case is folded elsewhere, after the
segmentation, whose dictionary has words with capitals (T恤, B超).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from nlp.once import Once


def plain(text: str) -> str:
    """`text` in NFKC: ＧＰＴ４ is GPT4, ｶﾀｶﾅ is カタカナ, ① is 1."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def can_simplify() -> bool:
    """Whether OpenCC is installed; does not load it."""
    return find_spec("opencc") is not None


def _open_converter() -> Callable[[str], str]:
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert


_converter: Final = Once(_open_converter)


def load_simplified() -> None:
    """Load OpenCC and its table (13 ms, 7 MB), so that no extraction waits for it. Raises ImportError without it."""
    _converter()


def simplified(text: str) -> str:
    """`text` with Simplified characters in place of Traditional ones. Raises ImportError without OpenCC."""
    return text if text.isascii() else _converter()(text)
