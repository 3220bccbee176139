"""`link` and `unlink`: whether this machine uses the memory of a server, and sending there what was remembered here."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from languages import _, counted, n_
from memory_server.app import App
from memory_server.cli.inspection import not_copied
from memory_server.cli.terminal import console, escape, hint
from memory_server.config import Settings
from memory_server.conversations.contents import Contents, contents_of
from memory_server.interchange import own
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, RemoteError
from memory_server.kernel.link import Link, url_of
from memory_server.kernel.streams import complain, confirmed
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Entry
from memory_server.process import linked_server
from memory_server.remote import Remote
from memory_server.storage.data_dir import Home
from memory_server.storage.link_files import Outbox, token_in
from memory_server.storage.repositories import shared_key

_ASK_SECONDS = 15.0
_PORTION_BYTES = 1_000_000
"""Bytes of text that are sent together: other requests of the server wait meanwhile."""
_PORTION_MEMORIES = 200
"""Memories that are sent together."""
_MOST_BYTES = 4 * 1024 * 1024 - 16_384
"""Bytes that the server takes in a request (serving/http/middleware.py), without those around what is sent."""
T = TypeVar("T")


async def link(settings: Settings, flags: Namespace) -> int | None:
    """Link this machine to a server, or with --send give it what was remembered here, or with --retry-refused the turns
    that it refused."""
    if flags.send:
        return await _send(settings, flags)
    if flags.retry_refused:
        return await _retry_refused(settings, dry_run=flags.dry_run)
    settings.refuse_change("link")
    link_typed = _named(flags)
    remote = Remote(link_typed, token_in(link_typed.token_file))
    try:
        me = await remote.ask("/v1/me", seconds=_ASK_SECONDS)
        if not isinstance(me.get("version"), str):
            raise remote.not_ours()
        await _refuse_older(remote)
    finally:
        await remote.aclose()
    home = linked_server.home_of(settings)
    home.link.write(link_typed)
    out = console()
    out.print(
        escape(
            _(
                "Linked to {url} as {name} (version {version}): from now on windows, hooks and commands use its "
                "memory.",
                link_typed.url,
                str(me.get("name") or _("a token without a name")),
                str(me.get("version", "?")),
            )
        )
    )
    _warn_of_turns(me, home)
    linked_server.warn_of_clock(remote)
    hint(
        _(
            "The memories of this machine stay here; `memory-server link --send` sends them to the server."
        )
    )
    return None


def _warn_of_turns(me: Mapping[str, Any], home: Home) -> None:
    """Say why turns of this machine would wait, and which ones were refused before."""
    if "write" not in str(me.get("scopes")):
        complain(
            _(
                "this token is read-only, so the turns of this machine are kept here until the machine has another token"
            )
        )
    elif me.get("read_only") is True:
        complain(
            _(
                "this server is read-only, so the turns of this machine are kept here until `read_only` is off there"
            )
        )
    elif "read_only" not in me:
        complain(
            _(
                "this server is of an older version, so the turns of this machine are kept here until it is updated"
            )
        )
    linked_server.tell_of_refused(home.outbox)


def _named(flags: Namespace) -> Link:
    """The link that was typed. Raises InvalidInput."""
    if flags.url is None or flags.token_file is None:
        raise InvalidInput(
            "Write the server and the file of the token: `memory-server link https://home.example --token-file F`."
        )
    token_file = Path(flags.token_file).expanduser().absolute()
    certificate: str | None = None
    if flags.ca is not None:
        certificate_file = Path(flags.ca).expanduser().absolute()
        if not certificate_file.is_file():
            raise InvalidInput("There is no certificate at {path}.", certificate_file)
        certificate = str(certificate_file)
    return Link(url_of(flags.url), str(token_file), certificate)


async def _refuse_older(remote: Remote) -> None:
    """Raises RemoteError: it does not run commands for other machines."""
    try:
        await remote.ask(
            "/v1/commands/list", {"arguments": ["list", "--limit", "1"]}, seconds=_ASK_SECONDS
        )
    except RemoteError as error:
        if error.kind in ("path", "token") or not error.status:
            raise


async def unlink(settings: Settings, flags: Namespace) -> None:
    """Use the memory of this machine again."""
    home = linked_server.home_of(settings)
    link_before = home.link.read()
    if link_before is None:
        raise InvalidInput(
            "This machine is not linked; `memory-server where` says which memory it uses."
        )
    settings.refuse_change("unlink")
    home.link.remove()
    console().print(
        escape(
            _(
                "This machine uses its own memory again, and no longer that of {url}.",
                link_before.url,
            )
        )
    )
    waiting = len(home.outbox.waiting())
    if waiting:
        complain(
            _(
                "not delivered: {turns}; they are kept here, and sent when this machine is linked again",
                counted(waiting, "turn"),
            )
        )


async def _retry_refused(settings: Settings, *, dry_run: bool) -> int:
    """Let the refused turns wait again, and deliver what waits; 1 if one of them is not delivered."""
    link_here = _link_here(settings)
    outbox = linked_server.home_of(settings).outbox
    numbers = outbox.may_retry()
    out = console()
    if dry_run:
        out.print(
            n_(
                "{count} turn would be sent again.",
                "{count} turns would be sent again.",
                len(numbers),
            )
        )
        return 0
    settings.refuse_change("link --retry-refused")
    _say_what_stays(outbox, len(outbox.refused()) - len(numbers))
    numbers = [number for number in numbers if outbox.retry(number)]
    if not numbers:
        out.print(_("There is no refused turn that could be sent again."))
        return 0
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        delivery = await server.deliver(linked_server.COMMAND_SECONDS)
    finally:
        await server.remote.aclose()
    waiting = len(set(numbers).intersection(outbox.waiting()))
    refused = len(set(numbers).intersection(outbox.may_retry()))
    delivered = len(numbers) - waiting - refused
    turns = counted(len(numbers), "turn")
    out.print(
        _(
            "{turns} sent again: {delivered} delivered, {refused} refused again, {waiting} still waiting.",
            turns,
            delivered,
            refused,
            waiting,
        )
    )
    if delivery.stopped is not None:
        complain(delivery.stopped)
    return int(delivered < len(numbers))


def _say_what_stays(outbox: Outbox, count: int) -> None:
    if count > 0:
        complain(
            n_(
                "{count} file in {folder} holds no turn that can be read, and stays there",
                "{count} files in {folder} hold no turn that can be read, and stay there",
                count,
                outbox.refused_folder,
            )
        )


def _link_here(settings: Settings) -> Link:
    """The link of this machine. Raises InvalidInput: there is none."""
    link_here = linked_server.link_of(settings)
    if link_here is None:
        raise InvalidInput("This machine is not linked; run `memory-server link` first.")
    return link_here


async def _send(settings: Settings, flags: Namespace) -> int:
    """Let the server import what is here: first it only says what would change."""
    link_here = _link_here(settings)
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        parts, sentences = await _written_here(settings)
        texts = [part.text for part in parts if part.bytes_sent <= _MOST_BYTES]
        too_large = len(parts) - len(texts)
        if too_large:
            sentence = _(
                "Not sent, because they are too long for one request: {memories}; move them with `memory-server "
                "export` here and `import` on the server.",
                counted(too_large, "memory"),
            )
            sentences = [*sentences, sentence]
        if not parts:
            raise InvalidInput("This machine has no memories to send.")
        status = await _import_there(server, texts, "--dry-run")
        for sentence in sentences:
            hint(sentence)
        if flags.dry_run or status:
            return status
        without = _("Nothing was sent, because this is not a terminal; add --yes to send it.")
        if not flags.yes and not confirmed(
            _("Send this to {url}?", link_here.url), otherwise=without
        ):
            console().print(_("Nothing was sent."))
            return 0
        status = await _import_there(server, texts)
        return max(status, int(too_large > 0))
    finally:
        await server.end(linked_server.AFTER_SECONDS)


async def _written_here(settings: Settings) -> tuple[list[_Written], list[str]]:
    """What is remembered here, in parts as they are sent, and sentences about what is not in them."""
    async with App.for_one_question(settings) as app:
        conversation_ids = await app.conversations.ids()
        conversations = [contents_of(await app.store.read(name)) for name in conversation_ids]
        entries = await app.knowledge.lifecycle.live(None)
        now_ms = app.clock()
        sentences = await not_copied(app, layers=True)
    parts = [_Written.of(part, now_ms) for part in _parts(conversations, entries)]
    return parts, sentences


async def _import_there(
    server: linked_server.LinkedServer, texts: Sequence[str], *more: str
) -> int:
    """Let the server import each text; returns the worst status."""
    arguments = ["import", "-", "--format", "native", *more]
    worst_status = 0
    for text in texts:
        status = await linked_server.command(server, "import", arguments, None, standard_input=text)
        worst_status = max(worst_status, status)
    return worst_status


@dataclass(frozen=True, slots=True)
class _Part:
    """What one request gives to the server."""

    conversations: Sequence[Contents] = ()
    entries: Sequence[tuple[str, Entry]] = ()


@dataclass(frozen=True, slots=True)
class _Written:
    """A part as it is sent, and the bytes that it then has within JSON."""

    text: str
    bytes_sent: int

    @classmethod
    def of(cls, part: _Part, now_ms: int) -> _Written:
        text = b"".join(own.write_native(part.conversations, now_ms, part.entries)).decode()
        return cls(text, len(json_text.dumps(text)))


def _parts(
    conversations: Sequence[Contents], entries: Sequence[tuple[str, Entry]]
) -> Iterator[_Part]:
    """What is sent, in parts that a request can hold; folders have the names that they have on all machines. What is
    too large for a request is a part of its own."""
    for contents in conversations:
        memories = [
            replace(memory, folder=linked_server.shared_folder(memory.folder))
            for memory in contents.short_term
        ]
        for short in _portions(memories, lambda memory: 2 * _bytes(memory.text)):
            yield _Part([replace(contents, short_term=tuple(short), long_term=())])
        for long in _portions(
            contents.long_term, lambda memory: _bytes(memory.trigger, memory.created_context)
        ):
            yield _Part([replace(contents, short_term=(), long_term=tuple(long))])
    shared_entries = [
        (scope, replace(entry, project=shared_key(entry.project))) for scope, entry in entries
    ]
    for portion in _portions(
        shared_entries, lambda item: _bytes(item[1].body, item[1].title, *item[1].examples)
    ):
        yield _Part(entries=portion)


def _bytes(*texts: str) -> int:
    return sum(len(text.encode(errors="replace")) for text in texts)


def _portions(items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in order, in lists of at most `_PORTION_MEMORIES` and `_PORTION_BYTES`; a larger item is alone."""
    portion: list[T] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        is_full = len(portion) == _PORTION_MEMORIES or size + item_size > _PORTION_BYTES
        if portion and is_full:
            yield portion
            portion = []
            size = 0
        portion.append(item)
        size += item_size
    if portion:
        yield portion
