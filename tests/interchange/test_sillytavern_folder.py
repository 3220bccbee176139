"""A folder of SillyTavern is read as one: its chats, and its books where they are on there; and a CharX."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.interchange import sillytavern_folder
from memory_server.interchange.sillytavern_folder import Profile
from memory_server.interchange.sillytavern_parts import Owner, ProfileSettings, settings_in
from memory_server.kernel import files


def world(name: str, **more: Any) -> dict[str, Any]:
    entry = {
        "uid": 0,
        "key": [name.lower()],
        "comment": f"About {name}",
        "content": f"{name} is old.",
    }
    return {"entries": {"0": entry}} | more


def card(name: str, *, linked: str = "", own: str = "") -> dict[str, Any]:
    data: dict[str, Any] = {"name": name, "extensions": {"world": linked}}
    if own:
        row = {
            "keys": [own.lower()],
            "content": f"{own} is old.",
            "comment": f"About {own}",
            "enabled": True,
        }
        data["character_book"] = {"name": own, "entries": [row]}
    return {"spec": "chara_card_v2", "data": data}


def picture(value: Mapping[str, Any]) -> bytes:
    text = b"chara\0" + base64.b64encode(json.dumps(value).encode())
    chunk = (
        struct.pack(">I", len(text))
        + b"tEXt"
        + text
        + struct.pack(">I", zlib.crc32(b"tEXt" + text))
    )
    return b"\x89PNG\r\n\x1a\n" + chunk


def chat(question: str, *, char: str = "unused", lore: str = "", speaker: str = "Robin") -> bytes:
    metadata = {}
    if lore:
        metadata["world_info"] = lore
    rows = [
        {"user_name": "unused", "character_name": char, "chat_metadata": metadata},
        {"name": "Ann", "is_user": True, "mes": question, "send_date": "2026-03-01T10:00:00.000Z"},
        {"name": speaker, "is_user": False, "mes": "Yes.", "send_date": "2026-03-01T10:01:00.000Z"},
    ]
    return "\n".join(json.dumps(row) for row in rows).encode()


SETTINGS = {
    "username": "Ann",
    "user_avatar": "me.png",
    "power_user": {
        "personas": {"me.png": "Ann", "other.png": "Bo"},
        "persona_descriptions": {
            "me.png": {"lorebook": "Persona"},
            "other.png": {
                "lorebook": "Other",
                "connections": [{"type": "character", "id": "robin.png"}],
            },
        },
    },
    "world_info_settings": {
        "world_info": {
            "globalSelect": ["Global", "Gone"],
            "charLore": [{"name": "mia", "extraBooks": ["Extra"]}],
        },
        "world_info_depth": 5,
        "world_info_recursive": False,
        "world_info_include_names": False,
        "world_info_match_whole_words": False,
        "world_info_case_sensitive": True,
        "world_info_use_group_scoring": True,
        "world_info_max_recursion_steps": 3,
    },
}
FILES: dict[str, bytes] = {
    "settings.json": json.dumps(SETTINGS).encode(),
    "secrets.json": b'{"api_key": "not read"}',
    **{
        f"worlds/{name}.json": json.dumps(world(name)).encode()
        for name in (
            "Global",
            "Persona",
            "Other",
            "Linked",
            "Extra",
            "OfChat",
            "OfGroup",
            "Nowhere",
        )
    },
    "characters/robin.png": picture(card("Robin", linked="Linked", own="Stale")),
    "characters/mia.json": json.dumps(card("Mia", own="Own")).encode(),
    "chats/robin/one.jsonl": chat("My boat is called Halcyon."),
    "chats/robin/two.jsonl": chat("Where is the fog?", lore="OfChat"),
    "chats/Gone One/three.jsonl": chat("Old times.", char="Gone"),
    "groups/1.json": json.dumps(
        {
            "id": "1",
            "name": "Crew",
            "members": ["robin.png"],
            "chats": ["g1"],
            "chat_metadata": {"world_info": "OfGroup"},
        }
    ).encode(),
    "group chats/g1.jsonl": chat("All aboard."),
    "group chats/g2.jsonl": chat("Nobody's group."),
}


def profile_of(files: Mapping[str, bytes]) -> Profile:
    (profile,) = sillytavern_folder.read(files, "everyone", "usual")
    return profile


def homes_of_books(profile: Profile) -> dict[str, set[str]]:
    """The conversations of each book that is on."""
    homes: dict[str, set[str]] = {}
    for placed in profile.books:
        if placed.book.is_on:
            homes.setdefault(placed.book.name, set()).add(placed.conversation_id)
    return homes


def test_books_are_on_where_they_are_on_there_and_all_others_are_off() -> None:
    profile = profile_of(FILES)
    assert homes_of_books(profile) == {
        "Global": {"everyone"},
        "Persona": {"everyone"},
        "Other": {"Robin", "Crew"},
        "Linked": {"Robin", "Crew"},
        "Extra": {"Mia"},
        "OfChat": {"Robin"},
        "OfGroup": {"Crew"},
        "Own": {"Mia"},
    }
    assert [placed.book.name for placed in profile.books if not placed.book.is_on] == ["Nowhere"]
    assert (profile.replaced, profile.missing, profile.faults) == (("Robin",), ("Gone",), ())


def test_a_chat_is_in_the_conversation_of_its_character_or_group() -> None:
    homes = {placed.path: placed.conversation_id for placed in profile_of(FILES).chats}
    assert homes == {
        "chats/robin/one.jsonl": "Robin",
        "chats/robin/two.jsonl": "Robin",
        "chats/Gone One/three.jsonl": "Gone",
        "group chats/g1.jsonl": "Crew",
        "group chats/g2.jsonl": "usual",
    }


def test_settings_of_the_user_hold_for_all_books() -> None:
    profile = profile_of(FILES)
    assert profile.user == "Ann"
    assert profile.settings == ProfileSettings(
        recursion=False,
        most_rounds=3,
        names=False,
        depth=5,
        whole_words=False,
        case_sensitive=True,
        group_scoring=True,
    )
    assert profile_of({"worlds/A.json": b'{"entries": {}}'}).settings == ProfileSettings()


@pytest.mark.parametrize(
    ("strategy", "precedences"),
    [(0, (0, 1, 2, 2)), (1, (0, 1, 2, 3)), (2, (0, 1, 3, 2)), (None, (0, 1, 2, 3))],
)
def test_the_strategy_says_whose_lore_comes_first(
    strategy: int | None, precedences: tuple[int, ...]
) -> None:
    lore = {} if strategy is None else {"world_info_character_strategy": strategy}
    settings = settings_in(json.dumps({"world_info_settings": lore}).encode()).profile
    owners: tuple[Owner, ...] = ("chat", "persona", "character", "all")
    assert tuple(map(settings.precedence_of, owners)) == precedences


def test_settings_without_a_meaning_here_are_named(cli: CommandLine) -> None:
    lore = {"world_info_min_activations": 2, "world_info_budget": 40}
    settings = {"world_info_settings": {"world_info": {"globalSelect": ["Boat"]}, **lore}}
    world_file = json.dumps(world("Boat")).encode()
    files = {"settings.json": json.dumps(settings).encode(), "worlds/Boat.json": world_file}
    _status, out, _errors = cli("import", write_folder(files), "--all")
    said = " ".join(out.split())
    assert "min activations (2): older messages are not searched" in said
    assert "the budget of world info" in said


def test_counts_say_what_is_there() -> None:
    counts = profile_of(FILES).counts
    assert (counts.chats, counts.group_chats, counts.groups, counts.characters) == (5, 2, 1, 2)
    assert (counts.books, counts.entries, counts.books_on) == (9, 9, 8)


def test_what_cannot_be_read_is_named_and_all_else_comes() -> None:
    broken = FILES | {
        "worlds/Broken.json": b"{",
        "characters/broken.json": b"[]",
        "groups/2.json": b"x",
    }
    profile = profile_of(broken)
    assert [path for path, _reason in profile.faults] == [
        "characters/broken.json",
        "groups/2.json",
        "worlds/Broken.json",
    ]
    assert homes_of_books(profile) == homes_of_books(profile_of(FILES))


def test_worlds_alone_are_on_because_nothing_says_that_they_are_off() -> None:
    files = {path: data for path, data in FILES.items() if path.startswith("worlds/")}
    assert len(homes_of_books(profile_of(files))) == 8


def test_several_users_of_one_installation_are_read_apart() -> None:
    users: dict[str, bytes] = {}
    for path, data in FILES.items():
        users[f"data/ann/{path}"] = data
        users[f"data/bo/{path}"] = data
    profiles = sillytavern_folder.read(
        users | {"default/content/settings.json": b"{}"}, "everyone", "usual"
    )
    assert sillytavern_folder.is_folder(users)
    assert [profile.is_empty for profile in profiles] == [False, False, True]


IS_FOLDER: list[tuple[list[str], bool]] = [
    (list(FILES), True),
    (["public/settings.json", "public/worlds/A.json"], True),
    (["worlds/A.json"], True),
    (["chats/robin/one.jsonl"], False),
    (["src/worlds/A.json", "src/main.py"], False),
    (["settings.json"], False),
    (["one.jsonl"], False),
]


@pytest.mark.parametrize(("paths", "is_folder"), IS_FOLDER)
def test_a_folder_is_told_by_the_names_in_it(paths: list[str], is_folder: bool) -> None:
    assert sillytavern_folder.is_folder(paths) is is_folder


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in UTC, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    monkeypatch.chdir(tmp_path)
    return cli


def write_folder(files: Mapping[str, bytes]) -> str:
    for path, data in files.items():
        file = Path("st", path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return "st"


def fired(cli: CommandLine, conversation_id: str, query_text: str) -> set[str]:
    query = {
        "conversation_id": conversation_id,
        "messages": [{"role": "user", "content": query_text}],
    }
    out = cli("call", "search_long_term_memories", json.dumps(query))[1]
    return {memory["name"] for memory in json.loads(out)["activated"]}


def test_import_says_first_what_is_there_and_brings_it(cli: CommandLine) -> None:
    status, out, err = cli("import", write_folder(FILES))
    assert status == 0
    assert (
        "st is a folder of SillyTavern: 5 chats, 2 of groups, 2 characters, 9 lorebooks with 9 entries (8 on)."
        in err
    )
    assert "st has the format sillytavern." in out
    assert "lorebook Nowhere in default, switched off: 1 entry; 1 new" in out
    assert "Halcyon" in cli("search", "boat", "-c", "Robin")[1]
    assert fired(cli, "Robin", "global linked extra nowhere") == {"About Global", "About Linked"}
    assert fired(cli, "Mia", "global linked own extra") == {
        "About Global",
        "About Own",
        "About Extra",
    }


def test_import_again_changes_nothing(cli: CommandLine) -> None:
    cli("import", write_folder(FILES))
    out = cli("import", "st", "--dry-run")[1]
    assert "get 1 new" not in out
    assert "get 2 new" not in out
    assert "unchanged" in out


def test_no_file_of_the_folder_is_opened_that_is_no_part_of_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read_file = files.read_file

    def read(path: Path, *others: Any) -> bytes:
        if path.parts[0] == "st":
            opened.append(path.relative_to("st").as_posix())
        return read_file(path, *others)

    monkeypatch.setattr(files, "read_file", read)
    write_folder(FILES | {"backups/settings.json": b"{}", "thumbnails/worlds/A.json": b"{}"})
    assert cli("import", "st", "--dry-run")[0] == 0
    assert sorted(opened) == sorted(path for path in FILES if path != "secrets.json")


def test_all_of_a_folder_goes_where_the_caller_says(cli: CommandLine) -> None:
    out = cli("import", write_folder(FILES), "-c", "Tale", "--dry-run")[1]
    assert {line.split()[0] for line in out.splitlines() if " (dry run): " in line} == {"Tale"}


def test_the_folder_of_all_worlds_is_read_alone(cli: CommandLine) -> None:
    write_folder(FILES)
    status, out, err = cli("import", "st/worlds")
    assert (status, "8 lorebooks with 8 entries (8 on)" in err) == (0, True)
    assert "8 memories can be used" in out


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def test_the_backup_of_a_user_is_read_as_it_was_loaded(cli: CommandLine) -> None:
    Path("backup.zip").write_bytes(zipped(FILES))
    status, out, err = cli("import", "backup.zip", "--dry-run")
    assert (status, "backup.zip has the format sillytavern." in out) == (0, True)
    assert "5 chats" in err


CHARX = {
    "card.json": json.dumps(card("Robin", own="Fog")).encode(),
    "assets/icon/image/main.png": b"png",
    "module.risum": b"o\x00",
}


@pytest.mark.parametrize("before", [b"", b"\xff\xd8\xff\xe0 a picture"])
def test_a_charx_is_read_as_its_card_and_its_files_are_named(
    cli: CommandLine, before: bytes
) -> None:
    Path("robin.charx").write_bytes(before + zipped(CHARX))
    status, out, _err = cli("import", "robin.charx")
    assert (status, "in Robin: 1 entry; 1 new" in out) == (0, True)
    assert "pictures and other files of the card: 1" in out
    assert "module.risum: the packed module of RisuAI" in out


def test_a_charx_with_its_lorebook_in_a_packed_module_says_so(cli: CommandLine) -> None:
    Path("robin.charx").write_bytes(
        zipped(CHARX | {"card.json": json.dumps(card("Robin")).encode()})
    )
    status, _out, err = cli("import", "robin.charx")
    assert status == 2
    assert "holds a character whose lorebook is in module.risum" in err


def test_a_folder_with_such_names_and_something_else_in_it_is_read_as_what_it_is(
    cli: CommandLine,
) -> None:
    files = {
        "worlds/level.json": b'{"tiles": []}',
        "settings.json": b"{}",
        "notes.md": b"# Bees\n\nSeven hives.",
    }
    status, out, _err = cli("import", write_folder(files))
    assert (status, "st has the format pages." in out) == (0, True)


def test_a_folder_of_characters_without_lorebooks_says_so(cli: CommandLine) -> None:
    status, _out, err = cli(
        "import", write_folder({"characters/robin.json": json.dumps(card("Robin")).encode()})
    )
    assert (status, "is a folder of SillyTavern without chats and lorebooks." in err) == (2, True)


def test_settings_alone_are_no_memories(cli: CommandLine) -> None:
    settings = SETTINGS | {"oai_settings": {}}
    Path("settings.json").write_text(json.dumps(settings), encoding="utf-8")
    status, _out, err = cli("import", "settings.json")
    assert (status, "import the folder that holds it" in err) == (2, True)


def test_a_file_is_no_folder(cli: CommandLine) -> None:
    write_folder(FILES)
    status, _out, err = cli("import", "st/chats/robin/one.jsonl", "--format", "sillytavern")
    assert (status, "has the format chat, not sillytavern; leave --format out." in err) == (2, True)


BEES = [
    {"user_name": "Ann", "character_name": "Robin", "chat_metadata": {}},
    {"name": "Ann", "is_user": True, "mes": "I keep bees."},
    {"name": "Robin", "is_user": False, "mes": "How many hives?", "is_system": True},
    {"name": "Ann", "is_user": True, "mes": "Seven hives.", "is_system": True},
    {
        "name": "System",
        "is_user": False,
        "mes": "Welcome!",
        "is_system": True,
        "extra": {"type": "welcome"},
    },
    {"name": "Robin", "is_user": False, "mes": "Good."},
]


def test_hidden_messages_come_only_where_the_caller_wants_them(cli: CommandLine) -> None:
    Path("bees.jsonl").write_text("\n".join(json.dumps(row) for row in BEES), encoding="utf-8")
    usual = cli("import", "bees.jsonl", "--dry-run")[1]
    with_hidden = cli("import", "bees.jsonl", "--with-hidden", "--dry-run")[1]
    assert ("hives" in usual, "hidden messages: 3" in usual) == (False, True)
    assert ("Seven hives." in with_hidden, "hidden messages: 1" in with_hidden) == (True, True)
    assert "Welcome!" not in with_hidden


def test_forms_whose_keys_become_expressions_fire_by_them(cli: CommandLine) -> None:
    trigger = "trigger:\n  - name: pier\n    type: keywords\n    match: 'pier&fog~sun&dry'\n    content: Long.\n"
    Path("book.yaml").write_text(trigger, encoding="utf-8")
    entry = {"text": "Both.", "displayName": "both", "keys": ["harbour & ship"], "enabled": True}
    Path("book.lorebook").write_text(
        json.dumps({"lorebookVersion": 6, "entries": [entry]}), encoding="utf-8"
    )
    assert cli("import", "book.yaml", "book.lorebook")[0] == 0
    cases = {
        "the pier in fog": {"pier"},
        "the pier in fog and sun": {"pier"},
        "fog and sun at a dry pier": set(),
        "the pier": set(),
        "A Ship in the Harbour": {"both"},
        "a ship": set(),
    }
    for message, names in cases.items():
        assert fired(cli, "default", message) == names, message


def profile_files(
    worlds: Mapping[str, str],
    *,
    everywhere: tuple[str, ...] = (),
    linked: str = "",
    extra: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """A profile with one character. `worlds`: the key of the one entry of each."""
    settings = {
        "username": "Ann",
        "world_info_settings": {
            "world_info": {
                "globalSelect": list(everywhere),
                "charLore": [{"name": "robin", "extraBooks": list(extra)}],
            }
        },
    }
    return {
        "settings.json": json.dumps(settings).encode(),
        "characters/robin.png": picture(card("Robin", linked=linked)),
        **{
            f"worlds/{name}.json": json.dumps(
                {
                    "entries": {
                        "0": {"uid": 0, "key": [key], "comment": name, "content": f"{name}: {key}."}
                    }
                }
            ).encode()
            for name, key in worlds.items()
        },
    }


def replaced_folder(files: Mapping[str, bytes]) -> str:
    """The folder with these files alone."""
    for file in Path("st").rglob("*"):
        if file.is_file():
            file.unlink()
    return write_folder(files)


WORLDS = {"Main": "bridge", "More": "tower", "Fairs": "fair"}
ALL_ON: dict[str, Any] = {"everywhere": ("Fairs",), "linked": "Main", "extra": ("More",)}


def came(cli: CommandLine) -> set[str]:
    return fired(cli, "Robin", "bridge tower fair")


def notes_on(out: str, what: str) -> str:
    """The line of a report that says this; "": none does."""
    return next((line for line in out.splitlines() if what in line), "")


def test_books_that_were_switched_off_there_are_off_here_after_the_next_import(
    cli: CommandLine,
) -> None:
    cli("import", write_folder(profile_files(WORLDS, **ALL_ON)))
    assert came(cli) == {"Main", "More", "Fairs"}
    out = cli("import", replaced_folder(profile_files(WORLDS)))[1]
    assert came(cli) == set()
    assert "off here too" in notes_on(out, ": 3 (")
    rows = [json.loads(line) for line in cli("books", "--json")[1].splitlines()]
    assert len(rows) == 3, "no copy that is off is added"
    out = cli("import", replaced_folder(profile_files(WORLDS, **ALL_ON)))[1]
    assert came(cli) == {"Main", "More", "Fairs"}
    assert "off here too" not in out


def test_a_dry_run_says_what_would_be_off_and_switches_nothing(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files(WORLDS, **ALL_ON)))
    out = cli("import", replaced_folder(profile_files(WORLDS)), "--dry-run")[1]
    assert "would be off here too: 3" in out
    assert came(cli) == {"Main", "More", "Fairs"}


def test_a_book_that_is_on_elsewhere_now_is_off_where_it_was(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files(WORLDS, linked="Main")))
    cli("import", replaced_folder(profile_files(WORLDS, everywhere=("Main",))))
    rows = [json.loads(line) for line in cli("books", "--json")[1].splitlines()]
    states = {(row["name"], row["conversation_id"]): row["on"] for row in rows}
    assert states["Main", "default"] is True
    assert states["Main", "Robin"] is False


def test_what_somebody_switched_here_stays_and_is_named(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files(WORLDS, **ALL_ON)))
    cli("books", "off", "Main", "-c", "Robin")
    out = cli("import", "st")[1]
    assert came(cli) == {"More", "Fairs"}
    assert notes_on(out, "stay as you switched them here").endswith(": 1 (Main)")
    cli("import", replaced_folder(profile_files(WORLDS)))
    cli("books", "on", "Fairs")
    out = cli("import", "st")[1]
    assert came(cli) == {"Fairs"}
    assert notes_on(out, "stay as you switched them here").endswith(": 1 (Fairs)")
    assert "Fairs" not in notes_on(out, "off here too")


def test_a_renamed_book_retires_the_one_with_the_old_name(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files({"Old": "bridge"}, linked="Old")))
    renamed = profile_files({"New": "bridge"}, linked="New")
    dry = cli("import", replaced_folder(renamed), "--dry-run")[1]
    assert notes_on(dry, "would be removed").endswith(": 1 (Old)")
    out = cli("import", "st")[1]
    assert fired(cli, "Robin", "bridge") == {"New"}
    assert notes_on(out, "another lorebook has now").endswith(": 1 (Old)")


def test_a_book_that_the_folder_does_not_have_stays_on_and_is_named(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files({"Old": "bridge", "More": "tower"}, linked="Old")))
    out = cli("import", replaced_folder(profile_files({"More": "tower"}, linked="More")))[1]
    assert fired(cli, "Robin", "bridge tower") == {"Old", "More"}
    assert notes_on(out, "stay on here").endswith(": 1 (Old)")


def test_without_settings_no_book_is_switched(cli: CommandLine) -> None:
    cli("import", write_folder(profile_files(WORLDS, **ALL_ON)))
    files = profile_files(WORLDS)
    del files["settings.json"]
    out = cli("import", replaced_folder(files))[1]
    assert came(cli) == {"Main", "More", "Fairs"}
    assert "off here too" not in out
