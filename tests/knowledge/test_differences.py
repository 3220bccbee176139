"""What makes two texts say something else, in English and Chinese. The pairs were written for this project."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_server.knowledge.differences import difference, same_words
from memory_server.knowledge.notes.duplicates import ALIKE, dice

FRAMES = (
    "Customers in the northern region always get {} as soon as the yearly contract is renewed.",
    "北方地区的客户每次续签年度合同以后都会收到{}，南方地区的客户也是一样。",
)

APART_ENGLISH = [
    ("plan A", "plan B"),
    ("plan a", "plan b"),
    ("plan A", "plan"),
    ("plan a", "plan"),
    ("vitamin A", "vitamin D"),
    ("type I", "type II"),
    ("type I", "type"),
    ("department IT", "department HR"),
    ("help from IT", "help from it"),
    ("Mr Will", "Mr Hill"),
    ("calls from Will", "calls from Bill"),
    ("a visit to Turkey", "a visit to turkey"),
    ("servers in the US", "servers in the us"),
    ("albums of The Who", "albums of Who"),
    ("records of The Band", "records of the band"),
    ("http://x.y/a", "http://x.y/b"),
    ("http://x.y/a", "http://x.y/"),
    ("http://x.y/the", "http://x.y/it"),
    ("http://x.y", "https://x.y"),
    ("release 1.0", "release 1.0 beta"),
    ("release 1.0", "release 1.0.1"),
    ("Python", "Python 2"),
    ("5 m²", "5 m"),
    ("5 m²", "5 m³"),
    ("10² units", "102 units"),
    ("2ⁿ units", "2n units"),
    ("1½ units", "11/2 units"),
    ("5 mW", "5 MW"),
    ("10 Mb", "10 MB"),
    ("grade A", "grade E"),
    ("option is", "option be"),
    ("class Be", "class Is"),
    ("a few users", "few users"),
    ("our database", "their database"),
    ("my account", "your account"),
    ("this server", "that server"),
    ("what he wrote", "what she wrote"),
    ("it because I deploy", "it because you deploy"),
    ("a list of users", "a list for users"),
    ("just the report", "also the report"),
    ("what it was", "what it is"),
    ("what it does", "what it did"),
    ("the file config.toml", "the file Config.toml"),
    ("the file ../a", "the file ./a"),
    ("the column user_id", "the column users_id"),
    ("tests before builds", "builds before tests"),
    ("Anna and Ben for Carl", "Carl and Ben for Anna"),
    ("port 80 for web and 443 for mail", "port 443 for web and 80 for mail"),
    ("the test server", "the server"),
    ("almost all reports", "all reports"),
    ("the old key", "the new key"),
    ("reports by mail", "reports by post"),
    ("a cached copy", "a copy"),
    ("año nuevo", "ano nuevo"),
    ("the key from .env", "the key from env"),
    ("the flag -a", "the flag -the"),
]
"""Ends of sentences; whatever stands around them, each of the two says something else."""

APART_CHINESE = [
    ("方案A", "方案B"),
    ("方案 A", "方案"),
    ("维生素A", "维生素D"),
    ("甲型报告", "乙型报告"),
    ("先测试后部署的结果", "先部署后测试的结果"),
    ("小明给小红的信", "小红给小明的信"),
    ("由北京转到上海的货", "由上海转到北京的货"),
    ("我负责的部分", "你负责的部分"),
    ("我们的账号", "你们的账号"),
    ("这台服务器", "那台服务器"),
    ("其他报告", "其中报告"),
    ("他的报告", "她的报告"),
    ("该做的事", "就做的事"),
    ("将来的计划", "本来的计划"),
    ("把手", "手"),
    ("地铁票", "铁票"),
    ("王之涣的诗", "王涣的诗"),
    ("很快的回复", "也快的回复"),
    ("已付的款", "未付的款"),
    ("可用的券", "不可用的券"),
    ("全部报告", "几乎全部报告"),
    ("旧密钥", "新密钥"),
    ("测试服务器", "服务器"),
    ("1.0版", "1.0测试版"),
    ("5平方米的房", "5米的房"),
    ("5 m²的房", "5 m的房"),
    ("八折券", "七折券"),
    ("左边的票", "右边的票"),
    ("周三的报告", "周二的报告"),
    ("每周三的报告", "周三的报告"),
    ("去上海的票", "来上海的票"),
    ("http://x.y/a 的信", "http://x.y/b 的信"),
    ("IT 部的信", "HR 部的信"),
    ("IT 的信", "it 的信"),
    ("李会的信", "李惠的信"),
    ("报告吗", "报告呢"),
]

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
        "Logs go to standard error as one object a line.",
        "The logs go to standard error, as one object a line",
    ),
    (
        "Flags live in flags.toml and are read at start.",
        "Flags live in flags.toml, and are read at start!",
    ),
    (
        "We use rustfmt with the default settings everywhere.",
        "We use rustfmt with default settings everywhere",
    ),
    (
        "Migrations run before the new version serves.",
        "Migrations are run before the new version serves",
    ),
    ("The pool is shared by all tenants.", "Pool is shared by all the tenants."),
    ("A queue keeps the jobs in their order.", "The queue keeps the jobs in their order"),
    ("Backups are kept for a week in the vault.", "Backups kept for a week in the vault."),
    ("Ask the owner (Anna) before a release.", "Ask the owner (Anna) before the release!"),
    ("Names: use nouns, and keep them short.", "Names; use nouns and keep them short"),
    ("“The cache is cold after a restart.”", "The cache is cold after a restart."),
    (
        "The cache lives in Redis and is shared.",
        "The cache lives in Redis, and is shared, by key name.",
    ),
    (
        "The pool has 20 connections and a timeout.",
        "The pool has 20 connections and a timeout of 30 seconds.",
    ),
    ("数据库连接池最多二十个连接。", "數據庫連接池最多二十個連接"),
    ("错误统一用 anyhow 处理，不要 unwrap。", "错误统一用 anyhow 来处理，不要 unwrap"),
    ("支付网关的超时时间是三十秒，重试三次。", "支付网关超时时间是三十秒，重试三次"),
    ("小明负责前端，小雪负责后端的部署。", "小明負責前端，小雪負責後端的部署"),
    ("发布前先跑全部测试，再打标签。", "发布前先跑全部测试，再打标签！"),
    ("配置从环境变量读取，文件里的值优先级更低。", "配置从环境变量读取；文件里的值，优先级更低。"),
    ("端口ＡＢＣ从八千号开始分配。", "端口ABC从八千号开始分配"),
    ("灰度发布完成了，全部流量切到新版本。", "灰度发布完成，全部流量切到新版本。"),
    ("接口的返回值统一是驼峰命名，时间统一是毫秒。", "接口返回值统一是驼峰命名，时间统一是毫秒呢"),
    (
        "缓存放在内存里，所有节点共享这份数据，定期刷新。",
        "缓存放在内存里，所有节点共享这份数据，定期刷新。每天。",
    ),
    ("データベースの移行は夜に行う。", "データベースの移行は、夜に行う"),
    ("テストは毎回すべて実行してから出す。", "テストは毎回、すべて実行してから出す。"),
    ("서버는 로그를 파일에 저장한다.", "서버는 로그를 파일에 저장한다"),
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("pair", APART_ENGLISH + APART_CHINESE)
def test_what_says_something_else_is_kept_apart_in_any_sentence(
    pair: tuple[str, str], frame: str
) -> None:
    first, second = map(frame.format, pair)
    assert difference(first, second)
    assert difference(second, first)
    assert not same_words(first, second)


@pytest.mark.parametrize("pair", APART_ENGLISH + APART_CHINESE)
def test_topics_that_say_something_else_are_kept_apart(pair: tuple[str, str]) -> None:
    assert difference(*pair)


@pytest.mark.parametrize("pair", SAME)
def test_what_differs_in_nothing_or_says_a_sentence_more_is_the_same(pair: tuple[str, str]) -> None:
    first, second = pair
    assert dice(first, second) >= ALIKE
    assert difference(first, second) == ""
    assert difference(second, first) == ""


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Retries are allowed.", "Retries are allowed, unless it is a payment."),
        ("Retries are allowed for users.", "Retries are allowed for users except in the weekend."),
        ("订单可以取消。", "订单可以取消，除非已经发货。"),
        ("Retry policy", "Retry policy of payments"),
    ],
)
def test_a_part_that_limits_a_sentence_or_a_topic_is_a_difference(text: str, more: str) -> None:
    assert difference(text, more)
    assert difference(more, text)


def test_a_whole_sentence_or_line_more_is_no_difference_wherever_it_stands() -> None:
    text = "use a pool\nThe pool has 20 connections. It is shared by all."
    for more in (
        "use a pool\nThe pool has 20 connections. The pool is in Redis. It is shared by all.",
        "use a pool\nThe pool has 20 connections. It is shared by all.\n- See the plan of Anna.",
        "use a pool\nThe plan is new.\nThe pool has 20 connections. It is shared by all.",
    ):
        assert difference(text, more) == ""
        assert difference(more, text) == ""


def test_the_difference_is_told_in_the_words_of_the_texts() -> None:
    assert difference("use plan A", "use plan B") == "A against B"
    assert difference("release 1.0 is out", "release 1.0 beta is out") == "(no words) against beta"
    assert difference("先测试后部署", "先部署后测试") == "another order of the words"


WORDS = (
    "pool",
    "server",
    "Anna",
    "IT",
    "it",
    "will",
    "Will",
    "I",
    "you",
    "they",
    "was",
    "连",
    "接",
    "池",
    "之",
    "地",
    "我",
)


@given(st.lists(st.sampled_from(WORDS), min_size=3, max_size=5))
def test_another_order_of_words_is_another_meaning(words: list[str]) -> None:
    for reordered in permutations(words):
        assert bool(difference(f"x {' '.join(words)} y", f"x {' '.join(reordered)} y")) == (
            list(reordered) != words
        )


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=8), st.data())
def test_another_word_in_its_place_is_another_meaning(
    words: list[str], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(words) - 1))
    new_word = data.draw(st.sampled_from(WORDS))
    assume(new_word != words[position])
    changed = [*words[:position], new_word, *words[position + 1 :]]
    assert difference(f"x {' '.join(words)} y", f"x {' '.join(changed)} y")


@given(
    st.lists(st.sampled_from((*WORDS, "the", "of", "only", ".", ",", "\n", "20")), max_size=12),
    st.data(),
)
def test_a_difference_is_one_from_both_sides(words: list[str], data: st.DataObject) -> None:
    remaining = [word for word in words if data.draw(st.booleans())]
    text = " ".join(words)
    shorter_text = " ".join(remaining)
    assert bool(difference(text, shorter_text)) == bool(difference(shorter_text, text))
    assert difference(text, text) == ""
