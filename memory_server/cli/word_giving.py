"""Ask a model for other words of memories that have none (`knowledge words`, and the last part of `cleanup`)."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from dataclasses import field

from languages import N_, _, counted
from memory_server.cli.terminal import console, print_plain, say
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import complain
from memory_server.kernel.text import Finding
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import dataclass
from memory_server.memories.word_giver import NO_MODEL, RequestResult
from memory_server.runtime.app import CallerView

NO_WORDS_WAIT = N_("Every memory that may be sent has other words, or was sent before.")


@dataclass(slots=True)
class _Sum:
    """The totals of the requests of a run, and the `models` that answered."""

    requests: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    models: dict[str, None] = field(default_factory=dict)

    def add(self, asked: RequestResult) -> None:
        self.requests += bool(asked.sent)
        self.counts.update(
            sent=asked.sent,
            memories=asked.kept.memories,
            words=asked.kept.words,
            tokens=asked.tokens,
        )
        if asked.model:
            self.models[asked.model] = None


async def words_of_memories(view: CallerView, flags: Namespace) -> None:
    """Ask now for words of all memories that lack them, or with --dry-run say how many memories would be sent. Raises
    InvalidInput if the settings do not allow it or name no model."""
    if flags.dry_run:
        await _say_what_waits(view, None)
        return
    view.word_giver.refuse()
    if not await _give(view, None):
        say("Nothing was sent.")


async def words_after_cleanup(view: CallerView, only: str | None, *, dry_run: bool) -> None:
    """Ask for words after a clean-up, of the conversation `only` or of all, if the settings want it and there is no
    pause; with `dry_run` say how many memories would be sent."""
    if not view.settings.gives_words or not view.settings.llm.providers:
        return
    if dry_run:
        await _say_what_waits(view, only)
    elif view.paused() is None:
        await _give(view, only)


async def words_finding(view: CallerView) -> Finding | None:
    """Report for `doctor` the memories that are sent for words. Return None if the settings do not want it."""
    settings = view.settings
    if not settings.gives_words:
        return None
    about = _("other words")

    if not settings.llm.providers:
        return Finding(
            "warning", about, _("llm.words_for_memories is on, but {reason}", _(NO_MODEL))
        )

    waiting = await view.word_giver.waiting()
    now_ms = view.clock()
    used = await view.knowledge.store.tokens(now_ms - DAY_MS, now_ms)
    sentence = _(
        "the clean-up sends memories to {models} for other words; waiting: {memories}; tokens used in 24 "
        "hours: {used:,}",
        settings.llm.names,
        counted(waiting.memories, "memory"),
        used,
    )
    return Finding("ok", about, sentence)


async def _say_what_waits(view: CallerView, only: str | None) -> None:
    """Say how many memories have no other words, what it costs to ask a model for them, and why
    nothing is sent if no model is named. `only` limits it to one conversation."""
    waiting = await view.word_giver.waiting(only)
    settings = view.settings
    out = console()
    if not waiting.memories:
        out.print(_(NO_WORDS_WAIT))
        return

    text = _(
        "Would send {memories} in {requests} for other words, which takes about {tokens:,} tokens.",
        counted(waiting.memories, "memory"),
        counted(waiting.requests, "request"),
        waiting.tokens,
    )
    print_plain(text)

    if settings.llm.providers:
        say("They would be sent to {models}.", settings.llm.names)
    if not settings.llm.providers or not settings.gives_words:
        say(
            "Nothing is sent until a model is named under `[llm]` and `words_for_memories` is true there."
        )


async def _give(view: CallerView, only: str | None) -> int:
    """Ask for words of the memories of the conversation `only`, or of all (None); print what came of each request,
    and the sum if anything was sent; return the number of requests sent. A request that fails is printed and not
    raised, and the run ends early if tokens are used up. Raises InvalidInput if another process is cleaning up (or
    the folder cannot be locked), or if the settings do not allow it."""
    async with view.home.ledger.turn() as ours:
        # Two processes would pay for the words of the same memories.
        if not ours:
            raise InvalidInput(
                "Another process is cleaning up this folder; try again when it has finished."
            )
        done = _Sum()
        async for asked in view.word_giver.give(only):
            done.add(asked)
            _print_request(asked)
    if done.requests:
        print_plain(_sum_text(done, view.settings.llm.names))
    return done.requests


def _print_request(asked: RequestResult) -> None:
    if asked.problem:
        complain("{name}: {reason}", asked.place, asked.problem)
    elif asked.kept.memories:
        change = _(" (change {change_id})", asked.kept.change_id or "")
        memories = counted(asked.kept.memories, "memory")
        words = counted(asked.kept.words, "word")

        say("[bold]{place}[/]: {memories}, {words}{change}", asked.place, memories, words, change)


def _sum_text(done: _Sum, configured: str) -> str:
    """Say how many memories were sent to which models, and how many words came back. `configured`
    names the models if none answered."""
    counts = done.counts
    return _(
        "Sent {memories} in {requests} to {models}: {worded} of them have other words now, {words} in "
        "total. This took {tokens:,} tokens.",
        counted(counts["sent"], "memory"),
        counted(done.requests, "request"),
        ", ".join(done.models) or configured,
        counts["memories"],
        counted(counts["words"], "word"),
        counts["tokens"],
    )
