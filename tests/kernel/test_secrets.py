"""Credentials are recognized by their shapes, and nothing else is taken for one.

The samples are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel.secrets import (
    SecretFilter,
    counting_secrets,
    removed_text,
    without_secrets,
)

_RANDOM = Random(59)
HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def chars(count: int, alphabet: str = LETTERS) -> str:
    """Return so many characters, always the same ones in one run of the tests."""
    return "".join(_RANDOM.choice(alphabet) for _ in range(count - 2)) + "a7"


def upper(count: int) -> str:
    return "".join(_RANDOM.choice(UPPER) for _ in range(count))


def pem(kind: str) -> str:
    lines = "\n".join(chars(64) for _ in range(12))
    return "\n".join((f"-----BEGIN {kind}" + "-----", lines, f"-----END {kind}" + "-----"))


def jwt() -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": chars(9)}]
    coded = [b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*coded, chars(43)))


TOKENS = {
    "an AWS key id": ["AKIA" + upper(16), "ASIA" + upper(16), "AKIA" + upper(16)],
    "a Google key": ["AIza" + chars(35), "GOCSPX" + "-" + chars(28), "ya29" + "." + chars(60)],
    "a GitHub token": ["ghp_" + chars(36), "ghs_" + chars(36), "github_pat_" + chars(82)],
    "a GitLab token": ["glpat" + "-" + chars(20), "gldt" + "-" + chars(20), "glrt-" + chars(20)],
    "a Bitbucket token": ["ATBB" + chars(32), "ATCTT3x" + chars(180), "ATATT3x" + chars(180)],
    "an Anthropic key": [
        "sk-ant-api03-" + chars(93),
        "sk-ant-oat01-" + chars(93),
        "sk-ant-" + chars(40),
    ],
    "an API key": ["sk-" + chars(48), "sk-proj-" + chars(120), "sk-" + chars(32, HEX)],
    "a Hugging Face token": ["hf_" + chars(34), "hf_" + chars(37), "api_org_" + chars(34)],
    "a Slack token": [
        "xoxb" + "-123456789012-" + chars(24),
        "xoxp-" + chars(50),
        "xapp-1-" + chars(60),
    ],
    "a Stripe key": ["sk_live_" + chars(24), "rk_test_" + chars(99), "whsec_" + chars(32)],
    "a Twilio key": ["SK" + chars(32, HEX), "AC" + chars(32, HEX), "SK" + chars(32, HEX)],
    "a SendGrid key": [f"SG.{chars(22)}.{chars(43)}" for _ in range(3)],
    "a Mailgun key": ["key-" + chars(32, HEX), f"{chars(32, HEX)}-{chars(8, HEX)}-{chars(8, HEX)}"],
    "an npm token": ["npm_" + chars(36) for _ in range(3)],
    "a PyPI token": ["pypi-AgEIcHlwaS5vcmc" + chars(140) for _ in range(3)],
    "a DigitalOcean token": [f"do{kind}_v1_" + chars(64, HEX) for kind in "por"],
    "a Telegram bot token": [f"{number}:AA" + chars(33) for number in (110201543, 4839574812)],
    "a Discord token": [
        f"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{chars(27)}",
        f"M{chars(25)}.{chars(6)}.{chars(38)}",
    ],
    "an Alibaba Cloud key id": ["LTAI" + chars(20), "LTAI4" + chars(19), "LTAI" + chars(12)],
    "a Tencent Cloud key id": ["AKID" + chars(32), "AKIDz8" + chars(30), "AKID" + chars(36)],
    "a JWT": [jwt(), jwt(), jwt()],
    "a private key": [pem("RSA PRIVATE KEY"), pem("PRIVATE KEY"), pem("PGP PRIVATE KEY BLOCK")],
}
"""Samples that are removed whole, by kind."""
AROUND = [
    "{}",
    "export X={}",
    "我的密钥是{}，别外传",
    'curl -H "X: {}"',
    "first\\n{}\\nlast",
    "({}).",
]

INSIDE = [
    ("an AWS secret key", "aws_secret_access_key = {}", chars(40)),
    ("an AWS secret key", '"SecretAccessKey": "{}"', chars(40)),
    ("a Slack webhook", "https://hooks.slack.com/services/{}", "T0AB12CD3/B0AB12CD3/" + chars(24)),
    ("a Discord webhook", "https://discord.com/api/webhooks/123456789012345678/{}", chars(68)),
    ("an Azure key", "AccountName=a;AccountKey={};EndpointSuffix=core", chars(86) + "=="),
    ("an Azure key", "x.redis.cache.windows.net:6380,password={},ssl=True", chars(44)),
    ("a bearer token", "Authorization: Bearer {}", chars(40)),
    ("a bearer token", "Authorization: Bearer {}", "UmrJAPRMQG-U2IxO32H_fddAEtez3-giiS1L-a_Y"),
    ("a bearer token", "authorization: bearer {}", chars(20)),
    ("a bearer token", "Authorization: token {}", chars(40)),
    ("a bearer token", "authorization: {}", chars(24)),
    ("a login", "Authorization: Basic {}", b64encode(b"joe:s3cret!").decode()),
    ("a password", "postgres://app:{}@db.local:5432/x", "Tr0ub4dor"),
    ("a password", "redis://:{}@cache:6379", chars(12)),
    ("a password", "Server=db;User Id=sa;Password={};Encrypt=yes", "Tr0ub4dor&3"[:9]),
    ("a password", "jdbc:mysql://h/x?user=a&password={}", "Tr0ub4dor"),
    ("a password", "machine api.example.org login joe password {}", "Tr0ub4dor"),
    ("cookies", "Cookie: {}", "sessionid=" + chars(32) + "; theme=dark"),
    ("a password", "host=db user=app password={} dbname=app", "Troubador"),
    ("a password", "root:{}@tcp(127.0.0.1:3306)/app", "Tr0ub4dor"),
    ("a password", "default login joe password {}", "Tr0ub4dor"),
    ("a password", "machine example.org password {} login joe", "Tr0ub4dor"),
    ("a password", "machine a\n login b\n account c\n password {}\n", "Tr0ub4dor"),
    ("a password", "machine a login b password x\n\tdefault login c password {}", "Tr0ub4dor"),
    ("a password", "echo 'default login joe password {}\n' > .netrc", "Tr0ub4dor"),
    ("a password", "echo 'machine a password {} login joe' > .netrc", "Tr0ub4dor"),
    ("cookies", "Set-Cookie: {}", "connect.sid=" + chars(32)),
    ("cookies", "curl --cookie '{}' https://x.org", "connect.sid=" + chars(32)),
    ("cookies", "curl -b {} https://x.org", "PHPSESSID=" + chars(32)),
    ("cookies", "document.cookie = '{}; path=/'", "session_id=" + chars(32)),
    ("cookies", "cookies = {{'{}'}}", "sessionid': '" + chars(32)),
    ("cookies", ".x.org\tTRUE\t/\tTRUE\t0\t{}", "sessionid\t" + chars(32)),
]
"""Sentences around a secret, by kind."""
PAIRS = [
    ("DB_PASSWORD={}", "hunter22"),
    ("password: {}", "hunter22"),
    ('"password": "{}"', "Tr0ub4dor&3"),
    ("db.password = '{}'", "s3cret-pass"),
    ("API_KEY={}", "prod4f9a8b7c6d5e"),
    ("X-Api-Key: {}", "4f9a8b7c6d5e4f3a"),
    ("Config: CLIENT_SECRET={}", "4f9a8b7c6d5e4f3a"),
    ("mysql --password {} -h db", "hunter22"),
    ("ENV DB_PASSWORD {}", "hunter22"),
    ("ADMIN_PASS='{}'", "hunter22"),
    ("passwd: '{}'", "lyXgAWewrS"),
    ("PHPSESSID={}", chars(26)),
    ("ENV ALIBABA_CLOUD_ACCESS_KEY_SECRET {}", "kIJJOLts91hf1HUoY283DsrD01JGRi"),
    ('set client_secret "{}"', "4f9a8b7c6d5e4f3a"),
    ("| SECRET_KEY | {} |", "4f9a8b7c6d5e4f3a"),
    ("<AuthToken>{}</AuthToken>", "4f9a8b7c6d5e4f3a"),
    ("the client_secret is {}", "4f9a8b7c6d5e4f3a"),
    ("aws_session_token = '{}'", chars(700)),
    ("auth_token: '{}'", "pN9izYi.SH4bw6"),
    ("密码：{}", "abc12345"),
    ("数据库口令是{}。", "abc12345"),
    ('{{\\"token\\": \\"{}\\"}}', "4f9a8b7c6d5e4f3a"),
]
"""Pairs of a name and a value."""

HARMLESS = [
    "",
    "I like pizza.",
    "我喜欢披萨，密码忘了，令牌也没有。",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "sha256:" + chars(64, HEX),
    "id 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "data:image/png;base64," + b64encode(bytes(range(256)) * 4).decode(),
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-your-api-key-goes-here-0000000000",
    "ghp_" + "x" * 36,
    "token=<YOUR_TOKEN>",
    "token=$TOKEN and password=${DB_PASSWORD} and %PASSWORD%",
    "password=***",
    "password: ********",
    "postgres://user:password@localhost/db",
    "postgres://user:${PASSWORD}@localhost/db",
    "http://localhost:8080/a@b",
    "sk-spinner-double-bounce-thing-number-1",
    "the class task-list-of-things-that-never-ends-2024",
    "basic understanding of bearer authentication-mechanisms",
    'const password = process.env.DB_PASSWORD2; token: string; "password": "password"',
    "login(user, password=password1, token=token2)",
    'next_page_token: "CAUQAA4f9a8b7c6d5e4f3a"',
    "max_tokens=4096, total token: 128000",
    "password = hash_password2(value)",
    "class Foo(a.module.SomeVeryLongNameOfAClassInAModule): pass",
    "com.example.project.service.implementation.AbstractFactoryBean2",
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + chars(64) + "\n-----END CERTIFICATE-----",
    "Cookie: theme=dark; lang=zh",
    "密码：至少8位，令牌：见文档",
    "user.signingkey = 3AA5C34371567BD2",
    "1Password is **locked**, and the password is **wrong**",
    "password: 'MyPasswordManager'; passwd: UserNameAndPassword",
    "encoding_key = 'Utf8EncoderOfSomething'",
    "the password is at least 8 characters, the token is v1.2.3-beta4",
    "Authorization: see RFC-9110-section-11",
    "cookies = {'theme': 'a-dark-theme-of-1'}; curl -b theme=dark-theme-of-2024",
    "default login for the password dialog",
    "The default password for the router is on its back.",
    "by default password reset is off",
    "set by default\npassword policy",
    "default password admin123",
    "by default login joe password reset42 is off",
    "the machine is password protected42",
    "machine learning password policies, and the machine wants password changes42 account by account",
    "user=joe password=${PASSWORD} host=db",
]


@pytest.mark.parametrize(
    ("kind", "secret"), [(kind, secret) for kind, secrets in TOKENS.items() for secret in secrets]
)
@pytest.mark.parametrize("around", AROUND)
def test_a_key_is_removed_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    cleaned = without_secrets(around.format(secret))
    assert cleaned.found == (kind,)
    assert cleaned.text == around.format(f"[removed: {kind}, {len(secret)} characters]")


@pytest.mark.parametrize(("kind", "around", "secret"), INSIDE)
def test_a_password_is_removed_and_what_is_around_it_stays(
    kind: str, around: str, secret: str
) -> None:
    cleaned = without_secrets(around.format(secret))
    assert cleaned.text == around.format(f"[removed: {kind}, {len(secret)} characters]")


@pytest.mark.parametrize(("around", "secret"), PAIRS)
def test_a_pair_counts_only_where_code_is_spoken_about(around: str, secret: str) -> None:
    text = around.format(secret)
    mark = f"[removed: a secret, {len(secret)} characters]"
    assert without_secrets(text, with_pairs=True).text == around.format(mark)
    assert without_secrets(text).text == text


@pytest.mark.parametrize("text", HARMLESS)
def test_nothing_else_is_taken_for_a_secret(text: str) -> None:
    assert without_secrets(text, with_pairs=True).text == text


def test_a_wifi_password_of_a_companion_stays() -> None:
    text = (
        "The wifi password is: sunshine99, the default password is admin123. 家里的密码：abc12345"
    )
    assert without_secrets(text) == without_secrets(text, with_pairs=False)
    assert without_secrets(text).found == ()


def test_a_key_that_joins_another_one_is_removed_with_it() -> None:
    joined = "".join(TOKENS[kind][0] for kind in ("an AWS key id", "a Telegram bot token"))
    assert sorted(without_secrets(joined).found) == ["a Telegram bot token", "an AWS key id"]


def test_a_key_that_was_cut_off_is_removed() -> None:
    text = pem("OPENSSH PRIVATE KEY").rpartition("\n")[0]
    assert without_secrets(f"{text}\n").found == ("a private key",)


@pytest.mark.parametrize("header", ["", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n"])
@pytest.mark.parametrize("talk", ["Note: mind the gap.", "User: Is it whole?", "Version: 2 is out"])
@pytest.mark.parametrize("line_break", ["\n", "\\n", "\r\n", "\n> "])
def test_the_talk_after_a_key_that_was_cut_off_stays(
    header: str, talk: str, line_break: str
) -> None:
    begin, _, body = pem("RSA PRIVATE KEY").rpartition("\n")[0].partition("\n")
    key = f"{begin}\n{header}{body}".replace("\n", line_break)
    cleaned = without_secrets(f"{key}{line_break}{talk}")
    assert cleaned.found == ("a private key",)
    assert cleaned.text.endswith(f" characters]{talk}")


_ALL = [secret for secrets in TOKENS.values() for secret in secrets]
_ALL += [around.format(secret) for _kind, around, secret in INSIDE]
_ALL += [around.format(secret) for around, secret in PAIRS]


@given(
    st.lists(st.sampled_from([*_ALL, *HARMLESS, " ", "\n", "-", "=", ":", "a", "密码"]) | st.text())
)
def test_a_cleaned_text_has_nothing_left_to_remove(parts: list[str]) -> None:
    cleaned = without_secrets("".join(parts), with_pairs=True)
    assert without_secrets(cleaned.text, with_pairs=True).text == cleaned.text


SHAPES = ["a", "A1", " ", "-", "=", ":", "://a:", "://a:b@", "eyJ", "eyJa.", "ghp_", "sk-a", "sess"]
SHAPES += [
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN A ",
    "cookie: csrf-",
    "Bearer ",
    "password: ",
]
SHAPES += [
    "machine ",
    "--a-b-",
    'password:"',
    "M1aA",
    f"{'0a' * 16}-",
    "是",
    "Private-Lines: 1\n",
    "\ud800",
]
SHAPES += [
    "cookies = {'a=",
    " -b a",
    "TRUE\t1\ta\t",
    "user=a password",
    ":aaa@tcp(",
    "default login a ",
    "default ",
    "\ndefault\t",
    "\n \t",
    "machine a password ",
    "-----BEGIN PRIVATE KEY-----\nHash: a\n",
    "\nHash: ",
    "ENV A ",
    "ENV password a",
    "password is ",
    "password |",
    'token>"',
    "Authorization: a ",
    "Version: a-",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_time_is_linear_in_the_length_of_a_text(shape: str) -> None:
    def seconds(length: int) -> float:
        text = (shape * (length // len(shape) + 1))[:length]
        began = time.process_time()
        for variant in (text, f"cookie: {text}", f"{text}\nghp_{'a1B2c3D4e5' * 4}"):
            without_secrets(variant, with_pairs=True)
        return time.process_time() - began

    # What is quadratic takes five seconds, and what is linear a tenth of one.
    assert seconds(300_000) < 1


def test_a_filter_cleans_all_texts_of_a_value_and_counts_what_it_removes() -> None:
    secret = "ghp_" + chars(36)
    value = {"a": [secret, 1, None], "b": (f"x {secret}",), secret[:3]: {"c": "plain"}}
    with counting_secrets() as kinds:
        cleaned = SecretFilter().of(value)
    assert secret not in json.dumps(cleaned)
    assert cleaned[secret[:3]] == {"c": "plain"}
    assert kinds == ["a GitHub token"] * 2
    assert "2 secrets were removed" in removed_text(len(kinds))
    assert SecretFilter(removes=False).of(value) is value
