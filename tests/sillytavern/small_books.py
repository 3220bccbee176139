"""Small lorebooks, each of which shows one thing that an entry can say, with a chat in which it matters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from sillytavern.lore_jobs import CHARACTER, USER, Job, LoreBook

AND_ANY, NOT_ALL, NOT_ANY, AND_ALL = range(4)
Json = dict[str, Any]


def entry(uid: int, *keys: str, text: str | None = None, **fields: Any) -> Json:
    """An entry with the fields that SillyTavern writes."""
    usual: Json = {
        "uid": uid,
        "comment": f"e{uid}",
        "key": list(keys),
        "keysecondary": [],
        "content": f"This is text number {uid}." if text is None else text,
        "constant": False,
        "vectorized": False,
        "selective": True,
        "selectiveLogic": AND_ANY,
        "order": 100,
        "position": 0,
        "disable": False,
        "probability": 100,
        "useProbability": True,
        "group": "",
        "groupOverride": False,
        "groupWeight": 100,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "useGroupScoring": None,
        "sticky": None,
        "cooldown": None,
        "delay": None,
        "excludeRecursion": False,
        "preventRecursion": False,
        "delayUntilRecursion": 0,
        "ignoreBudget": False,
        "triggers": [],
    }
    return usual | fields


def constant(uid: int, **fields: Any) -> Json:
    return entry(uid, constant=True, **fields)


def without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}


def book(entries: Iterable[Json], **fields: Any) -> LoreBook:
    rows = {str(row["uid"]): row for row in entries}
    return LoreBook({"entries": rows}, **fields)


def card(entries: Iterable[Json]) -> LoreBook:
    """A book in a card of version 2, whose rows have other names for these fields."""
    return LoreBook({"name": "Book", "entries": list(entries)}, is_card=True)


def chat(*texts: str) -> list[tuple[str, str]]:
    """Character and user speak in turn, the character first."""
    return [(USER if number % 2 else CHARACTER, text) for number, text in enumerate(texts)]


def job(name: str, entries: Iterable[Json], *texts: str, scans: Sequence[int] = (), **fields: Any) -> Job:
    """`scans`: after each message of the user, unless others are given."""
    usual_scans = scans or range(2, len(texts) + 1, 2)
    return Job(name, [book(entries)], chat(*texts), list(usual_scans), **fields)


TALK = (
    *("Welcome.", "A lantern, and fog.", "Where?", "By the mill. The lantern is red; a boat too."),
    *("Hm.", "The mill and the lantern again.", "So?", "Only the boat.", "Yes.", "No more."),
)
WORDS = (
    *("Hi.", "The cart stood.", "Yes.", "Carts, a go-cart and cartography.", "No.", "CART! my_cart 9cart"),
    *("No.", "a cart's wheel (cart)", "No.", "The  cart\tstood at the café and cafés, at Straße and STRASSE"),
)
CALM = (
    *("Hi.", "the lantern", "r", "rain", "r", "rain", "r", "wind", "r", "wind", "r", "the lantern"),
    *("r", "wind", "r", "rain", "r", "rain"),
)
DEEP = ("The quay.", *("one two three four five six seven eight nine ten eleven".split()))
CHAIN = ("Hi.", "A lantern.", "Hm.", "amber", "Hm.", "rain", "Hm.", "the mill", "Hm.", "rain")
LONG = "It has been told for many years along the river, by all who came. " * 5


JOBS = [
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
            without(entry(2, "lantern", keysecondary=["boat"], selectiveLogic=NOT_ANY), "selective"),
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
        [entry(0, "  "), entry(1, "nowhere", " "), entry(2, "lantern", keysecondary=[" "], selectiveLogic=NOT_ANY)],
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
        [entry(0, "İpek"), entry(1, "i̇pek"), entry(2, "ipek"), entry(3, "İpek", caseSensitive=True)],
        *("Hi.", "İPEK", "Hm.", "i̇pek", "Hm.", "ipek", "Hm.", "İpek"),
    ),
    job(
        "signs in keys",
        [entry(0, "C++"), entry(1, "#tag"), entry(2, "a.b"), entry(3, "cat, dog"), entry(4, "$5"), entry(5, "a/b")],
        *("Hi.", "C++ and a.b", "Hm.", "C++11 axb a#tag", "Hm.", "#tag cat, dog $5", "Hm.", "a/b $55 .#tag."),
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
        *("Hi.", "Two lanterns.", "Hm.", "The mill, a bolt, a/b", "Hm.", "/a/b/ (unclosed/ ABC", "Hm.", "boat"),
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
        *("blue", "red", "green", "red and blue", "blue", "green", "all is done", "red", "blue done", "  red  "),
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
    job("names of speakers", [entry(0, "Ann"), entry(1, "Robin"), entry(2, "Robin: Where"), entry(3, "Ann:", matchWholeWords=False)], *TALK),
    job(
        "depth",
        [entry(n, "quay", scanDepth=depth) for n, depth in enumerate((None, 0, 1, 2, 3, 5, 8, 12, 1000))],
        *DEEP,
        scans=range(1, 13),
    ),
    job("depth of the settings", [entry(0, "quay"), entry(1, "two", scanDepth=1)], *DEEP, scans=range(1, 10), settings={"world_info_depth": 5}),
    job(
        "settings of keys",
        [entry(0, "cart"), entry(1, "Cart"), entry(2, "cart", matchWholeWords=True), entry(3, "CART", caseSensitive=False)],
        *WORDS,
        settings={"world_info_match_whole_words": False, "world_info_case_sensitive": True},
    ),
    job(
        "constant and disabled",
        [constant(0), constant(1, disable=True), entry(2, "lantern", disable=True), constant(3, text=""), constant(4, keysecondary=["x"])],
        *TALK,
    ),
    job("order", [entry(n, "lantern", order=order) for n, order in enumerate((10, 100, 100, -5, 0, 1000, 100))], *TALK),
    job("order that is null", [entry(0, "lantern", order=None), entry(1, "lantern", order=50), entry(2, "lantern", order=-50)], *TALK),
    job("positions", [entry(n, "lantern", position=n, order=100 + n, role=0) for n in range(7)], *TALK),
    job(
        "chance without a number",
        [
            entry(0, "lantern", probability=0),
            entry(1, "lantern", probability=0, useProbability=False),
            entry(2, "lantern", probability=None),
            entry(3, "lantern", probability=None, useProbability=False),
            without(entry(4, "lantern"), "probability"),
            without(entry(5, "lantern", probability=1), "useProbability"),
        ],
        *TALK,
    ),
    job(
        "groups that override",
        [
            entry(0, "lantern", group="g", order=5),
            entry(1, "lantern", group="g", groupOverride=True, order=10),
            entry(2, "lantern", group="g", groupOverride=True, order=20),
            entry(3, "boat", group="g", groupOverride=True, order=99),
            entry(4, "lantern"),
        ],
        *TALK,
    ),
    job(
        "groups by weight",
        [
            entry(0, "lantern", group="g", groupWeight=0, order=1),
            entry(1, "lantern", group="g", groupWeight=100, order=2),
            entry(2, "boat", group="h", groupWeight=1),
        ],
        *TALK,
    ),
    job(
        "groups by score",
        [
            entry(0, "lantern", "red", "mill", group="g", useGroupScoring=True),
            entry(1, "lantern", group="g", useGroupScoring=True),
            entry(2, "lantern", group="g", keysecondary=["fog"], useGroupScoring=True),
            entry(3, "mill", "boat", group="h", keysecondary=["red"], selectiveLogic=AND_ALL, useGroupScoring=True),
            entry(4, "mill", group="h", useGroupScoring=True, order=200),
        ],
        *TALK,
        scans=[4, 6],
    ),
    job(
        "groups by score, as the settings say",
        [
            entry(0, "lantern", "red", group="g"),
            entry(1, "lantern", group="g", groupOverride=True),
            entry(2, "mill", group="g", useGroupScoring=False, order=300, groupOverride=True),
        ],
        *TALK,
        settings={"world_info_use_group_scoring": True},
    ),
    job("sticky", [entry(n, "lantern", sticky=n) for n in (1, 2, 3, 6)], *CALM),
    job("cooldown", [entry(0, "lantern", cooldown=2), entry(1, "wind", cooldown=5), constant(2, cooldown=4)], *CALM),
    job(
        "sticky and cooldown",
        [
            entry(0, "lantern", sticky=3, cooldown=4),
            entry(1, "rain", "wind", sticky=2, cooldown=3),
            entry(2, "rain", sticky=4, cooldown=2, order=500),
        ],
        *CALM,
    ),
    job("swiped answers", [entry(0, "lantern", sticky=3, cooldown=2), entry(1, "rain", cooldown=3)], *CALM, scans=[2, 4, 4, 6, 4, 6, 8, 12, 14, 10]),
    job("delay", [entry(0, "lantern", delay=2), entry(1, "lantern", delay=3), constant(2, delay=6), entry(3, "rain", delay=5, sticky=3)], *CALM),
    job(
        "groups and sticky",
        [
            entry(0, "lantern", group="g", sticky=5, groupOverride=True, order=1),
            entry(1, "rain", group="g", order=900, groupOverride=True),
            entry(2, "wind", group="g"),
        ],
        *CALM,
    ),
    job(
        "recursion",
        [
            entry(0, "lantern", text="It shines on the mill."),
            entry(1, "mill", text="Of oak."),
            entry(2, "oak", text="Oak of the north."),
            entry(3, "north", keysecondary=["lantern"], selectiveLogic=NOT_ANY),
            entry(4, "north", keysecondary=["oak", "shines"], selectiveLogic=AND_ALL),
        ],
        *CHAIN,
    ),
    job(
        "recursion that is prevented",
        [
            entry(0, "lantern", text="It shines on the mill."),
            entry(1, "mill", excludeRecursion=True),
            entry(2, "mill", text="Of amber and oak.", preventRecursion=True),
            entry(3, "oak"),
            entry(4, "amber", text="Old mill.", preventRecursion=True),
            entry(5, "mill", text="A rain of gold."),
            entry(6, "gold"),
        ],
        *CHAIN,
    ),
    job(
        "recursion that is waited for",
        [
            entry(0, "lantern", text="It shines on the mill."),
            entry(1, "mill", text="One, with oak.", delayUntilRecursion=1),
            entry(2, "mill", text="Two.", delayUntilRecursion=2),
            entry(3, "lantern", text="Yes.", delayUntilRecursion=True),
            entry(4, "rain", delayUntilRecursion=1),
            entry(5, "oak", delayUntilRecursion=3),
            constant(6, delayUntilRecursion=2),
        ],
        *CHAIN,
    ),
    job(
        "no recursion",
        [
            entry(0, "lantern", text="It shines on the mill."),
            entry(1, "mill"),
            entry(2, "lantern", delayUntilRecursion=1),
            entry(3, "lantern", delayUntilRecursion=1, excludeRecursion=True),
        ],
        *CHAIN,
        settings={"world_info_recursive": False},
    ),
    *(
        job(
            f"at most {steps} steps of recursion",
            [
                entry(0, "lantern", text="It shines on the mill."),
                entry(1, "mill", text="Of oak."),
                entry(2, "oak", text="Of the north."),
                entry(3, "north"),
                entry(4, "rain", delayUntilRecursion=2),
                entry(5, "amber", delayUntilRecursion=1),
            ],
            *CHAIN,
            settings={"world_info_max_recursion_steps": steps},
        )
        for steps in (1, 2, 3)
    ),
    job(
        "groups over rounds",
        [
            entry(0, "lantern", text="It shines on the mill.", group="g"),
            entry(1, "mill", group="g", groupOverride=True, order=999),
            entry(2, "mill", group="h", text="Later."),
            entry(3, "lantern", "amber", group="h", order=1),
        ],
        *CHAIN,
    ),
    job("room by order", [entry(n, "lantern", text=f"E{n}. {LONG}", order=100 - n) for n in range(12)], *TALK, room=2_400),
    job(
        "room for what stays",
        [
            entry(0, "lantern", text=f"E0. {LONG}", order=1, sticky=6),
            *(entry(n, "rain", text=f"E{n}. {LONG}", order=900 - n) for n in range(1, 8)),
        ],
        *CALM,
        room=2_400,
    ),
    job(
        "room with comments",
        [
            entry(0, "lantern", text="{{// " + LONG * 30 + "}}On the mill."),
            entry(1, "mill", text="Of oak."),
            entry(2, "oak"),
        ],
        *CHAIN,
        room=3_000,
    ),
    job(
        "decorators",
        [
            entry(0, "nowhere", text="@@activate\nAlways."),
            entry(1, "lantern", text="@@dont_activate\nNever."),
            entry(2, "lantern", text="@@other\nAfter."),
            entry(3, "nowhere", text="@@@activate\nNo fallback."),
            entry(4, "nowhere", text="@@other\n@@@activate\nA fallback."),
        ],
        *TALK,
    ),
    job(
        "characters",
        [
            entry(n, "lantern", characterFilter={"isExclude": is_exclude, "names": [name], "tags": []})
            for n, (is_exclude, name) in enumerate(
                ((False, CHARACTER), (True, CHARACTER), (False, "Mika"), (True, "Mika"))
            )
        ],
        *TALK,
    ),
    job(
        "types of generation",
        [entry(0, "lantern", triggers=["normal"]), entry(1, "lantern", triggers=["swipe"]), entry(2, "lantern", triggers=[])],
        *TALK,
    ),
    job(
        "macros in keys",
        [
            entry(0, "{{user}}'s cat"),
            entry(1, "<user>'s cat"),
            entry(2, "<BOT>", scanDepth=1),
            entry(3, "/{{user}}'s (cat|dog)/i"),
            entry(4, "lantern", keysecondary=["<char>"], selectiveLogic=NOT_ANY),
            entry(5, "{{// a note}}lantern"),
            entry(6, "{{newline}}"),
            entry(7, "{{// nothing}}"),
            entry(8, "lantern{{trim}}"),
        ],
        *("Hi.", "Ann's dog", "Hm.", "Ann's cat and a lantern", "Robin said so.", "rain", "Well.", "lantern"),
    ),
    job(
        "macros in texts",
        [
            entry(0, "lantern", text="<char> fears <USER>'s sword.{{// the hidden mill}}"),
            entry(1, "Ann's sword"),
            entry(2, "mill"),
            entry(3, "Robin fears"),
            entry(4, "lantern", text="{{noop}}a{{newline}}b {{trim}}"),
        ],
        *CHAIN,
        settings={"world_info_include_names": False},
    ),
    job(
        "Chinese keys",
        [
            entry(0, "灯"),
            entry(1, "钟楼", matchWholeWords=False),
            entry(2, "灯", keysecondary=["红色", "钟楼"], selectiveLogic=AND_ALL),
            entry(3, "林晚", keysecondary=["灯"], selectiveLogic=NOT_ANY),
            entry(4, "/林.{0,2}在/"),
            entry(5, "/钟楼[\\s\\S]*红色/"),
            entry(6, "看见，灯"),
        ],
        *("你好。", "我昨天看见灯了。", "什么颜色？", "红色，挂在钟楼上。", "天哪。", "林晚也在钟楼上。"),
        scans=range(1, 7),
    ),
    Job(
        "a book in a card",
        [
            card(
                [
                    {"id": 0, "keys": ["lantern"], "content": "Zero.", "name": "e0", "enabled": True, "insertion_order": 5},
                    {"id": 1, "keys": ["lantern"], "secondary_keys": ["boat"], "content": "One.", "enabled": True, "insertion_order": 6, "selective": True},
                    {"id": 2, "keys": ["lantern"], "secondary_keys": ["boat"], "content": "Two.", "enabled": True, "insertion_order": 7},
                    {"id": 3, "keys": ["fog"], "content": "Three.", "enabled": True, "insertion_order": 1, "extensions": {"probability": None, "scan_depth": 4, "sticky": 2}},
                    {"id": 4, "keys": [], "content": "Four.", "enabled": True, "insertion_order": None, "constant": True, "extensions": {"useProbability": True}},
                    {"id": 5, "keys": ["lantern"], "content": "Five.", "enabled": False, "insertion_order": 9},
                    {"id": 6, "keys": ["red"], "content": "Six.", "enabled": True, "insertion_order": 9, "extensions": {"group": "g", "group_override": True}},
                    {"id": 7, "keys": ["mill"], "content": "Seven.", "enabled": True, "insertion_order": 8, "extensions": {"group": "g", "case_sensitive": True}},
                ]
            )
        ],
        chat(*TALK),
        range(2, 11, 2),
    ),
    *(
        Job(
            f"books of several owners, strategy {strategy}",
            [
                book([entry(n, "lantern", text=f"A{n}. {LONG}", order=300 - n) for n in range(2)], name="All", owner="all"),
                book([entry(n, "lantern", text=f"B{n}. {LONG}", order=200 - n) for n in range(10, 12)], name="Hers"),
                book([entry(20, "lantern", text=f"C. {LONG}", order=1)], name="Chat", owner="chat"),
                book([entry(30, "lantern", text=f"D. {LONG}", order=2)], name="Persona", owner="persona"),
            ],
            chat(*TALK),
            range(2, 9, 2),
            settings={"world_info_character_strategy": strategy, "world_info_recursive": False},
            room=room,
        )
        for strategy in range(3)
        for room in (2_400, 3_200)
    ),
    job(
        "mixed fields",
        [
            entry(0, "lantern", text="It shines on the mill.", sticky=3, order=50),
            entry(1, "mill", text="Gold.", cooldown=3, group="g"),
            entry(2, "mill", text="Silver.", group="g", groupOverride=True, delay=3),
            entry(3, "mill", delayUntilRecursion=1, order=300),
            constant(4, text="Always {{char}}.", order=5),
            entry(5, "silver", excludeRecursion=True),
        ],
        *CHAIN,
        *("Hm.", "lantern mill", "Hm.", "silver"),
    ),
    job(
        "what stays of constants and recursion",
        [
            constant(0, text="Always by the mill.", sticky=3, cooldown=4),
            entry(1, "mill", sticky=3, cooldown=2),
            entry(2, "mill", sticky=3, cooldown=4, delayUntilRecursion=1),
        ],
        *CALM,
    ),
]

_SPOKEN = ("lantern", "mill", "boat", "fog", "amber", "oak", "rain", "Ann", "north")
_KEYS = (*_SPOKEN, "the mill", "/boat|fog/", r"/oak[\s\S]*rain/", "Oak", "<user>", "am", "")


def random_job(seed: int) -> Job:
    """A small book of several fields, with a chat, its settings and sometimes little room. What differs on purpose is
    left out: chance, ties in the draw of a group, two groups of one entry, several levels without recursion."""
    random = Random(seed)
    is_recursive = random.random() < 0.7
    deepest_level = 3 if is_recursive else 1
    entries = [_random_entry(random, uid, deepest_level) for uid in range(random.randint(2, 8))]
    texts = [" ".join(random.choices(_SPOKEN, k=random.randint(0, 3))) or "-" for _ in range(12)]
    scans = sorted(random.sample(range(1, 13), 6))
    if random.random() < 0.2:
        scans.insert(3, scans[1])  # somebody went back in the chat
    settings = {
        "world_info_depth": random.randint(1, 4),
        "world_info_include_names": random.random() < 0.8,
        "world_info_recursive": is_recursive,
        "world_info_case_sensitive": random.random() < 0.2,
        "world_info_match_whole_words": random.random() < 0.8,
        "world_info_use_group_scoring": random.random() < 0.2,
        "world_info_max_recursion_steps": random.choice((0, 0, 0, 1, 2, 3)),
    }
    room = random.choice((50_000, 50_000, 2_400, 3_000))
    return job(f"random {seed}", entries, *texts, scans=scans, settings=settings, room=room)


def _random_entry(random: Random, uid: int, deepest_level: int) -> Json:
    def often(value: Any, usual: Any = None, chance: float = 0.25) -> Any:
        return value if random.random() < chance else usual

    said = " ".join(random.sample(_SPOKEN, random.randint(0, 2)))
    group = often(random.choice("gh"), "")
    return entry(
        uid,
        *random.sample(_KEYS, random.randint(0, 3)),
        text=f"Text {uid} {said}." + often(LONG[: random.randint(50, 330)], "", 0.6),
        constant=often(True, False, 0.15),
        keysecondary=often(random.sample(_KEYS, random.randint(1, 2)), [], 0.35),
        selectiveLogic=random.randrange(4),
        selective=often(False, True, 0.1),
        order=random.choice((1, 50, 100, 100, 200, 0)) if not group else uid,
        group=group,
        groupOverride=bool(group),  # without it the draw decides
        useGroupScoring=often(random.random() < 0.8),
        scanDepth=often(random.randint(0, 6)),
        caseSensitive=often(random.random() < 0.5),
        matchWholeWords=often(random.random() < 0.5),
        sticky=often(random.randint(1, 4)),
        cooldown=often(random.randint(1, 4)),
        delay=often(random.randint(1, 6), None, 0.1),
        excludeRecursion=often(True, False, 0.15),
        preventRecursion=often(True, False, 0.15),
        delayUntilRecursion=often(random.randint(1, deepest_level), 0, 0.2),
        disable=often(True, False, 0.05),
    )
