"""Words by which people say how they feel, in Chinese and English: a start for one's own trigger. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MOODS: Mapping[str, Sequence[str]] = {
    "sad": ("难过", "伤心", "委屈", "想哭", "哭了", "sad", "crying", "heartbroken"),
    "happy": ("开心", "高兴", "太好了", "好幸福", "happy", "so glad", "great news"),
    "angry": ("生气", "气死", "火大", "烦死", "angry", "furious", "annoyed"),
    "tired": ("好累", "累死", "好困", "没力气", "tired", "exhausted", "worn out"),
    "lonely": ("孤单", "孤独", "没人陪", "一个人好", "lonely", "all alone"),
    "stressed": ("压力", "焦虑", "崩溃", "喘不过气", "stressed", "overwhelmed", "anxious"),
    "scared": ("害怕", "好怕", "吓死", "担心", "scared", "afraid", "worried"),
}


def mood_named(word: str) -> str | None:
    """The mood of that name, or the one that has this word among its own; None for a word of the author's."""
    text = word.casefold()
    return next((mood for mood, words in MOODS.items() if text == mood or text in words), None)
