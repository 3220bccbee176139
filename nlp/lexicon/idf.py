"""How rare a word is: its inverse document frequency, ln(documents / documents with the word).

Source: ``jieba/analyse/idf.txt`` of jieba 0.42.1 (270,132 words, byte-identical with the table inside
jieba-rs). It is read where the installed jieba keeps it, and without running any code of jieba.
"""

from __future__ import annotations

from typing import Final

from nlp.once import Once

UNKNOWN_WORD_IDF: Final = 11.9547675029
"""The median of the table, which jieba and jieba-rs take for a word that is not in it."""

_CHUNK_BYTES: Final = 1 << 18  # about 11,000 lines: some 5 ms, after which another thread gets a turn


def _read_idf() -> dict[str, float]:
    # Imported here: it costs 40 ms of a cold start, and only the first keyword needs it.
    from importlib.resources import files
    from importlib.util import find_spec, module_from_spec

    spec = find_spec("jieba")
    if spec is None:
        raise ModuleNotFoundError("the jieba package, whose idf.txt holds the word frequencies, is not installed")
    # The bare module object says where the package's files are; `import jieba` would cost 0.2 s and set up
    # logging.
    table = files(module_from_spec(spec)) / "analyse" / "idf.txt"

    idf: dict[str, float] = {}
    # The 270,132 words share 3,328 values: one float object for each saves 6 MB and most of the conversions.
    values: dict[str, float] = {}
    with table.open("rb") as file:
        while lines := file.readlines(_CHUNK_BYTES):
            words_and_values = b"".join(lines).decode().split()
            column = words_and_values[1::2]
            for value in set(column) - values.keys():
                values[value] = float(value)
            idf.update(zip(words_and_values[::2], map(values.__getitem__, column), strict=True))
    return idf


idf_table: Final = Once(_read_idf)
"""The table, word to idf. The first call reads it (0.15 s, 39 MB).

Raises:
    ModuleNotFoundError: jieba is not installed.
"""
