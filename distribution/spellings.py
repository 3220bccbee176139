"""Makes sandbox/javascript/spellings.txt: Traditional characters and their Simplified ones, by the installed OpenCC.

Only single characters with one UTF-16 unit on both sides, so that a folded text is as long as before.
`make spellings` writes the file; a test compares it with what the installed OpenCC gives.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parent.parent / "sandbox" / "javascript" / "spellings.txt"
HEAD = "Traditional and Simplified characters in pairs; from OpenCC's t2s (Apache License 2.0) by `make spellings`\n"


def text() -> str:
    """Return the text of the list: each traditional character, with its simplified one behind it."""
    from opencc import OpenCC

    convert = OpenCC("t2s").convert
    pairs = []
    for character in map(chr, range(0x4E00, 0xA000)):
        end = convert(character)
        while (further := convert(end)) != end:  # a few have two steps
            end = further
        if end != character and len(end) == 1 and end <= "\uffff":
            pairs.append(character + end)
    return HEAD + "".join(pairs) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
