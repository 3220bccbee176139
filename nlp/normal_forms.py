"""One form of a text for its keys: what a person sees, full-width as plain (NFKC), Traditional as Simplified. Stored
text is never touched.

Traditional to Simplified is OpenCC's `t2s`: character by character, with a table of exceptions. Its phrase tables
are not used, because they also change words of Mainland users (影片 to 视频). Case is folded elsewhere, after the
segmentation, whose dictionary has words with capitals (T恤, B超).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from nlp.once import Once
from nlp.scripts import EMOJI_CHARACTERS

_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that no font shows: Default_Ignorable_Code_Point of Unicode 15.0, DerivedCoreProperties.txt."""
_NOT_OF_AN_EMOJI: Final = Once(
    lambda: re.compile(rf"(?!\u200d[{EMOJI_CHARACTERS}])(?:{_UNSEEN.pattern})")
)
"""A zero-width joiner before an emoji stays: people see one emoji instead of two."""


def without_unseen(text: str) -> str:
    """`text` without the characters that nobody sees, such as a soft hyphen or a zero-width space."""
    if text.isascii() or _UNSEEN.search(text) is None:
        return text
    return _NOT_OF_AN_EMOJI().sub("", text)


def plain(text: str) -> str:
    """`text` in NFKC, without what nobody sees: ＧＰＴ４ is GPT4, ｶﾀｶﾅ is カタカナ, ① is 1."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", without_unseen(text))


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
    if text.isascii():
        return text
    return _converter()(text)
