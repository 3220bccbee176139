"""The memory of memory-server in AstrBot: recalls before the model is asked, remembers after it has answered. The
model may also recall once more, with words of its own, by the tool `recall`.

Whose a memory is: `places` alone decides it. A private talk, a group, and what one user said in groups are three
conversations; what was told in private is searched in no group, unless the bot's owner allows it.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from astrbot.api import AstrBotConfig, logger, sp
from astrbot.api.event import AstrMessageEvent, MessageEventResult, filter
from astrbot.api.provider import LLMResponse, ProviderRequest
from astrbot.api.star import Context, Star
from astrbot.core.agent.message import TextPart

from .memory_client import MemoryClient, MemoryFailed, other_words
from .sentences import SENTENCES

_BLOCK = re.compile(r"<recalled-memories>.*?</recalled-memories>\s*", re.DOTALL)
_TOOL = "recall"
"""The name of the tool for the bot's model."""
_BEFORE = 2
"""Messages before the current message that a search gets: more of them pull their own topic along."""
_SHOWN, _CHARS = 8, 80
"""Memories that a command lists at most, and characters of each."""
_MOST_PEOPLE = 1_000
"""People of whom the last recall and the last changes are kept, for the commands."""
_VERBS = {
    "看": "look", "list": "look", "找": "find", "find": "find", "忘": "forget", "forget": "forget", "撤销": "undo",
    "undo": "undo", "为什么": "why", "why": "why", "暂停": "pause", "pause": "pause",
}  # fmt: skip


class Talk(NamedTuple):
    """Where a message was said. `stored` are the conversations that keep it, the chat's first; `also` are the
    conversations that are searched beside it. `person` is who speaks, in this chat; `mark` is the beginning of their
    turn ids."""

    stored: tuple[str, ...]
    also: tuple[str, ...]
    person: str
    mark: str
    is_group: bool


def places(config: Mapping[str, Any], platform: str, sender: str, group: str, persona: str) -> Talk:
    """Return where a message of `sender` belongs that was said in `group` (empty in private) to `persona` (empty
    without one)."""
    # A slash within a part is escaped: a user "1/x" is not the user "1" with the persona "x".
    platform, sender, group, persona = (
        part.replace("%", "%25").replace("/", "%2F") for part in (platform, sender, group, persona)
    )

    def named(kind: str, whose: str) -> str:
        return _bounded(
            f"{platform}/{kind}/{whose}"
            + (f"/{persona}" if persona and config["per_persona"] else ""),
            256,
        )

    private, public, mark = named("user", sender), named("public", sender), f"{platform}/{sender}/"
    across = (public,) if config["one_user_across_groups"] else ()
    if not group:
        return Talk((private,), across, f"{mark}private", mark, is_group=False)
    also = (private,) if config["private_in_groups"] else ()
    return Talk((named("group", group), *across), also, f"{mark}group/{group}", mark, is_group=True)


