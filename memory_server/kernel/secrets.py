"""Credentials in texts: how they are recognized, and the mark that replaces them. Pure.

A kind is recognized by its documented shape, which `source` names. A word that merely looks random is not a secret: it
may be a hash, an id or a picture. Pairs of a name and a value (`DB_PASSWORD=…`, `密码：…`) count only where code is spoken
about, because a companion is told a password so that it is remembered.

Each text is cleaned as it comes in, so time matters: a pattern is compiled and tried only where one of its literal
`signs` is in the text. A pattern begins at a sign or at a boundary of words, and takes what it has passed, so that the
time stays linear in the length of any text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from string import ascii_letters, digits
from typing import Any, TypeVar

from languages import n_
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import frozen

T = TypeVar("T")
Check = Callable[[re.Match[str], str], bool]
"""Whether what a pattern found is a secret."""
LEAST_CHARS = 8
"""Characters of the shortest text that can hold a secret."""


@frozen
class RedactedText:
    """A text without its secrets, and the kinds of the removed secrets."""

    text: str
    found: tuple[str, ...] = ()


_removed: ContextVar[list[str] | None] = ContextVar("removed_secrets", default=None)


@contextmanager
def counting_secrets() -> Iterator[list[str]]:
    """Collect the kinds of the secrets that filters remove while a call lasts."""
    kinds: list[str] = []
    token = _removed.set(kinds)
    try:
        yield kinds
    finally:
        _removed.reset(token)


@frozen
class SecretFilter:
    """Removes secrets from what comes in, unless the settings say that they stay."""

    removes: bool = True

    def of(self, value: T, *, with_pairs: bool = False) -> T:
        """Return a value without the secrets of all texts in it, or the value itself if the settings keep secrets.
        `with_pairs` as for `without_secrets`."""
        if not self.removes:
            return value
        kinds = _removed.get()
        if kinds is None:
            kinds = []
        cleaned: T = _value_without(value, with_pairs, kinds)
        return cleaned


def _value_without(value: Any, with_pairs: bool, kinds: list[str]) -> Any:
    """Return a text, a collection or a dataclass without the secrets in it; the same object if a
    dataclass has none. Their kinds are added to `kinds`."""
    if isinstance(value, str):
        cleaned = without_secrets(value, with_pairs=with_pairs)
        kinds += cleaned.found
        return cleaned.text

    if isinstance(value, list | tuple | set | frozenset):
        return type(value)([_value_without(item, with_pairs, kinds) for item in value])
    if isinstance(value, dict):
        return {name: _value_without(item, with_pairs, kinds) for name, item in value.items()}

    changed: dict[str, Any] = {}
    value_class: type = type(value)
    for name in _field_names(value_class):
        former = getattr(value, name)
        if former:
            cleaned_field = _value_without(former, with_pairs, kinds)
            if cleaned_field is not former and cleaned_field != former:
                changed[name] = cleaned_field

    # Most values have no secret, and stay the same object.
    if not changed:
        return value
    return replace(value, **changed)


@cache
def _field_names(value_class: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; another class has none."""
    if not is_dataclass(value_class):
        return ()
    return tuple([field.name for field in fields(value_class)])


def removed_text(count: int) -> str:
    """Return the sentence about so many removed secrets; it is empty without any."""
    if not count:
        return ""
    return n_(
        "{count} secret was removed; `secrets` of the settings can keep such texts.",
        "{count} secrets were removed; `secrets` of the settings can keep such texts.",
        count,
    )


def without_secrets(text: str, *, with_pairs: bool = False) -> RedactedText:
    """Return the text with a mark in the place of each secret. `with_pairs`: pairs of a name and a value count too."""
    if len(text) < LEAST_CHARS:
        return RedactedText(text)
    found: list[str] = []
    kinds: tuple[_Kind, ...] = _SHORT_KINDS
    if _has_long_word(text):
        kinds = _LONG_KINDS + _SHORT_KINDS
    if with_pairs:
        kinds += _PAIRS
    for kind in kinds:
        for sign in kind.signs:
            if sign in text:
                text = _without_kind(kind, text, found)
                break
    return RedactedText(text, tuple(found))


