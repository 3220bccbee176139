"""Small lorebooks, each of which shows one thing about keys, with a chat in which it matters."""

from __future__ import annotations

from sillytavern.entries import (
    AND_ALL,
    CHAIN,
    DEEP,
    NOT_ALL,
    NOT_ANY,
    TALK,
    WORDS,
    entry,
    job,
    without,
)

KEY_JOBS = [
    job(
        "logic of secondary keys",
        [entry(n, "lantern", keysecondary=["mill", "boat"], selectiveLogic=n) for n in range(4)],
        *TALK,
    ),
    job(
        "secondary keys in use and not",
        [
            entry(0, "lantern", keysecondary=["boat"], selective=False),
            without(entry(1, "lantern", keysecondary=["boat"]), "selective"),
            without(
                entry(2, "lantern", keysecondary=["boat"], selectiveLogic=NOT_ANY), "selective"
            ),
        ],
        *TALK,
    ),
    job(
        "empty keys",
        [
            entry(0, "", "lantern"),
            entry(1, "lantern", keysecondary=[""]),
            entry(2, "lantern", keysecondary=["", "boat"], selectiveLogic=AND_ALL),
            entry(3, "lantern", keysecondary=["", "boat"], selectiveLogic=NOT_ALL),
            entry(4, "lantern", keysecondary=[""], selectiveLogic=NOT_ANY),
            entry(5, "", keysecondary=["boat"]),
            entry(6, keysecondary=["boat"]),
        ],
        *TALK,
    ),
    job(
        "keys of blanks",
        [
            entry(0, "  "),
            entry(1, "nowhere", " "),
            entry(2, "lantern", keysecondary=[" "], selectiveLogic=NOT_ANY),
        ],
        *TALK,
    ),
    job(
        "whole words",
        [
            entry(0, "cart", matchWholeWords=True),
            entry(1, "cart", matchWholeWords=False),
            entry(2, "the cart", matchWholeWords=True),
            entry(3, "café"),
            entry(4, "cart's"),
            entry(5, "go-cart"),
            entry(6, "(cart)"),
            entry(7, " cart "),
        ],
        *WORDS,
    ),
    job(
        "upper and lower case",
        [
            entry(0, "CART", caseSensitive=True),
            entry(1, "Cart", caseSensitive=False),
            entry(2, "straße"),
            entry(3, "CAFÉ"),
            entry(4, "STRASSE", caseSensitive=True),
        ],
        *WORDS,
    ),
    job(
        "the Turkish capital i",
        [
            entry(0, "İpek"),
            entry(1, "i̇pek"),
            entry(2, "ipek"),
            entry(3, "İpek", caseSensitive=True),
        ],
        *("Hi.", "İPEK", "Hm.", "i̇pek", "Hm.", "ipek", "Hm.", "İpek"),
    ),
    job(
        "signs in keys",
        [
            entry(0, "C++"),
            entry(1, "#tag"),
            entry(2, "a.b"),
            entry(3, "cat, dog"),
            entry(4, "$5"),
            entry(5, "a/b"),
        ],
        *(
            "Hi.",
            "C++ and a.b",
            "Hm.",
            "C++11 axb a#tag",
            "Hm.",
            "#tag cat, dog $5",
            "Hm.",
            "a/b $55 .#tag.",
        ),
    ),
    job(
        "expressions",
        [
            entry(0, "/lant(ern|erns)?/"),
            entry(1, "/MILL/i"),
            entry(2, r"/\bb\w+t\b/gi"),
            entry(3, r"/a\/b/"),
            entry(4, "/a/b/"),
            entry(5, "/(unclosed/"),
            entry(6, r"/\p{Lu}{3}/u"),
            entry(7, "/Boat/"),
        ],
        *(
            "Hi.",
            "Two lanterns.",
            "Hm.",
            "The mill, a bolt, a/b",
            "Hm.",
            "/a/b/ (unclosed/ ABC",
            "Hm.",
            "boat",
        ),
    ),
    job(
        "expressions over several messages",
        [
            entry(0, r"/red[\s\S]*blue/"),
            entry(1, r"/blue[\s\S]*red/"),
            entry(2, r"/^(?![\s\S]*blue)[\s\S]*red/"),
            entry(3, "/red.*blue/s"),
            entry(4, "/^Ann: red$/m"),
            entry(5, r"/\x01Robin: blue/"),
            entry(6, r"/^\x01Ann/"),
            entry(7, "/red/y"),
            entry(8, r"/\x01Ann: red/y"),
            entry(9, "/done$/"),
            entry(10, "/red/", keysecondary=["/blue/"], selectiveLogic=AND_ALL),
        ],
        *(
            "blue",
            "red",
            "green",
            "red and blue",
            "blue",
            "green",
            "all is done",
            "red",
            "blue done",
            "  red  ",
        ),
        scans=range(1, 11),
    ),
    job(
        "expressions without the names of speakers",
        [
            entry(0, r"/\x01red/"),
            entry(1, r"/^\x01blue/"),
            entry(2, r"/red\n\x01blue/"),
            entry(3, "Ann"),
            entry(4, "/Robin/"),
        ],
        *("blue", "red", "green", "red", "blue", "Ann", "red", "green"),
        scans=range(1, 9),
        settings={"world_info_include_names": False},
    ),
    job(
        "expressions and texts that came",
        [
            entry(0, "lantern", text="It is of brass."),
            entry(1, r"/\x01It is of/", text="Old brass. Made of tin."),
            entry(2, r"/tin[\s\S]*Ann/"),
            entry(3, r"/Ann[\s\S]*\n\x01Old/"),
            entry(4, "/tin.$/"),
            entry(5, r"/brass\.\n\x01/"),
        ],
        *CHAIN,
    ),
    job(
        "names of speakers",
        [
            entry(0, "Ann"),
            entry(1, "Robin"),
            entry(2, "Robin: Where"),
            entry(3, "Ann:", matchWholeWords=False),
        ],
        *TALK,
    ),
    job(
        "depth",
        [
            entry(n, "quay", scanDepth=depth)
            for n, depth in enumerate((None, 0, 1, 2, 3, 5, 8, 12, 1000))
        ],
        *DEEP,
        scans=range(1, 13),
    ),
    job(
        "depth of the settings",
        [entry(0, "quay"), entry(1, "two", scanDepth=1)],
        *DEEP,
        scans=range(1, 10),
        settings={"world_info_depth": 5},
    ),
    job(
        "settings of keys",
        [
            entry(0, "cart"),
            entry(1, "Cart"),
            entry(2, "cart", matchWholeWords=True),
            entry(3, "CART", caseSensitive=False),
        ],
        *WORDS,
        settings={"world_info_match_whole_words": False, "world_info_case_sensitive": True},
    ),
]
