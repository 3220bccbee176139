"""Small lorebooks, each of which shows one rule of entries, with a chat in which it matters."""

from __future__ import annotations

from sillytavern.entries import (
    AND_ALL,
    CALM,
    CHAIN,
    LONG,
    NOT_ANY,
    TALK,
    book,
    card,
    chat,
    constant,
    entry,
    job,
    without,
)
from sillytavern.lore_jobs import CHARACTER, Job

RULE_JOBS = [
    job(
        "constant and disabled",
        [
            constant(0),
            constant(1, disable=True),
            entry(2, "lantern", disable=True),
            constant(3, text=""),
            constant(4, keysecondary=["x"]),
        ],
        *TALK,
    ),
    job(
        "order",
        [
            entry(n, "lantern", order=order)
            for n, order in enumerate((10, 100, 100, -5, 0, 1000, 100))
        ],
        *TALK,
    ),
    job(
        "order that is null",
        [
            entry(0, "lantern", order=None),
            entry(1, "lantern", order=50),
            entry(2, "lantern", order=-50),
        ],
        *TALK,
    ),
    job(
        "positions",
        [entry(n, "lantern", position=n, order=100 + n, role=0) for n in range(7)],
        *TALK,
    ),
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
            entry(
                3,
                "mill",
                "boat",
                group="h",
                keysecondary=["red"],
                selectiveLogic=AND_ALL,
                useGroupScoring=True,
            ),
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
    job(
        "cooldown",
        [entry(0, "lantern", cooldown=2), entry(1, "wind", cooldown=5), constant(2, cooldown=4)],
        *CALM,
    ),
    job(
        "sticky and cooldown",
        [
            entry(0, "lantern", sticky=3, cooldown=4),
            entry(1, "rain", "wind", sticky=2, cooldown=3),
            entry(2, "rain", sticky=4, cooldown=2, order=500),
        ],
        *CALM,
    ),
    job(
        "swiped answers",
        [entry(0, "lantern", sticky=3, cooldown=2), entry(1, "rain", cooldown=3)],
        *CALM,
        scans=[2, 4, 4, 6, 4, 6, 8, 12, 14, 10],
    ),
    job(
        "delay",
        [
            entry(0, "lantern", delay=2),
            entry(1, "lantern", delay=3),
            constant(2, delay=6),
            entry(3, "rain", delay=5, sticky=3),
        ],
        *CALM,
    ),
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
    job(
        "room by order",
        [entry(n, "lantern", text=f"E{n}. {LONG}", order=100 - n) for n in range(12)],
        *TALK,
        room=2_400,
    ),
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
            entry(
                n, "lantern", characterFilter={"isExclude": is_exclude, "names": [name], "tags": []}
            )
            for n, (is_exclude, name) in enumerate(
                ((False, CHARACTER), (True, CHARACTER), (False, "Mika"), (True, "Mika"))
            )
        ],
        *TALK,
    ),
    job(
        "types of generation",
        [
            entry(0, "lantern", triggers=["normal"]),
            entry(1, "lantern", triggers=["swipe"]),
            entry(2, "lantern", triggers=[]),
        ],
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
        *(
            "Hi.",
            "Ann's dog",
            "Hm.",
            "Ann's cat and a lantern",
            "Robin said so.",
            "rain",
            "Well.",
            "lantern",
        ),
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
        *(
            "你好。",
            "我昨天看见灯了。",
            "什么颜色？",
            "红色，挂在钟楼上。",
            "天哪。",
            "林晚也在钟楼上。",
        ),
        scans=range(1, 7),
    ),
    Job(
        "a book in a card",
        [
            card(
                [
                    {
                        "id": 0,
                        "keys": ["lantern"],
                        "content": "Zero.",
                        "name": "e0",
                        "enabled": True,
                        "insertion_order": 5,
                    },
                    {
                        "id": 1,
                        "keys": ["lantern"],
                        "secondary_keys": ["boat"],
                        "content": "One.",
                        "enabled": True,
                        "insertion_order": 6,
                        "selective": True,
                    },
                    {
                        "id": 2,
                        "keys": ["lantern"],
                        "secondary_keys": ["boat"],
                        "content": "Two.",
                        "enabled": True,
                        "insertion_order": 7,
                    },
                    {
                        "id": 3,
                        "keys": ["fog"],
                        "content": "Three.",
                        "enabled": True,
                        "insertion_order": 1,
                        "extensions": {"probability": None, "scan_depth": 4, "sticky": 2},
                    },
                    {
                        "id": 4,
                        "keys": [],
                        "content": "Four.",
                        "enabled": True,
                        "insertion_order": None,
                        "constant": True,
                        "extensions": {"useProbability": True},
                    },
                    {
                        "id": 5,
                        "keys": ["lantern"],
                        "content": "Five.",
                        "enabled": False,
                        "insertion_order": 9,
                    },
                    {
                        "id": 6,
                        "keys": ["red"],
                        "content": "Six.",
                        "enabled": True,
                        "insertion_order": 9,
                        "extensions": {"group": "g", "group_override": True},
                    },
                    {
                        "id": 7,
                        "keys": ["mill"],
                        "content": "Seven.",
                        "enabled": True,
                        "insertion_order": 8,
                        "extensions": {"group": "g", "case_sensitive": True},
                    },
                ]
            )
        ],
        chat(*TALK),
        range(2, 11, 2),
    ),
    Job(
        "a book in a card whose entries stand in another order than their ids",
        [
            card(
                {
                    "id": uid,
                    "keys": ["lantern"],
                    "content": f"{uid}.",
                    "enabled": True,
                    "insertion_order": 5,
                }
                for uid in (3, 10, 2, 1)
            )
        ],
        chat(*TALK),
        range(2, 7, 2),
    ),
    Job(
        "a book whose entries stand in another order than their numbers",
        [book(entry(uid, "lantern") for uid in (3, 10, 2, 1))],
        chat(*TALK),
        range(2, 7, 2),
    ),
    *(
        Job(
            f"books of several owners, strategy {strategy}",
            [
                book(
                    [entry(n, "lantern", text=f"A{n}. {LONG}", order=300 - n) for n in range(2)],
                    name="All",
                    owner="all",
                ),
                book(
                    [
                        entry(n, "lantern", text=f"B{n}. {LONG}", order=200 - n)
                        for n in range(10, 12)
                    ],
                    name="Hers",
                ),
                book([entry(20, "lantern", text=f"C. {LONG}", order=1)], name="Chat", owner="chat"),
                book(
                    [entry(30, "lantern", text=f"D. {LONG}", order=2)],
                    name="Persona",
                    owner="persona",
                ),
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