def _without_kind(kind: _Kind, text: str, kinds: list[str]) -> str:
    """Return the text with marks in the place of secrets of a kind, and add its name to `kinds` for each."""
    pieces: list[str] = []
    end = 0
    for match in re.compile(kind.pattern, re.ASCII).finditer(text):
        secret = match[match.lastindex or 0]
        if (kind.is_token and not _is_token(match)) or not kind.check(match, secret):
            continue
        kinds.append(kind.name)
        pieces.append(text[end : match.start(match.lastindex or 0)])
        pieces.append(f"[removed: {kind.name}, {len(secret)} characters]")
        end = match.end(match.lastindex or 0)
    pieces.append(text[end:])
    return "".join(pieces)


_LONG_WORD = b"A" * 16
_WORD_BYTES = bytes(
    65 if (chr(byte).isalnum() and byte < 128) or byte in b"_-" else 32 for byte in range(256)
)


def _has_long_word(text: str) -> bool:
    """Return whether 16 letters, digits, `_` and `-` follow each other. Ten times as fast as a regular expression."""
    return _LONG_WORD in text.encode(errors="replace").translate(_WORD_BYTES)


def _is_token(match: re.Match[str]) -> bool:
    """Return whether a match begins and ends at a boundary of words. A line break that JSON escaped is a boundary."""
    before = match.string[max(0, match.start() - 2) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    if after.isascii() and after.isalnum():
        return False
    is_word = before[-1:].isascii() and before[-1:].isalnum()
    return not is_word or before in ("\\n", "\\r", "\\t")


_PLACEHOLDERS = ("xxxx", "***", "...", "…", "your", "example", "placeholder", "redacted", "<", "{")
_LONG_CHARS = 200
"""Characters from which on a secret has all short words by chance."""


def _is_placeholder(secret: str) -> bool:
    """Return whether a text is a placeholder for a secret, such as `sk-xxxx` or `<YOUR_TOKEN>`."""
    lower_secret = secret.lower()
    return any(part in lower_secret for part in _PLACEHOLDERS)


def _is_real(_match: re.Match[str], secret: str) -> bool:
    """Tell a secret from a placeholder."""
    if len(set(secret)) < 10:
        return False
    return len(secret) >= _LONG_CHARS or not _is_placeholder(secret)


def _has_random_run(match: re.Match[str], secret: str) -> bool:
    """Tell a secret from words with hyphens between them, such as the name of a class in a style sheet."""
    runs: list[str] = re.findall(r"[A-Za-z0-9]{12,}", secret)
    is_random = any(not run.isalpha() and not run.isdecimal() for run in runs)
    return is_random and _is_real(match, secret)


def _has_all_cases(match: re.Match[str], secret: str) -> bool:
    """Tell a secret of three parts from a path of names with dots between them."""
    first_part = secret.partition(".")[0]
    has_digit = any(map(str.isdigit, first_part))
    return has_digit and not first_part.isupper() and _is_real(match, secret)


def _is_login(_match: re.Match[str], secret: str) -> bool:
    """Tell `user:password` in Base64 from a word that follows "basic"."""
    try:
        login = b64decode(secret + "=" * (-len(secret) % 4), validate=True)
        return b":" in login and login.decode().isprintable()
    except ValueError:
        return False


def _is_key_block(_match: re.Match[str], secret: str) -> bool:
    """Tell a key from the lines around one."""
    return len(set(secret)) > 30 and re.search(r"[A-Za-z0-9+/]{32}", secret) is not None


_NO_PASSWORDS = frozenset(
    words_between_commas(
        "pass, passwd, password, passphrase, pw, pwd, secret, token, user, username, mypassword, dbpassword"
    )
)


def _is_password(_match: re.Match[str], secret: str) -> bool:
    """Tell the password of a connection from a variable or a placeholder."""
    if secret[0] in "$%&([" or not set(secret) - set("*x.•-"):
        return False
    return secret.lower().replace("_", "") not in _NO_PASSWORDS and not _is_placeholder(secret)


def _has_session(_match: re.Match[str], secret: str) -> bool:
    """Return whether one of the cookies is that of a session, and not with a placeholder as its value."""
    for cookie in secret.split(";"):
        name, *values = re.split(r"[=:\t]", cookie.lower(), maxsplit=1)
        value = "".join(values).strip(" '\"")
        is_session = any(word in name for word in ("sess", "sid", "auth", "token", "jwt", "csrf"))
        if is_session and len(value) >= 12 and not _is_placeholder(value):
            return True
    return False


_PASSWORD_NAMES = tuple(
    words_between_commas(
        "password, passwd, passphrase, pwd, 密码, 口令, dbpass, adminpass, rootpass, userpass, smtppass, mysqlpass, sshpass"
    )
)
_SECRET_NAMES = tuple(
    words_between_commas(
        "secret, token, credential, credentials, 密钥, 令牌, apikey, accesskey, secretkey, privatekey, signingkey,"
        "encryptionkey, masterkey, accountkey, authkey, licensekey, storagekey, connect.sid, phpsessid, jsessionid,"
        "gitlabsession, laravelsession"
    )
)
_OTHER_NAMES = tuple(
    words_between_commas(
        "user.signingkey, nexttoken, pagetoken, synctoken, continuationtoken, canceltoken, cancellationtoken, bostoken,"
        "eostoken, padtoken, masktoken, stoptoken"
    )
)
"""Names of something else than a secret that end as one does."""
_NAME_CHARS = 30
"""Characters before a value, in which its name is."""
_PATH = r"(?a)[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+|(?:\.{0,2}/|https?:).*"


def _is_value_of_pair(match: re.Match[str], secret: str) -> bool:
    """Return whether `secret` beside a name is a password or key: the name must say so, and the
    value must not look like a word, code, a path or a placeholder."""
    before = match.string[max(0, match.start() - _NAME_CHARS) : match.start("separator")]
    name = before.rstrip(" \t\"'`]\\").replace("_", "").replace("-", "").replace(" ", "").lower()
    is_password = name.endswith(_PASSWORD_NAMES)
    if not is_password and (not name.endswith(_SECRET_NAMES) or name.endswith(_OTHER_NAMES)):
        return False
    is_word = set(secret.strip("*")).isdisjoint("0123456789!@#^*+~")
    if is_word and not (is_password and _changes_often(secret, "aA")):
        return False
    if not _is_password(match, secret):
        return False
    next_char = match.string[match.end() : match.end() + 1]
    if match["quote"] is None:
        if next_char in ("(", "[") or re.fullmatch(_PATH, secret):
            return False
        if next_char in (",", ")") and secret.isidentifier():
            return False
    return is_password or _is_random(match, secret)


def _is_random(match: re.Match[str], secret: str) -> bool:
    return _has_random_run(match, secret) or _changes_often(secret, "aA0")


def _changes_often(secret: str, needed: str) -> bool:
    """Tell a short random value from names such as `Utf8Encoder`: every second character is of another class than the
    one before it, among them the `needed` ones of small letters (a), capitals (A) and digits (0)."""
    classes = secret.translate(_CLASSES)
    changes = sum(former != later for former, later in pairwise(classes))
    return 2 * changes >= len(secret) and set(needed).issubset(classes)


_CLASSES = str.maketrans(ascii_letters + digits, "a" * 26 + "A" * 26 + "0" * 10)


def _is_of_secret(match: re.Match[str], secret: str) -> bool:
    """Tell a secret key from another key."""
    name = match.string[max(0, match.start() - _NAME_CHARS) : match.start()]
    return "secret" in name.lower() and _is_real(match, secret)


@frozen
class _Kind:
    """A kind of credentials. `signs`: literal parts, of which each such text has one. `pattern`: its last group, or
    else all of it, is the secret, unless `check` refuses it. `is_token`: it begins and ends at a boundary of words."""

    name: str
    signs: tuple[str, ...]
    pattern: str
    source: str
    check: Check
    is_token: bool


_GITHUB = "https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github#githubs-token-formats"


def _kind(
    name: str,
    signs: str,
    pattern: str,
    source: str,
    check: Check = _is_real,
    *,
    is_token: bool = True,
) -> _Kind:
    """Return a kind of secrets. `signs`, with blanks between them: only a text that has one is searched."""
    return _Kind(name, tuple(signs.split()), pattern, source, check, is_token)


_LONG_KINDS = (
    # It may follow a letter. Its mark is a boundary of words for the kinds after it.
    _kind(
        "a Telegram bot token",
        ":A",
        r"[0-9](?<![0-9].)[0-9]{4,15}:A[A-Za-z0-9_-]{33,}",
        "https://core.telegram.org/bots/features#botfather",
        is_token=False,
    ),
    _kind(
        "a private key",
        "PRIVATE",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\\[nr]|[\s>])*+(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): [^\r\n\\]{0,200})*+"
        r"(?:\\[nr]|[\s>]|[A-Za-z0-9+/=]{16,})*+)",
        "https://www.rfc-editor.org/rfc/rfc7468",
        _is_key_block,
        is_token=False,
    ),
    _kind(
        "a private key",
        "Private-Lines: AGE-SECRET-KEY-1",
        r"Private-Lines: [0-9]+\s(?:\s|[A-Za-z0-9+/=]{16,})*+|AGE-SECRET-KEY-1[A-Z0-9]{50,}",
        "https://tartarus.org/~simon/putty-snapshots/htmldoc/AppendixC.html",
    ),
    _kind(
        "an AWS key id",
        "AKIA ASIA ABIA ACCA A3T",
        r"A(?:[KSB]IA|CCA|3T[A-Z0-9])[A-Z0-9]{16}",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    _kind(
        "an AWS secret key",
        "ecret ECRET",
        r"[kK](?:ey|EY)[\"']?\s{0,3}[:=]\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html",
        _is_of_secret,
        is_token=False,
    ),
    _kind(
        "a Google key",
        "AIza GOCSPX- ya29.",
        r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,}",
        "https://cloud.google.com/docs/authentication/api-keys",
    ),
    _kind(
        "a GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
        _GITHUB,
    ),
    _kind(
        "a GitLab token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glffct- glsoat- glimt- glagent- gloas- GR1348941",
        r"(?:gl[a-z]{2,5}-|GR1348941)[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-]",
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    _kind(
        "a Bitbucket token",
        "ATBB ATCTT3 ATATT3",
        r"AT(?:BB|[AC]TT3)[A-Za-z0-9_=.-]{23,}[A-Za-z0-9_=-]",
        "https://support.atlassian.com/bitbucket-cloud/docs/access-tokens/",
    ),
    _kind(
        "an Anthropic key",
        "sk-ant-",
        r"sk-ant-[A-Za-z0-9_-]{20,}",
        "https://docs.claude.com/en/api/overview",
    ),
    _kind(
        "an API key",
        "sk- gsk_ xai- pplx- r8_ nvapi-",
        r"(?:sk-|gsk_|xai-|pplx-|r8_|nvapi-)[A-Za-z0-9_-]{20,}",
        "https://platform.openai.com/docs/api-reference/authentication",
        _has_random_run,
    ),
    _kind(
        "a Hugging Face token",
        "hf_ api_org_",
        r"(?:hf|api_org)_[A-Za-z0-9]{30,}",
        "https://huggingface.co/docs/hub/security-tokens",
    ),
    _kind(
        "a Slack token",
        "xox xapp-",
        r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{14,}",
        "https://docs.slack.dev/authentication/tokens",
    ),
    _kind(
        "a Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/[a-z]+/([A-Za-z0-9/_+-]{20,})",
        "https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
    ),
    _kind(
        "a Stripe key",
        "_live_ _test_ _prod_ whsec_",
        r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,}",
        "https://docs.stripe.com/keys",
    ),
    _kind(
        "a Twilio key",
        "SK AC",
        r"(?:SK|AC)[0-9a-fA-F]{32}",
        "https://www.twilio.com/docs/iam/api-keys",
    ),
    _kind(
        "a SendGrid key",
        "SG.",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        "https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys",
    ),
    _kind(
        "a Mailgun key",
        "key-",
        r"(?:pub)?key-[0-9a-f]{32}",
        "https://documentation.mailgun.com/docs/mailgun/user-manual/api-key-mgmt/api-key-mgmt",
    ),
    _kind(
        "a Mailgun key",
        "-",
        r"[0-9a-f](?<![0-9a-f].)[0-9a-f]{31}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9A-Za-z-])",
        "https://documentation.mailgun.com/docs/mailgun/user-manual/api-key-mgmt/api-key-mgmt",
    ),
    _kind(
        "an npm token",
        "npm_",
        r"npm_[A-Za-z0-9]{36,}",
        "https://docs.npmjs.com/about-access-tokens",
    ),
    _kind(
        "a PyPI token",
        "pypi-",
        r"pypi-[A-Za-z0-9_-]{50,}",
        "https://pypi.org/help/#apitoken",
    ),
    _kind(
        "a DigitalOcean token",
        "_v1_",
        r"do[a-z]_v1_[0-9a-f]{64}",
        "https://docs.digitalocean.com/reference/api/create-personal-access-token/",
    ),
    _kind(
        "an Azure key",
        "AccountKey= AccessKey= sig= windows.net:",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})|[?&]sig=([A-Za-z0-9%+/]{40,}=?)"
        r"|windows\.net:[0-9]{2,5},password=([^\s,]{8,200})",
        "https://learn.microsoft.com/en-us/azure/storage/common/storage-configure-connection-string",
        is_token=False,
    ),
    _kind(
        "a Discord token",
        ".",
        r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        "https://discord.com/developers/docs/reference#authentication",
        _has_all_cases,
    ),
    _kind(
        "a Discord webhook",
        "/api/webhooks/",
        r"/api/webhooks/[0-9]{15,}/([A-Za-z0-9_-]{50,})",
        "https://discord.com/developers/docs/resources/webhook",
        is_token=False,
    ),
    _kind(
        "an Alibaba Cloud key id",
        "LTAI",
        r"LTAI[A-Za-z0-9]{12,30}",
        "https://www.alibabacloud.com/help/en/ram/user-guide/create-an-accesskey-pair",
    ),
    _kind(
        "a Tencent Cloud key id",
        "AKID",
        r"AKID[A-Za-z0-9_-]{13,}",
        "https://cloud.tencent.com/document/product/598/40488",
    ),
    _kind(
        "a JWT",
        "eyJ",
        r"eyJ(?:(?<![A-Za-z0-9_-]eyJ)|(?<=\\[nrt]eyJ))[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}",
        "https://www.rfc-editor.org/rfc/rfc7519",
    ),
)
"""The kinds that have a long word."""
_SHORT_KINDS = (
    _kind(
        "a bearer token",
        "earer EARER",
        r"[bB](?:earer|EARER)\s{1,3}([A-Za-z0-9._~+/-]{16,}=*)",
        "https://www.rfc-editor.org/rfc/rfc6750",
        _is_random,
    ),
    _kind(
        "a bearer token",
        "uthorization: UTHORIZATION:",
        r"[aA](?:uthorization|UTHORIZATION): {0,3}(?:[A-Za-z-]{3,20} {1,3})?([A-Za-z0-9._~+/-]{16,}=*)",
        "https://www.rfc-editor.org/rfc/rfc9110#section-11.6.2",
        _is_random,
        is_token=False,
    ),
    _kind(
        "a login",
        "asic ASIC",
        r"[bB](?:asic|ASIC)\s{1,3}([A-Za-z0-9+/]{8,}={0,2})",
        "https://www.rfc-editor.org/rfc/rfc7617",
        _is_login,
    ),
    _kind(
        "a password",
        "://",
        r"://[^\s/:@\"'<>]{0,200}+:([^\s/@\"'<>]{3,200}+)@",
        "https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1",
        _is_password,
        is_token=False,
    ),
    _kind(
        "a password",
        "assword ASSWORD pwd= Pwd= PWD=",
        r"(?:[;?&]|\b(?:user|host|hostaddr|port|dbname)=[^\s;&]{1,100}\s)\s{0,3}(?i:password|passwd|pwd)\s{0,3}=\s{0,3}"
        r"([^\s;&\"'<>]{1,200})",
        "https://learn.microsoft.com/en-us/dotnet/framework/data/adonet/connection-string-syntax",
        _is_password,
        is_token=False,
    ),
    _kind(
        "a password",
        "@tcp( @unix(",
        r":([^\s:/@\"'<>]{3,100})@(?:tcp|unix)\(",
        "https://github.com/go-sql-driver/mysql#dsn-data-source-name",
        _is_password,
        is_token=False,
    ),
    _kind(
        "a password",
        "machine default",
        r"(?:machine\s++\S++|(?:(?m:^)|[\"'])[ \t]{0,8}default)(?:\s++(?:login|account)\s++\S++){1,2}+"
        r"\s++password\s++([^\s\[]\S*+)"
        r"|(?:(?m:^)|[\"'])[ \t]{0,8}machine\s++\S++\s++password\s++([^\s\[]\S*+)\s++(?:login|account)\s",
        "https://www.gnu.org/software/inetutils/manual/html_node/The-_002enetrc-file.html",
        _is_password,
        is_token=False,
    ),
    _kind(
        "cookies",
        'ookie: OOKIE: ookie":',
        r"[cC](?:ookie|OOKIE)[\"']?: {0,3}[\"']?([^\r\n\"'\\]*+)",
        "https://www.rfc-editor.org/rfc/rfc6265",
        _has_session,
        is_token=False,
    ),
    _kind(
        "cookies",
        "cookie -b",
        r"(?:\bcookies? {0,3}=|\.cookie {0,3}=|--cookie[ =]|\s-b) {0,3}[{\"']{0,3}"
        r"([\w.%-]{1,60}[\"']?\s{0,2}[=:]\s{0,2}[\"']?[^\s\"'\\};]{12,400})",
        "https://curl.se/docs/manpage.html",
        _has_session,
        is_token=False,
    ),
    _kind(
        "cookies",
        "TRUE\t FALSE\t",
        r"(?:TRUE|FALSE)\t[0-9]{1,15}\t([\w.%-]{1,60}\t\S{12,400})",
        "https://curl.se/docs/http-cookies.html",
        _has_session,
        is_token=False,
    ),
)
_VALUE = (
    r"(?:(?P<quote>\\?[\"'`])([^\"'`\s\\]{6,2000})(?P=quote)"
    r"|([!#$%&*+./0-9?@A-Z^_a-z|~-]{6,2000}(?:={1,2}(?![A-Za-z0-9]))?))"
)
_PAIRS = (
    _kind(
        "a secret",
        ": = ： 是 为 is | >",
        rf"(?P<separator>[:=：是为>]|(?<=\w )is(?= )|(?<= )\|)[=>]?\s{{0,3}}{_VALUE}",
        "https://docs.docker.com/compose/how-tos/environment-variables/set-environment-variables/",
        _is_value_of_pair,
        is_token=False,
    ),
    _kind(
        "a secret",
        "ENV set -e",
        rf"(?:\bENV|\bsetx?|-e) {{1,3}}[A-Za-z_]{{3,60}}(?P<separator> ) {{0,3}}{_VALUE}",
        "https://docs.docker.com/reference/dockerfile/#env",
        _is_value_of_pair,
        is_token=False,
    ),
    _kind(
        "a secret",
        "--",
        r"--(?:[a-z]{1,12}-){0,2}(?:password|passphrase|token|secret|key)(?P<separator> ) {0,3}"
        + _VALUE,
        "https://curl.se/docs/manpage.html",
        _is_value_of_pair,
        is_token=False,
    ),
)
