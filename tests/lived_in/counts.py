"""The same counts everywhere: what the store holds is what each face says that it holds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from lived_in.house import House
from web_page import Parsed

from memory_server.tools.base.tool import ToolFailed

SPACES = {"notes": "notes", "layers": "layers", "facts": "sessions", "refs": "refs"}
"""The pages of entries, and the family of each."""


def faults_of_counts(house: House) -> list[str]:
    return [
        *_of_conversations(house),
        *_of_entries(house),
        *_of_recalls(house),
        *_of_the_history(house),
        *_of_an_export(house),
    ]


def contents(house: House) -> Counter[str]:
    """All that is remembered, with its uses; looking changes nothing of it."""
    counts = Counter[str]()
    for name in house.conversations():
        counts.update(
            f"{name} {memory!r}" for memory in (*house.memories(name), *house.triggers(name))
        )
    counts.update(f"{location} {entry!r}" for location, entry in house.entries())
    return counts


def kept_texts(house: House) -> set[str]:
    """What people would see again: names and texts, without scores and times."""
    texts_kept = set[str]()
    for room in house.conversations():
        texts_kept |= {
            f"{room} {memory.id} {memory.text} {memory.pinned}" for memory in house.memories(room)
        }
        texts_kept |= {
            f"{room} {trigger.name} {trigger.prompt} {trigger.trigger}"
            for trigger in house.triggers(room)
        }
    return texts_kept | {
        f"{location} {entry.key or entry.ref or entry.id} {entry.title} {entry.body}"
        for location, entry in house.entries()
    }


def _of_the_history(house: House) -> Iterator[str]:
    """The changes of a conversation, and those of all knowledge, are in the order of their numbers, whatever the clock
    said when they were made."""
    numbers: dict[str, list[int]] = {}
    for line in house.command("history", "--json", "--limit", "1000").lines():
        version, dash, _hash = line["change"].partition("-")
        sequence = line["place"] if dash else "knowledge"
        numbers.setdefault(sequence, []).append(int(version.removeprefix("k")))
    for sequence, found in numbers.items():
        yield from _differences(f"order of {sequence}", sorted(found)[::-1], {"history": found})


def _of_recalls(house: House) -> Iterator[str]:
    """How many recalls the record has: the command, the doctor and the page of each conversation."""
    recalls = house.command("recalls", "--json", "-n", "100000").lines()
    findings = json.loads(house.command("doctor", "--json").text)["findings"]
    [sentence] = [finding["what"] for finding in findings if finding["about"] == "recalls"] or [
        "no word"
    ]
    count: object = sentence
    if sentence[0].isdecimal():
        count = int(sentence.split()[0].replace(",", ""))
    yield from _differences("recalls", len(recalls), {"doctor": count})
    for name in house.conversations()[:4]:
        own = sum(recall["conversation"] == name for recall in recalls)
        rows = _rows(
            house, f"/recalls?{urlencode({'c': name, 'lang': 'en', 'open': 'none'})}", "event"
        )
        yield from _differences(f"recalls of {name}", own, {"the pages": rows})


def _differences(subject: str, truth: object, faces: Mapping[str, object]) -> Iterator[str]:
    for face, count in faces.items():
        if count != truth:
            yield f"counts of {subject}: the store has {truth}, {face} says {count}"


def _tool(house: House, name: str, **arguments: Any) -> Any:
    answer = house.tool(name, arguments)
    if isinstance(answer, ToolFailed):
        return answer.args[0]
    return answer.structured


def _rest(house: House, name: str, **arguments: Any) -> Any:
    return house.ask(name, arguments).json()


def _of_conversations(house: House) -> Iterator[str]:
    rows = house.command("list", "--json", "--limit", "1000").lines()
    places = {row["place"]: row for row in rows if "memories" in row}
    archived = Counter(
        (row["place"], row["family"])
        for row in house.command("list", "--archived", "--json", "--limit", "100000").lines()
    )
    names = house.conversations()
    yield from _differences("conversations", sorted(names), {"list --json": sorted(places)})
    for name in names:
        memories = len(house.memories(name))
        triggers = len(house.triggers(name))
        stats = _tool(house, "get_memory_stats", conversation_id=name)
        listed = house.command(
            "list", "--family", "memories", "-c", name, "--json", "--limit", "100000"
        ).lines()
        row = places.get(name, {})
        yield from _differences(
            f"memories of {name}",
            memories,
            {
                "list --json": row.get("memories"),
                "list --family": len(listed),
                "get_memory_stats": _total(stats, "total"),
                "get_memory_stats over REST": _total(
                    _rest(house, "get_memory_stats", conversation_id=name), "total"
                ),
                "the pages": _rows(
                    house, f"/subject?{urlencode({'c': name, 'lang': 'en'})}", "row"
                ),
            },
        )
        yield from _differences(
            f"triggers of {name}",
            triggers,
            {
                "list --json": row.get("triggers"),
                "list --family": len(_lines(house, "list", "--family", "triggers", "-c", name)),
                "list_long_term_memories": _triggers(house, name),
            },
        )
        forgotten = _gone(house, name)
        yield from _differences(
            f"what was forgotten in {name}",
            (forgotten["memories"], forgotten["triggers"]),
            {"list --archived": (archived[name, "memories"], archived[name, "triggers"])},
        )


def _gone(house: House, name: str) -> Counter[str]:
    """What can come back, each once: of a name that is in use again, nothing comes back."""
    live = {memory.key for memory in (*house.memories(name), *house.triggers(name))}
    keys: dict[str, set[str]] = {"memories": set(), "triggers": set()}
    for entry in house.shelf(name):
        family = "triggers"
        if hasattr(entry.memory, "messages"):
            family = "memories"
        keys[family].add(entry.memory.key)
    return Counter({family: len(keys_of_family - live) for family, keys_of_family in keys.items()})


def _total(answer: Any, *names: str) -> object:
    """The number at this path of an answer; the whole answer where it is not there."""
    number = answer
    for name in names:
        if not isinstance(number, Mapping) or name not in number:
            return answer
        number = number[name]
    return number


def _rows(house: House, address: str, kind: str) -> int:
    """The rows of a list on the pages, over all its pages."""
    count = 0
    while address:
        page = Parsed(house.get(address).text)
        count += sum(kind in element.get("class", "").split() for element in page.named("article"))
        links = house.links_of(address, page)
        following = [
            link for link in links if "page=" in link and _number(link) == _number(address) + 1
        ]
        address = next(iter(following), "")
    return count


def _number(address: str) -> int:
    query = dict(part.split("=", 1) for part in urlsplit(address).query.split("&") if "=" in part)
    return int(query.get("page", "0"))


def _of_entries(house: House) -> Iterator[str]:
    entries = house.entries()
    by_family = Counter(location.partition("/")[0] for location, _entry in entries)
    overview = Counter[str]()
    for row in house.command("list", "--json", "--limit", "1000").lines():
        if "entries" in row:
            overview[row["place"].partition("/")[0]] += row["entries"]
    for page, family in SPACES.items():
        listed = house.command("list", "--family", family, "--json", "--limit", "100000").lines()
        listed_by_knowledge = house.command(
            "knowledge", "list", "--space", family, "--json", "--limit", "100000"
        ).lines()
        faces: dict[str, object] = {
            "list --family": len(listed),
            "list --json": overview[family],
            "knowledge list": len(listed_by_knowledge),
            "the pages": _rows(house, f"/{page}?lang=en", "row"),
        }
        faces |= _tools_of(
            house, family, [entry for location, entry in entries if location.startswith(family)]
        )
        yield from _differences(family, by_family[family], faces)


def _tools_of(house: House, family: str, entries: Sequence[Any]) -> dict[str, object]:
    """What the tools of a family say that there is."""
    match family:
        case "refs":
            # A ref that is over is not counted by the tool, and stays in lists until the daily upkeep.
            over = sum(
                entry.expires_ms is not None and entry.expires_ms <= house.app.clock()
                for entry in entries
            )
            total = _total(_tool(house, "memoryStats"), "data", "total")
            if isinstance(total, int):
                return {"memoryStats": total + over}
            return {"memoryStats": total}
        case "layers":
            tools = (
                ("list_memory_entries", "list_global_memory_entries"),
                ("get_memory_summary", "get_global_memory_summary"),
            )
            listed = sum(_number_of(_total(_tool(house, name), "count")) for name in tools[0])
            summaries = sum(
                _number_of(_total(_tool(house, name), "summary", "total_entries"))
                for name in tools[1]
            )
            return {"list_…_entries": listed, "get_…_summary": summaries}
    return {}


def _number_of(value: object) -> int:
    if isinstance(value, int):
        return value
    return -1


def _lines(house: House, *words: str) -> list[Any]:
    return house.command(*words, "--json", "--limit", "100000").lines()


def _triggers(house: House, name: str) -> object:
    """How many triggers the tool lists for a conversation, which also has those of `default`."""
    offset = count = 0
    while True:
        answer = _tool(house, "list_long_term_memories", conversation_id=name, offset=offset)
        if not isinstance(answer, Mapping):
            return answer
        rows = answer["memories"]
        count += sum(row.get("conversation_id", name) == name for row in rows)
        if not rows or offset + len(rows) >= answer.get("total", 0):
            return count
        offset += len(rows)


def _of_an_export(house: House) -> Iterator[str]:
    """What is exported is imported into an empty home, and is the same there."""
    if house.read_only:
        return
    first_export = house.folder / "kept.jsonl"
    second_export = house.folder / "again.jsonl"
    other_home = str(house.folder / "other home")
    shutil.rmtree(other_home, ignore_errors=True)
    exported = house.command("export", str(first_export), "--force")
    if exported.status == 2 or not _records(first_export):
        if house.entries() or any(
            house.memories(name) or house.triggers(name) for name in house.conversations()
        ):
            yield f"there is something, and nothing is exported: {exported.errors}"
        return
    imported = house.command("import", str(first_export), "--data-dir", other_home, own=True)
    if imported.status != 0:
        yield f"an export cannot be imported: {imported.text} {imported.errors}"
        return
    exported = house.command(
        "export", str(second_export), "--force", "--data-dir", other_home, own=True
    )
    if exported.status != 0:
        yield f"what was imported is not exported: {imported.text} {exported.errors}"
        return
    before = _records(first_export)
    after = _records(second_export)
    for record in before - after:
        yield f"an export is not the same after an import: {record[:300]} … {record[-300:]} is lost"
    for record in after - before:
        yield f"an export is not the same after an import: {record[:300]} … {record[-300:]} is new"


def _records(path: Path) -> set[str]:
    """The lines of an export, without its first and last one, and without conversations that hold nothing."""
    lines = path.read_bytes().decode().split("\n")[1:-2]
    records = [json.loads(line) for line in lines if '"shortTerm":0,"longTerm":0' not in line]
    return {_comparable(record) for record in records}


def _comparable(record: dict[str, Any]) -> str:
    """A record without its words, which an import finds again where a memory has none."""
    if "short" in record:
        record["short"] = {
            name: value
            for name, value in record["short"].items()
            if name not in ("keywords", "indexedWith")
        }
    return json.dumps(record, ensure_ascii=False, sort_keys=True)
