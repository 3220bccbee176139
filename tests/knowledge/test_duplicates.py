"""Which notes say the same. The pairs were written for this project; none comes from elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.knowledge.differences import difference
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.notes import duplicates
from memory_server.knowledge.notes.duplicates import ALIKE, dice, merged, merges, pairs_among

SAME = [
    ("The API returns errors as problem+json.", "The API returns errors as `problem+json`"),
    (
        "Use a connection pool of 20 for the main database.",
        "Use the connection pool of 20 for the main database",
    ),
    (
        "All timestamps are stored in UTC, as milliseconds.",
        "All timestamps are stored in UTC as milliseconds",
    ),
    (
        "Deploys happen on Tuesday after the stand-up.",
        "Deploys happen on Tuesday, after the standup",
    ),
    ("The worker retries a failed job three times.", "The workers retry a failed job three times."),
    (
        "Logs go to standard error as one JSON object a line.",
        "The logs go to standard error, as one JSON object a line",
    ),
    (
        "Feature flags live in flags.toml and are read at start.",
        "Feature flags live in flags.toml, and are read at start!",
    ),
    (
        "We use rustfmt with the default settings in every crate.",
        "We use rustfmt with default settings in every crate",
    ),
    (
        "Migrations run before the new version starts to serve.",
        "Migrations are run before the new version starts to serve",
    ),
    ("数据库连接池最多二十个连接。", "數據庫連接池最多二十個連接"),
    ("错误统一用 anyhow 处理，不要 unwrap。", "错误统一用 anyhow 来处理，不要 unwrap"),
    ("支付网关的超时时间是三十秒，重试三次。", "支付网关超时时间是三十秒，重试三次"),
    ("小明负责前端，小雪负责后端的部署。", "小明負責前端，小雪負責後端的部署"),
    ("发布前先跑全部测试，再打标签。", "发布前先跑全部测试，再打标签！"),
    ("日志写到标准错误，一行一个 JSON。", "日志要写到标准错误，一行一个 JSON"),
    ("配置从环境变量读取，文件里的值优先级更低。", "配置从环境变量读取；文件里的值，优先级更低。"),
    ("エラー処理はすべて anyhow で行います。", "エラー処理は全て anyhow で行います"),
    ("データベースの移行は夜に行う。", "データベースの移行は、夜に行う"),
    ("テストは毎回すべて実行してから出す。", "テストは毎回、すべて実行してから出す。"),
    ("서버는 로그를 파일에 저장한다.", "서버는 로그를 파일에 저장한다"),
    (
        "Caching: responses are cached for an hour in Redis.",
        "Caching: responses are cached for an hour in Redis, by key.",
    ),
]
"""Pairs that say the same: other punctuation, script, small words, or a few words more."""

OTHER = [
    ("The server listens on port 8080.", "The server listens on port 8081."),
    ("Tokens expire after 15 minutes.", "Tokens expire after 30 minutes."),
    ("The pool holds at most 20 connections.", "The pool holds at most 200 connections."),
    ("We pin the client to v1.2.3 for now.", "We pin the client to v1.2.4 for now."),
    ("Retries are allowed for payment calls.", "Retries are not allowed for payment calls."),
    ("Use transactions in the import job.", "Never use transactions in the import job."),
    ("The cache works with TLS.", "The cache works without TLS."),
    ("The hook doesn't block the user.", "The hook does block the user."),
    ("Ask Anna before you change the schema.", "Ask Hanna before you change the schema."),
    ("The mobile client sends the signature.", "The mobile server sends the signature."),
    ("The primary region is eu-west.", "The primary region is us-west."),
    ("Turn the flag on before the migration.", "Turn the flag off before the migration."),
    ("Run the linter before the tests.", "Run the linter after the tests."),
    ("Backups are kept for a week in staging.", "Backups are kept for a month in staging."),
    ("The client waits for the server to answer.", "The server waits for the client to answer."),
    ("Log in with the admin account first.", "Log out with the admin account first."),
    ("Errors and warnings are sent to the channel.", "Errors or warnings are sent to the channel."),
    ("服务监听 8080 端口。", "服务监听 8081 端口。"),
    ("生产环境允许直接改数据库。", "生产环境不允许直接改数据库。"),
    ("会议每周二上午开，小明主持。", "会议每周三上午开，小明主持。"),
    ("订单服务由小明负责维护和发布。", "订单服务由小红负责维护和发布。"),
    ("按钮放在页面的左边，颜色是蓝色。", "按钮放在页面的右边，颜色是蓝色。"),
    ("先写缓存，再写数据库，顺序很重要。", "先写数据库，再写缓存，顺序很重要。"),
    ("超时时间是三十秒，重试三次。", "超时时间是六十秒，重试三次。"),
    ("这个接口有缓存，可以多次调用。", "这个接口无缓存，可以多次调用。"),
    ("本番では自動で再起動する。", "本番では自動で再起動しない。"),
    ("The offset of the logs is +5 hours.", "The offset of the logs is -5 hours."),
    ("Check it with == in the parser.", "Check it with != in the parser."),
    ("Stop when the queue is < 5 items.", "Stop when the queue is > 5 items."),
    ("The parser is written in C++ by Anna.", "The parser is written in C# by Anna."),
    ("The parser is written in C++ by Anna.", "The parser is written in C by Anna."),
    ("Arrows are written as -> in the code.", "Arrows are written as => in the code."),
    ("The plan costs $20 a month for each seat.", "The plan costs €20 a month for each seat."),
    ("The hour of the job is * in crontab.", "The hour of the job is ? in crontab."),
    ("Deploys on Friday afternoon: ✅", "Deploys on Friday afternoon: ❌"),
    ("小雪说发布很顺利😀", "小雪说发布很顺利😭"),
    ("时区的偏移是+5小时。", "时区的偏移是-5小时。"),
    ("The settings are in .env of the root.", "The settings are in env of the root."),
    ("この設定は必要です、必ず書きます。", "この設定は必要ありません、必ず書きません。"),
    ("バックアップは東京に置く。", "バックアップは大阪に置く。"),
]
"""Pairs that only look alike: another number, negation, name, side, order, sign, or one word."""


def entry(number: int, body: str, **fields: object) -> Entry:
    note = Entry(
        body,
        id=number,
        ref=str(number),
        kind="tech",
        title="t",
        updated_ms=number,
        created_ms=number,
        version=1,
    )
    return replace(note, **fields)  # type: ignore[arg-type]


def says_the_same(first: str, second: str) -> bool:
    return dice(first, second) >= ALIKE and not difference(first, second)


def test_nine_of_ten_reworded_pairs_are_found() -> None:
    missed = [
        (pair, round(dice(*pair), 2), difference(*pair))
        for pair in SAME
        if not says_the_same(*pair)
    ]
    assert len(missed) <= len(SAME) / 10, missed


@pytest.mark.parametrize("pair", OTHER)
def test_a_pair_with_another_fact_is_kept_apart(pair: tuple[str, str]) -> None:
    assert not says_the_same(*pair)
    assert not says_the_same(*reversed(pair))


def test_pairs_are_found_among_many_and_only_within_a_kind_and_project() -> None:
    notes = [entry(number, text) for number, text in enumerate(chain(*SAME, *OTHER), 1)]
    pairs = {(pair.older.id, pair.newer.id) for pair in pairs_among(notes)}
    expected = set()
    for older, newer in combinations(notes, 2):
        if dice(f"t\n{older.body}", f"t\n{newer.body}") >= ALIKE:
            expected.add((older.id, newer.id))
    assert pairs == expected
    apart = [
        entry(1, SAME[0][0]),
        entry(2, SAME[0][1], kind="domain"),
        entry(3, SAME[0][1], project="p"),
    ]
    assert pairs_among(apart) == []


def test_all_that_say_the_same_are_found_among_many_of_one_form() -> None:
    rng = Random(7)
    added = ("", ".", " Ask Anna before you change it.", " It is small, by the way.")
    for _round in range(3):
        bodies = [
            f"The service {rng.choice('ABC')}-{rng.randint(1, 9)} in {rng.choice(('Oslo', 'Lima'))} "
            f"has {rng.choice(('the', 'a'))} pool of {rng.randint(1, 3)} connections for its database"
            + rng.choice(added)
            for _note in range(60)
        ]
        notes = [entry(number, body) for number, body in enumerate(bodies, 1)]
        same = {
            (older.id, newer.id)
            for older, newer in combinations(notes, 2)
            if says_the_same(f"t\n{older.body}", f"t\n{newer.body}")
        }
        found = {(pair.older.id, pair.newer.id) for pair in pairs_among(notes) if not pair.differs}
        assert found == same != set()


@pytest.mark.parametrize("form", ["The port of service {n} is {m}.", "服务{n}的端口是{m}。"])
def test_the_comparisons_of_notes_of_one_form_grow_with_their_number(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def counted_difference(left: str, right: str) -> str:
        nonlocal compared
        compared += 1
        return difference(left, right)

    def counted_dice(left: Counter[str], right: Counter[str]) -> float:
        nonlocal compared
        compared += 1
        return counted_of(left, right)

    counted_of = duplicates._dice
    monkeypatch.setattr(duplicates, "_dice", counted_dice)
    monkeypatch.setattr(duplicates, "difference", counted_difference)
    work: list[int] = []
    for count in (150, 300):
        compared = 0
        pairs_among(
            [entry(n, form.format(n=n, m=1024 + n * 7919 % 60_000)) for n in range(1, count + 1)]
        )
        work.append(compared)
    assert 0 < work[1] <= 2.3 * work[0]


def test_many_equal_notes_become_one_with_what_says_the_same() -> None:
    older, newer = SAME[0]
    notes = [entry(number, older if number % 2 else newer) for number in range(1, 201)]
    pairs = pairs_among(notes)
    assert len(pairs) < 210
    assert len(merges(pairs, 9)) == 199


def test_what_looks_alike_is_listed_with_the_fact_that_differs() -> None:
    (pair,) = pairs_among([entry(1, OTHER[0][0]), entry(2, OTHER[0][1])])
    assert pair.differs == "8080 against 8081"


def test_a_merge_unites_both() -> None:
    older = entry(
        1, "line one\nThe port is 8080.", tags=("a",), examples=("x",), uses=2, confidence=0.5
    )
    newer = entry(2, "Line one.\nThe port is 8081.", tags=("b", "a"), examples=("y", "x"), uses=3)
    merged_note = merged(older, newer)
    assert merged_note.body == "Line one.\nThe port is 8081.\nThe port is 8080."
    assert merged_note.uses == 5
    assert merged_note.confidence == 0.75
    assert merged_note.tags == ("b", "a")
    assert merged_note.examples == ("y", "x")
    assert merged_note.id == 2
    assert merged_note.created_ms == 1
    assert merged_note.title == "t"


def test_three_of_one_become_one() -> None:
    notes = [
        entry(number, text)
        for number, text in enumerate([SAME[0][0], SAME[0][1], SAME[0][0] + "!"], 1)
    ]
    performed = merges([pair for pair in pairs_among(notes) if not pair.differs], 9)
    removed = {entry.id for _, _, entry in performed}
    assert len(removed) == 2
    assert len(performed) == 2


def test_a_merge_keeps_a_fact_of_one_line_and_the_title() -> None:
    older = entry(
        1, "The pool has 20 connections and a timeout of 30 seconds.", title="pools", source="PR 1"
    )
    newer = entry(2, "The pool has 20 connections and a timeout.", title="pool", source="PR 2")
    merged_note = merged(older, newer)
    assert merged_note.body.splitlines() == [newer.body, "pools", older.body]
    assert merged_note.title == "pool"
    assert merged_note.source == "PR 2; PR 1"
    assert merged(merged_note, newer).source == "PR 2; PR 1"


def test_very_long_texts_are_compared_too_and_their_first_difference_is_told() -> None:
    text = "甲乙" * 20_000
    other_text = "乙丙甲" * 13_000
    assert difference(text, other_text) == "甲 against 乙"
    assert difference(text, text[:-1] + "丁") == "乙 against 丁"


WORDS = [
    "we",
    "use",
    "a",
    "b",
    "pool",
    "of",
    "20",
    "30",
    "in",
    "at",
    "the",
    "server",
    "C",
    "not",
    "never",
    "连",
    "接",
    "池",
    "不",
    "超",
    "时",
    "サーバー",
]
SIGNS = [
    "+",
    "-",
    "==",
    "!=",
    "<",
    ">",
    "++",
    "#",
    "->",
    "=>",
    "$",
    "€",
    "*",
    "?",
    "✅",
    "❌",
    "😀",
    "😭",
    ".",
    ",",
    ":",
    ";",
    "!",
    "_",
    "/",
    "%",
    "。",
    "、",
    "`",
]


def edited(rng: Random, tokens: list[str]) -> list[str]:
    """The tokens with one to three of them replaced, removed, added or put elsewhere, or with a line or an article."""
    tokens = list(tokens)
    ways = rng.choice(((0, 1, 2, 3), (4, 5), (4, 5)))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens))
        new = rng.choice([*WORDS, *SIGNS, "\n", "Pool", "servers"])
        match rng.choice(ways):
            case 4:
                tokens += ["\n", new, rng.choice(WORDS)]
            case 5:
                tokens.insert(at, rng.choice((" the ", " is ", "的")))
            case 0:
                tokens[at] = new
            case 1 if len(tokens) > 2:
                del tokens[at]
            case 2:
                tokens.insert(at, new)
            case _:
                tokens.insert(rng.randrange(len(tokens)), tokens.pop(at))
    return tokens


def random_note(rng: Random, number: int, tokens: list[str], title: str) -> Entry:
    body = "".join(token + rng.choice(["", " ", " ", " "]) for token in tokens)
    return entry(number, body if body.strip() else "x", title=title, updated_ms=rng.randrange(9))


def parts(line: str) -> list[str]:
    """Its words and signs. The case of the first letter of a line says nothing."""
    line = line.strip()
    return re.findall(r"\w+|[^\w\s]", line[:1].lower() + line[1:])


def lines_of(note: Entry) -> list[str]:
    return [note.title, *note.body.splitlines()]


def is_in(line: str, longer: str) -> bool:
    """Whether a line has the words and signs of another one, in their order."""
    remaining = iter(parts(longer))
    return all(part in remaining for part in parts(line))


def random_notes(rng: Random) -> list[Entry]:
    """Two or three notes of which one is an edited form of the other."""
    tokens = [rng.choice([*WORDS, *WORDS, *SIGNS, "\n"]) for _ in range(rng.randint(5, 40))]
    versions = [tokens, edited(rng, tokens)]
    if rng.random() < 0.2:
        versions.append(edited(rng, tokens))
    titles = [rng.choice(["pool", "pool", "Pool", "pool!", "C++ pool"]) for _ in versions]
    numbered = enumerate(zip(versions, titles, strict=True), 1)
    return [random_note(rng, number, version, title) for number, (version, title) in numbered]


def merges_of_random_notes(count: int) -> int:
    rng = Random(5)
    merge_count = 0
    for _ in range(count):
        notes = random_notes(rng)
        performed = merges(pairs_among(notes), 9)
        remaining = {note.id: note for note in notes}
        for _, merged_note, removed in performed:
            remaining[merged_note.id] = merged_note
            del remaining[removed.id]
        remaining_lines = list(chain.from_iterable(map(lines_of, remaining.values())))
        for line in chain.from_iterable(map(lines_of, notes)):
            assert any(is_in(line, remaining_line) for remaining_line in remaining_lines), line
        merge_count += len(performed)
    return merge_count


def test_no_word_or_sign_of_a_note_is_lost_by_a_merge() -> None:
    assert merges_of_random_notes(300) > 10


@pytest.mark.full
def test_no_word_or_sign_of_a_note_is_lost_by_a_merge_of_very_many() -> None:
    assert merges_of_random_notes(2_000) > 100


LINES = st.lists(
    st.text(st.sampled_from("ab18不没 ,+-\n"), min_size=1, max_size=20), min_size=1, max_size=5
)


@given(LINES, LINES)
def test_a_merge_keeps_every_line_of_both(older_lines: list[str], newer_lines: list[str]) -> None:
    older = entry(1, "\n".join(older_lines))
    newer = entry(2, "\n".join(newer_lines))
    merged_lines = merged(older, newer).body.splitlines()
    assert (
        merged_lines[: len(newer.body.rstrip("\n").splitlines())]
        == newer.body.rstrip("\n").splitlines()
    )
    for line in older.body.splitlines():
        assert not line.strip() or any(is_in(line, merged_line) for merged_line in merged_lines)


@given(st.text(max_size=80), st.text(max_size=80))
def test_likeness_is_symmetric_and_bounded(first: str, second: str) -> None:
    assert 0 <= dice(first, second) == dice(second, first) <= 1
    assert dice(first, first) == 1
    assert difference(first, first) == ""
    assert (
        bool(difference(first, second)) == bool(difference(second, first))
        or dice(first, second) < ALIKE
    )