class MemoryServerPlugin(Star):
    def __init__(self, context: Context, config: AstrBotConfig) -> None:
        super().__init__(context, config)
        self.config = config
        self.memory = MemoryClient(
            config["command"],
            config["url"],
            config["token"],
            config["seconds"],
            warn=logger.warning,
        )
        self._resets: dict[str, int] = {}
        self._paused: set[str] = set()
        self._last: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._changes: OrderedDict[str, deque[list[tuple[str, str]]]] = OrderedDict()
        self._to_forget: OrderedDict[str, list[tuple[str, list[str]]]] = OrderedDict()

    async def initialize(self) -> None:
        self._paused = set(await self.get_kv_data("paused", []) or [])
        tool = self.context.get_llm_tool_manager().get_func(_TOOL)
        if _is_ours(tool):
            tool.description = self._say("tool")
            for name, about in tool.parameters["properties"].items():
                about["description"] = self._say(f"tool_{name}")

    async def terminate(self) -> None:
        await self.memory.close()

    # What AstrBot calls

    @filter.on_llm_request()
    async def recall(self, event: AstrMessageEvent, req: ProviderRequest) -> None:
        """Add what comes to mind to the user's message, in place of what came before. Without a memory for this message,
        take only the tool away from the model."""
        req.contexts = [_without_blocks(message) for message in req.contexts]
        talk, text = await self._talk(event), event.message_str.strip()
        has_memory = talk is not None and talk.person not in self._paused and text

        tools = req.func_tool
        if (
            tools
            and not (has_memory and self.config["recall_tool"])
            and _is_ours(tools.get_tool(_TOOL))
        ):
            # A model must not call the tool where it has no memory.
            tools.remove_tool(_TOOL)

        if talk is None or not has_memory:
            return
        cid = req.conversation.cid if req.conversation else ""
        session = (
            f"{cid or event.unified_msg_origin}#{self._resets.get(event.unified_msg_origin, 0)}"
        )
        event.set_extra("memory_session", session)

        name = self._name_of(event)
        before = [
            {"role": one["role"], "content": said} for one in req.contexts if (said := _said(one))
        ][-_BEFORE:]
        asked = {
            "messages": [*before, {"role": "user", "content": text, "name": name}],
            "conversation_id": talk.stored[0],
            "also": [*talk.stored[1:], *talk.also],
            "session": session,
            "participants": {"user": {"name": name, "id": event.get_sender_id()}},
            "maxChars": self.config["max_chars"],
            "flashbacks": self.config["flashbacks"],
        }
        event.set_extra("memory_recall", (talk.person, asked))

        result = await self.memory.recall(asked)
        _keep(self._last, talk.person, [result])

        if block := result.get("prompt"):
            part = TextPart(text=block)
            if hasattr(part, "mark_as_temp"):  # AstrBot 4.24.1 and later: not saved in the history
                part.mark_as_temp()
            req.extra_user_content_parts.append(part)

    @filter.llm_tool(name=_TOOL)
    async def recall_by_words(
        self, event: AstrMessageEvent, query: str = "", otherWords: list[str] | str | None = None
    ) -> str:
        """`initialize` puts the words of sentences.py here.

        Args:
            query(string): What you look for
            otherWords(array[string]): Other words for it
        """
        person, asked = event.get_extra("memory_recall") or ("", None)
        words = other_words(query, otherWords)
        if asked is None or not words:
            return self._say("nothing_for_model")
        result = await self.memory.recall({**asked, "otherWords": words, "flashbacks": 0})
        if "prompt" not in result:
            return self._say("away")
        _keep(self._last, person, [*self._last.get(person, ()), result])
        return result["prompt"] or self._say("nothing_for_model")

    @filter.on_llm_response()
    async def remember(self, event: AstrMessageEvent, resp: LLMResponse) -> None:
        """Store the turn in the background."""
        session = event.get_extra("memory_session")
        if session and resp.role == "assistant" and resp.completion_text:
            answer = {
                "role": "assistant",
                "content": resp.completion_text,
                "name": self._bot_name(),
            }
            await self._store(event, session, answer)

    @filter.event_message_type(filter.EventMessageType.GROUP_MESSAGE)
    async def overhear(self, event: AstrMessageEvent) -> None:
        """Store what is said in a group and not to the bot, if the owner wants that."""
        is_message = event.message_str.strip() and event.get_sender_id() != event.get_self_id()
        if (
            self.config["remember_all_group_messages"]
            and is_message
            and not event.is_at_or_wake_command
        ):
            await self._store(event, f"{event.unified_msg_origin}#overheard")

    @filter.after_message_sent()
    async def after_reset(self, event: AstrMessageEvent) -> None:
        """Note that /reset and /new empty the context: from then on, what was said comes again at once."""
        if event.get_extra("_clean_ltm_session"):
            origin = event.unified_msg_origin
            self._resets[origin] = self._resets.get(origin, 0) + 1

    @filter.command("记忆", alias={"memory"})
    async def command(self, event: AstrMessageEvent) -> AsyncIterator[MessageEventResult]:
        """看、找、忘、撤销、为什么、暂停 (list, find, forget, undo, why, pause)"""
        _command, verb, words = (*event.message_str.split(None, 2), "", "")[:3]
        talk, action = await self._talk(event), _VERBS.get(verb)
        try:
            answer = (
                await getattr(self, f"_{action}")(event, talk, words.strip())
                if action and talk
                else None
            )
        except MemoryFailed as error:
            answer = self._say("failed", error)
        yield event.plain_result(answer or self._say("help"))

    # The commands

    async def _look(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        return await self._listed(talk, {"sort_by": "timestamp"})

    async def _find(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        return await self._listed(talk, {"query": words}) if words else self._say("help")

    async def _listed(self, talk: Talk, asked: dict[str, Any]) -> str:
        """Return the newest memories that `asked` finds, as lines for the chat."""
        # Only this chat's own conversation: a command in a group shows nothing of a private talk.
        asked |= {
            "conversation_id": talk.stored[0],
            "scope": "conversation",
            "memory_type": "short_term",
        }
        answer = await self.memory.call("search_memories", {**asked, "limit": _SHOWN})
        rows = [
            f"· {_when(result['timestamp'])} {_line(result['text'])}"
            for result in answer["results"]
        ]
        return (
            "\n".join([self._say("listed", answer["total_found"]), *rows])
            if rows
            else self._say("nothing")
        )

    async def _forget(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        """Show the memories with these words, and remember which they are; with `yes`, forget those that were shown
        last."""
        # Only what was shown last can be forgotten, or nothing.
        shown_before = self._to_forget.pop(talk.person, [])

        if words in ("确认", "yes"):
            changes = []
            for conversation, ids in shown_before:
                asked = {"ids": ids, "conversation_id": conversation, "confirm": True}
                if change := (await self.memory.call("forget", asked)).get("changeId"):
                    changes.append((conversation, change))
            if changes:
                self._changed(talk.person, changes)
            return self._say("forgotten" if changes else "nothing")

        if not words:
            return self._say("help")

        meant, shown = [], []
        for conversation in talk.stored:
            answer = await self.memory.call(
                "forget", {"words": words, "conversation_id": conversation}
            )
            # In a group, who is not an admin forgets only what they said there themselves.
            of_all = not talk.is_group or (event.is_admin() and conversation == talk.stored[0])
            rows = [
                item
                for item in answer["items"]
                if of_all or (item.get("turn") or "").startswith(talk.mark)
            ]

            rows = [item for item in rows if item["family"] == "memories"]
            meant += [(conversation, [item["id"] for item in rows])] if rows else []
            shown += [_line(item["text"]) for item in rows]

        _keep(self._to_forget, talk.person, meant)
        lines = [f"· {line}" for line in dict.fromkeys(shown)]
        return (
            "\n".join([self._say("would_go", len(lines)), *lines[:_SHOWN]])
            if lines
            else self._say("nothing")
        )

    async def _undo(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        """Undo the last change of this person that was not undone, in all conversations that it changed."""
        if not self._changes.get(talk.person):
            return self._say("no_change")
        for conversation, change in self._changes[talk.person].pop():
            await self.memory.call(
                "undo_change", {"changeId": change, "conversation_id": conversation}
            )
        return self._say("undone")

    async def _why(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        """Return the memories that came to this person's last message, with the reason of each."""
        tiers = ("topRelevant", "nextRelevant", "randomFlashback")
        searches = [result.get("shortTerm", {}) for result in self._last.get(talk.person, ())]
        items = {
            item["id"]: item
            for search in searches
            for tier in tiers
            for item in search.get(tier, ())
        }.values()
        # A private memory that the owner lets come in a group is still not shown there.
        items_of_talk = [
            item
            for item in items
            if not talk.is_group or item.get("keptIn") in (None, *talk.stored)
        ]
        rows = [f"· {_line(item['text'])}\n  {item['reason']}" for item in items_of_talk]
        rows += (
            [self._say("private", len(items) - len(items_of_talk))]
            if len(items_of_talk) < len(items)
            else []
        )
        return "\n".join(rows) or self._say("nothing_came")

    async def _pause(self, event: AstrMessageEvent, talk: Talk, words: str) -> str:
        """Pause the memory for a person or, if it is paused, go on; say which."""
        self._paused ^= {talk.person}
        await self.put_kv_data("paused", sorted(self._paused))
        return self._say("paused" if talk.person in self._paused else "resumed")

    # What they share

    async def _talk(self, event: AstrMessageEvent) -> Talk | None:
        """Return where this message was said, or None if the sender or place is not known; then nothing is recalled or
        stored."""
        if not (sender := event.get_sender_id()):
            return None
        group = "" if event.is_private_chat() else event.get_group_id() or event.get_session_id()
        if not group and not event.is_private_chat():
            return None
        return places(
            self.config, event.get_platform_id(), sender, group, await self._persona(event)
        )

    async def _persona(self, event: AstrMessageEvent) -> str:
        """Return the persona that AstrBot uses here, chosen as it does: for the chat, for the conversation, by default."""
        origin, manager = event.unified_msg_origin, self.context.conversation_manager
        chosen = (await sp.get_async("umo", origin, "session_service_config", {}) or {}).get(
            "persona_id"
        )
        if not chosen and (cid := await manager.get_curr_conversation_id(origin)):
            conversation = await manager.get_conversation(origin, cid)
            chosen = conversation.persona_id if conversation else None
        if chosen is None:
            chosen = self.context.get_config(umo=origin)["provider_settings"].get(
                "default_personality"
            )
        # No persona, and AstrBot's own, count as none.
        return "" if chosen in (None, "[%None]", "default") else str(chosen)

    async def _store(self, event: AstrMessageEvent, session: str, *answer: dict[str, str]) -> None:
        """Store what was said in each conversation of the talk, in the background, and note the changes for an undo. Do
        nothing if the place is not known or the person paused their memory."""
        talk = await self._talk(event)
        if talk is None or talk.person in self._paused:
            return

        message = {
            "role": "user",
            "content": event.message_str.strip(),
            "name": self._name_of(event),
        }
        # With the chat: Telegram counts the messages of each group from 1.
        turn, changes = (
            _bounded(f"{talk.person}/{event.message_obj.message_id}", 200),
            list[tuple[str, str]](),
        )

        for conversation in talk.stored:

            def stored(result: dict[str, Any], conversation: str = conversation) -> None:
                if change := result.get("changeId"):
                    changes.append((conversation, change))
                    if len(changes) == 1:
                        self._changed(talk.person, changes)

            asked = {
                "messages": [message, *answer],
                "conversation_id": conversation,
                "session": session,
                "turn_id": turn,
            }
            self.memory.remember(asked, stored)

    def _changed(self, person: str, changes: list[tuple[str, str]]) -> None:
        of_person = self._changes.get(person) or deque(maxlen=20)
        of_person.append(changes)
        _keep(self._changes, person, of_person)

    def _bot_name(self) -> str:
        return self.config["bot_name"] or self._say("bot")

    def _name_of(self, event: AstrMessageEvent) -> str:
        return event.get_sender_name() or event.get_sender_id()

    def _say(self, key: str, *values: object) -> str:
        return SENTENCES[key][self.config["language"] == "en"].format(*values)


def _is_ours(tool: Any) -> bool:
    """Return whether a tool is this plugin's: another plugin may use its name."""
    return tool is not None and tool.handler_module_path == __name__


def _bounded(name: str, most: int) -> str:
    """Return a name of the length that the server allows; different names stay different."""
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return name if len(name) <= most else f"{name[: most - len(mark) - 1]} {mark}"


def _keep(among: OrderedDict[str, Any], person: str, value: Any) -> None:
    """Set a person's value, and drop the person of whom a value was set longest ago if there are too many."""
    among[person] = value
    among.move_to_end(person)
    if len(among) > _MOST_PEOPLE:
        among.popitem(last=False)


def _without_blocks(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the history without recalled blocks: AstrBot before 4.24.1 saves them, and they would pile
    up."""
    content = message.get("content")
    if isinstance(content, str):  # what the tool gave was nothing else, and no message may be empty
        return (
            {**message, "content": _BLOCK.sub("", content) or "…"}
            if _BLOCK.match(content)
            else message
        )
    if not isinstance(content, list):
        return message
    without_blocks = [
        part
        for part in content
        if not (isinstance(part, dict) and _BLOCK.match(str(part.get("text", ""))))
    ]
    return {**message, "content": without_blocks}


def _said(message: dict[str, Any]) -> str:
    """Return what a person or the bot said in a message of the history; empty for what tools say."""
    content = message.get("content")
    if message.get("role") not in ("user", "assistant") or not content:
        return ""
    parts = (
        [content]
        if isinstance(content, str)
        else [one.get("text", "") for one in content if isinstance(one, dict)]
    )
    return "\n".join(part for part in parts if part)[:1_000]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CHARS else f"{line[:_CHARS]}…"


def _when(timestamp: str) -> str:
    return f"{datetime.fromisoformat(timestamp.replace('Z', '+00:00')).astimezone():%Y-%m-%d %H:%M}"
