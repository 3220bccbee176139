"""Convert JSON texts, ours and other programs', to values and back: strictly and without loss, or as leniently as other
programs write. It also measures the depth and the size of values. Knows no memory and no file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from languages import N_, MessageError, _
from memory_server.kernel import times

Json = dict[str, Any]
Fields = Mapping[str, Any]
"""The fields of an object of JSON or of a row, which are only read."""
TOO_DEEP = N_("it is nested too deeply; take levels out until it has at most {deepest}")


class NotARecord(MessageError, ValueError):
    """A piece of JSON that cannot be read as the record it should be; the message says why."""


def dumps(value: Any) -> bytes:
    """Write `value` as compact UTF-8 JSON on one line; lone surrogates become U+FFFD."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Unknown fields of other programs may hold what orjson refuses: integers over 64 bits, lone surrogates.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return without_surrogates(text).encode()


def loads(data: bytes) -> Any:
    """Return the value of a JSON text, with or without a byte-order mark; lone surrogates become U+FFFD, NaN and infinity
    None. Raise ValueError if it is not UTF-8 or JSON."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return strict_loads(data)
    except ValueError:
        # JavaScript writes what strict JSON refuses, such as lone surrogates.
        value = lenient(data)
        try:
            text = without_surrogates(json.dumps(value, ensure_ascii=False))
            return json.loads(text, parse_constant=lambda _: None)
        except RecursionError as error:
            raise NotARecord(TOO_DEEP, DEEPEST) from error


def without_surrogates(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot carry, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def load_object(data: bytes) -> Json:
    """Return the fields of a JSON object. Raise NotARecord if it is not a JSON object."""
    try:
        fields = loads(data)
    except ValueError as error:
        raise NotARecord("it is not JSON: {reason}", error) from error
    if not isinstance(fields, dict):
        raise NotARecord("it is not a JSON object")
    return fields


def objects_in(value: Any) -> list[Json]:
    """Return the objects of a list; of another value none."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def dump_array(records: Iterable[Json]) -> bytes:
    """Write a JSON array with one record a line: readable, and half the size of an indented array."""
    body = b",\n".join(map(dumps, records))
    if not body:
        return b"[]\n"
    return b"[\n" + body + b"\n]\n"


def load_array(data: bytes) -> list[Json]:
    """Return the records of a JSON array file, none for an empty file. Raise ValueError if it is not a JSON array of
    objects."""
    if not data.strip():
        return []
    records = loads(data)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise NotARecord("it is not a JSON array of objects")
    return records


class OtherLayout(Exception):
    """An array is not laid out with one record a line, as `dump_array` does."""


_BYTES_AT_ONCE = 50_000
"""Bytes of an array that are read in one step, if a record is not longer: they take a third of a millisecond."""


def lines_of_array(data: bytes) -> Iterator[Json]:
    """Yield the records of an array that `dump_array` wrote, which halves the time and the memory. Raise OtherLayout,
    perhaps after some records, if another program wrote it or it is broken; `load_array` tells which."""
    if not (data.startswith(b"[\n") and data.endswith(b"\n]\n")):
        raise OtherLayout

    loads_lines = strict_loads if may_hold_long_integers(data) else orjson.loads
    start = 2
    array_end = len(data) - 3

    # Some lines at once, which takes two thirds of the time of one by one. JSON that is cut within a record cannot be
    # read.
    while start < array_end:
        end = data.find(b",\n", start + _BYTES_AT_ONCE, array_end)
        if end < 0:
            end = array_end
        try:
            records = loads_lines(b"[%b]" % data[start:end])
        except ValueError as error:
            raise OtherLayout from error

        for record in records:
            if not isinstance(record, dict):
                raise OtherLayout
            yield record
        start = end + 2


def milliseconds(value: Any) -> int:
    """Return a time of a record in milliseconds since 1970, from ISO 8601 text (UTC if no zone is given) or from
    milliseconds. Raise NotARecord if it is neither, or before the year 1 or after 9999."""
    try:
        if isinstance(value, str):
            time_ms = times.milliseconds(datetime.fromisoformat(value))
            # A time may be within these years in its own zone, and outside of them in UTC.
            times.moment_of(time_ms)
            return time_ms
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return times.milliseconds(times.EPOCH + timedelta(milliseconds=value))
    except (ValueError, OverflowError) as error:
        raise NotARecord("the time {value!r} is out of range or malformed", value) from error
    raise NotARecord("the time {value!r} is neither ISO 8601 text nor milliseconds", value)


_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""orjson reads an integer of more than 64 bits as the nearest float; such an integer has at least 19 digits. They are
sought in a copy with every digit 0: 10 ms for 15 MB; a regular expression takes longer than the parsing."""


def strict_loads(data: bytes) -> Any:
    """Return the value of a JSON text in UTF-8, with integers of any size as they are. Raise ValueError if it is not
    JSON or not UTF-8, or holds NaN, lone surrogates or a number out of range."""
    value = orjson.loads(data)
    if may_hold_long_integers(data):
        return lenient(data)
    return value


def loads_of_long_object(data: bytes) -> Any:
    """Return the value of `strict_loads` for a long object that orjson wrote. Each item of its lists is read by a call of its
    own, because no other thread runs within a call: 16 MB at once take 0.3 s. Raise ValueError as `strict_loads`."""
    try:
        return _read_object(data.decode("utf-8"))
    except (ValueError, IndexError, RecursionError):
        return strict_loads(data)


def _read_object(text: str) -> dict[str, Any]:
    """Read an object. Raise ValueError or IndexError if it is not an object as orjson writes it."""
    decoder = json.JSONDecoder()
    fields: dict[str, Any] = {}
    position = _after(text, 0, "{")
    while text[position] != "}":
        name, position = decoder.raw_decode(text, position)
        position = _after(text, position, ":")
        if text[position] == "[":
            fields[name], position = _read_list(decoder, text, position)
        else:
            fields[name], position = decoder.raw_decode(text, position)
        if text[position] == ",":
            position += 1
    if position != len(text) - 1:
        raise ValueError(text[position:])
    return fields


def _read_list(decoder: json.JSONDecoder, text: str, position: int) -> tuple[list[Any], int]:
    """Read the list that begins at `position`. Return it with the position after its end."""
    items: list[Any] = []
    position = _after(text, position, "[")
    while text[position] != "]":
        item, position = decoder.raw_decode(text, position)
        items.append(item)
        if text[position] == ",":
            position += 1
    return items, position + 1


def _after(text: str, position: int, mark: str) -> int:
    """Return the position after `mark`. Raise ValueError if another character is at `position`."""
    if text[position] != mark:
        raise ValueError(text[position : position + 1])
    return position + 1


def repeated_name(data: bytes) -> str | None:
    """Return a name that an object in a JSON text has twice, of which `loads` would take the last value, or None. Raise
    ValueError as `lenient`."""
    repeated_names: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _value in pairs)
        repeated_names.extend(name for name, count in counts.items() if count > 1)

    lenient(data, collect)
    if not repeated_names:
        return None
    return repeated_names[0]


def may_hold_long_integers(data: bytes) -> bool:
    """Return whether orjson might change an integer in `data`. It reads all of `data`: call it once for a text of many
    values."""
    return _LONG_NUMBER in data.translate(_ZEROS)


def lenient(data: bytes, object_of: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text by the standard library, which is slower, but accepts the NaN and lone surrogates
    that others write. Raise ValueError if it is not JSON, not UTF-8, or nested too deeply. `object_of` makes an object
    of its pairs."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=object_of)
    except RecursionError as error:
        raise ValueError(_("it is nested too deeply")) from error


# --- depth and size of values ---

DEEPEST = 200
"""The deepest nesting of lists and objects that is accepted, from clients and from files. orjson writes 254 levels, so
an accepted value can also be written, with the levels around it."""
MOST_VALUES = 10_000
"""Values of a request, names included: twice as many as 500 messages with every field have."""


def deeper(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether lists and objects are nested more than `levels` times."""
    containers: list[Any] = []
    if isinstance(value, dict | list):
        containers.append(value)
    for _level in range(levels):
        containers = list(_inner_containers(containers))
        if not containers:
            return False
    return True


def _inner_containers(containers: Iterable[Any]) -> Iterator[Any]:
    """Yield the lists and objects that are directly in these containers."""
    for container in containers:
        values = container.values() if type(container) is dict else container
        for value in values:
            if type(value) is dict or type(value) is list:
                yield value


def crowded(json: bytes) -> bool:
    """Return whether JSON has more than `MOST_VALUES` values, names included. The JSON is not parsed for that: making
    the values is what takes long, 0.8 s for 4 MB of empty lists."""
    if len(json) <= MOST_VALUES or _count_separators(json) <= MOST_VALUES:
        return False
    # Without escapes, each quotation mark begins or ends a string.
    plain = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside_of_strings = b"".join(plain.split(b'"')[::2])
    return _count_separators(outside_of_strings) > MOST_VALUES


def _count_separators(json: bytes) -> int:
    """Count the characters in JSON that a value can follow."""
    return sum(map(json.count, (b",", b":", b"[", b"{")))


def size(value: Any) -> int:
    """Count the characters of all texts in a value, keys included; every other value counts as one."""
    total = 0
    for part in _values(value):
        if isinstance(part, str):
            total += len(part)
        else:
            total += 1
    return total


def _values(value: Any) -> Iterator[Any]:
    """Yield the value itself, and all values and keys in it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
