"""Every face that only reads, asked once in a home as it is; what each says wrong is a fault.

A face that fails does not hide another one: all are asked, and the faults are collected.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from lived_in import texts
from lived_in.arguments import arguments_for
from lived_in.elsewhere import LINKED, is_linked
from lived_in.house import House, Output
from lived_in.sentences import faults_of, faults_of_json, is_untranslated
from mcp import Client
from mcp.shared.exceptions import MCPError
from web_page import Parsed

from memory_server.serving.prompts import PROMPTS
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed
from memory_server.web.app import PAGES

READING = tuple(name for name, tool in TOOLS.items() if tool.read_only)
LANGUAGES = ("en", "zh")
_INSIDE = "inside the server"
_ABOUT_ONE = ("/memory", "/entry", "/book")
"""Pages about something that the address names: without its name they are not there."""
_MAY_REFUSE = ("explain", "forget")
"""Commands that a look gives words or names of which nothing may be there."""


class Look:
    """One look at all faces of a home: what it counts, and the faults that it finds."""

    def __init__(self, house: House, rng: Random, most_pages: int) -> None:
        self._house = house
        self._rng = rng
        self._most_pages = most_pages
        self.asked = 0
        self.faults: list[str] = []

    def at_everything(self) -> None:
        self.at_pages()
        self.at_commands()
        self.at_tools()
        self.at_documents()
        self.at_rest()

    def _fault(self, face: str, description: str) -> None:
        self.faults.append(f"{face}: {description}")

    def _note_log(self, face: str) -> None:
        log = self._said_in_the_log()
        if log:
            self._fault(face, f"the log has {log}")

    def _said_in_the_log(self) -> str:
        """What the log has since the last look at it."""
        texts = [text[-1_500:] for text in self._house.log.texts]
        self._house.log.texts.clear()
        return "\n".join(texts)

    # --- pages -----------------------------------------------------------------------------------------------

    def at_pages(self) -> None:
        """Each page in both languages, and the pages that they link to."""
        rooms = self._house.conversations() or ["default"]
        rooms = self._rng.sample(rooms, min(3, len(rooms)))
        starts: list[str] = []
        for path in PAGES:
            starts.extend(f"{path}?{urlencode({'lang': language})}" for language in LANGUAGES)
        for path in PAGES:
            starts.extend(f"{path}?{urlencode({'c': room, 'lang': 'en'})}" for room in rooms)
        waiting = deque(starts)
        seen = set(starts)
        followed = 0
        limit = len(starts) + self._most_pages
        while waiting and followed < limit:
            address = waiting.popleft()
            followed += 1
            links = self._page(address)
            self._rng.shuffle(links)
            for link in links[:12]:
                if link not in seen:
                    seen.add(link)
                    waiting.append(link)

    def _page(self, address: str) -> list[str]:
        self.asked += 1
        try:
            response = self._house.get(address)
        except Exception as error:
            self._fault(f"page {address}", f"{type(error).__name__}: {error}")
            return []
        log = self._said_in_the_log()
        if log:
            self._fault(f"page {address}", f"status {response.status_code}, and the log has {log}")
            return []
        names_one = urlsplit(address).path in _ABOUT_ONE or any(
            part in address for part in ("id=", "name=", "c=")
        )
        allowed = {200}
        if names_one:
            allowed.add(404)
        if "c=" in address:
            allowed.add(422)
        if response.status_code not in allowed:
            self._fault(f"page {address}", f"status {response.status_code}: {response.text[-300:]}")
            return []
        if "json" in response.headers.get("content-type", ""):
            for fault in faults_of_json(response.text, lines=False):
                self._fault(f"page {address}", fault)
            return []
        if response.status_code != 200:
            return []
        try:
            page = Parsed(response.text)
        except AssertionError as error:
            self._fault(f"page {address}", f"not well formed: {error}")
            return []
        for fault in faults_of(self._without_fields(page)):
            self._fault(f"page {address}", fault)
        if "lang=zh" in address:
            for text in page.texts:
                if is_untranslated(text):
                    self._fault(
                        f"page {address}", f"a sentence in English: {' '.join(text.split())[:200]}"
                    )
        return self._house.links_of(address, page)

    @staticmethod
    def _without_fields(page: Parsed) -> str:
        """What a reader sees, and what a title or label says."""
        labels: list[str] = []
        for _tag, attributes in page.elements:
            labels.extend((attributes.get("title", ""), attributes.get("aria-label", "")))
        return "\n".join([*page.texts, *filter(None, labels)])

    # --- commands --------------------------------------------------------------------------------------------

    def at_commands(self) -> None:
        if is_linked(self._house):
            for words in LINKED:
                self._on_the_laptop(words, self._rng.choice(LANGUAGES))
        for words in self._looking_commands():
            languages = (self._house.language,)
            if self._rng.random() < 0.3:
                languages = LANGUAGES
            for language in languages:
                self._command(words, language)

    def _on_the_laptop(self, words: tuple[str, ...], language: str) -> None:
        self.asked += 1
        output = self._house.on_the_laptop(*words, language=language)
        face = f"linked machine, {' '.join(words)} ({language})"
        self._note_log(face)
        for fault in faults_of_output(output):
            self._fault(face, fault)

    def _command(self, words: tuple[str, ...], language: str) -> None:
        self.asked += 1
        face = f"command {' '.join(words)} ({language})"
        try:
            output = self._house.command(*words, language=language, own=self._rng.random() < 0.03)
        except Exception as error:
            self._fault(face, f"{type(error).__name__}: {error}")
            return
        self._note_log(face)
        for fault in faults_of_output(output):
            self._fault(face, fault)
        if language == "zh" and "--json" not in words:
            for line in f"{output.text}\n{output.errors}".splitlines():
                if is_untranslated(line):
                    self._fault(face, f"a sentence in English: {line[:200]}")
        leaves_out = words[0] == "backup restore" and output.status == 1 and not output.errors
        if output.status and not (words[0] in _MAY_REFUSE or "doctor" in words or leaves_out):
            self._fault(face, f"status {output.status}: {output.errors[-300:]}")
        if words[0] == "view" and output.status == 0:
            page = Parsed(Path(words[2]).read_text("utf-8"))
            for fault in faults_of(self._without_fields(page)):
                self._fault(face, fault)

    def _looking_commands(self) -> Iterator[tuple[str, ...]]:
        """Each command that only looks, with the names of what is there."""
        house = self._house
        rng = self._rng
        families = ("memories", "triggers", "notes", "layers", "sessions", "refs")
        rooms = house.conversations()
        room = "default"
        if rooms:
            room = rng.choice(rooms)
        for looks in (
            ("list",),
            ("search", "cat"),
            ("history",),
            ("recalls",),
            ("where",),
            ("doctor",),
            ("tools",),
        ):
            yield looks
            yield (*looks, "--json")
        if rooms:  # of a conversation that is not there, they say so and end with 2
            yield ("list", "-c", room)
            yield ("list", "-c", room, "--json")
            yield ("history", "-c", room, "--limit", "100")
        yield ("list", "--archived")
        yield ("list", "--archived", "--json")
        for family in families:
            yield ("list", "--family", family)
            yield ("list", "--family", family, "--json")
            yield ("search", "披萨", "--family", family)
            if family != "layers":  # files, which have no history here
                yield ("history", "--family", family, "--json")
        yield ("recalls", "-n", "300", "--json")
        yield ("recalls", "--empty")
        yield ("search", "猫", "--since", "2026-01-01", "--archived", "--json")
        yield ("explain", "--ask", rng.choice(texts.QUESTIONS))
        yield ("explain", "--ask", "cat", "--json")
        yield ("backup list",)
        yield ("knowledge", "list", "--json")
        yield ("knowledge", "list", "--archived")
        yield ("knowledge", "history")
        yield ("knowledge", "history", "--json")
        yield ("cleanup", "--dry-run")
        yield ("doctor", "--repair", "--dry-run")
        yield ("doctor", "--reindex", "--dry-run")
        yield ("knowledge", "reindex", "--dry-run", "--verbose")
        yield ("knowledge", "words", "--dry-run")
        yield ("tokens", "list")
        yield ("forget", "a", "--dry-run")
        yield ("forget", "猫", "--for-good", "--dry-run")
        yield ("copy", "--to", str(house.folder / "elsewhere"), "--dry-run")
        yield ("view", "--html", str(house.folder / "view.html"), "--force")
        yield from self._commands_about_one(room)

    def _commands_about_one(self, room: str) -> Iterator[tuple[str, ...]]:
        house = self._house
        rng = self._rng
        memories = house.memories(room)
        triggers = house.triggers(room)
        entries = house.entries()
        if memories:
            memory = rng.choice(memories)
            yield ("show", memory.id)
            yield ("show", memory.id, "--json")
            yield ("explain", memory.id, "--ask", "What about the cat?")
            yield ("explain", memory.id, "--ask", "披萨", "--json")
        if triggers:
            yield ("show", "--json", "--", rng.choice(triggers).name)
            yield ("show", "--", rng.choice(triggers).name)
        if entries:
            location, entry = rng.choice(entries)
            name = entry.ref or str(entry.id)
            if location.startswith("layers") and entry.key:
                name = entry.key
            yield ("show", "--", name)
            yield ("show", "--json", "--", name)
            yield ("knowledge", "show", "--", name)
        recalls = house.recall_ids()
        for recall_id in rng.sample(recalls, min(3, len(recalls))):
            yield ("explain", "--recall", recall_id)
            yield ("explain", "--recall", recall_id, "--json")
        for name in house.backups()[:2]:
            yield ("backup restore", name, "--dry-run")
            yield ("backup restore", name, "--overwrite", "--dry-run")

    # --- tools, resources and prompts ------------------------------------------------------------------------

    def at_tools(self) -> None:
        for name in READING:
            self.asked += 1
            arguments = arguments_for(self._house, TOOLS[name], self._rng)
            face = f"tool {name} {json.dumps(arguments, ensure_ascii=False)[:300]}"
            try:
                answer = self._house.tool(name, arguments)
            except Exception as error:
                self._fault(face, f"{type(error).__name__}: {error}")
                continue
            self._note_log(face)
            if isinstance(answer, ToolFailed):
                text = str(answer)
            else:
                text = answer.text
            if _INSIDE in text:
                self._fault(face, text)
            for fault in faults_of(text):
                self._fault(face, fault)

    def at_documents(self) -> None:
        self._house.run(self._documents())

    async def _documents(self) -> None:
        async with Client(self._house.app.server()) as client:
            resources = [
                str(resource.uri) for resource in (await client.list_resources()).resources
            ]
            for template in (await client.list_resource_templates()).resource_templates:
                bare = template.uri_template.replace("{?offset,limit}", "")
                resources += [
                    bare.replace("{id}", quote(room, safe="")) for room in await self._rooms()
                ]
            for uri in resources:
                await self._document(f"resource {uri}", client.read_resource(uri))
            for name, prompt in PROMPTS.items():
                values = {argument.name: self._argument() for argument in prompt.arguments}
                await self._document(f"prompt {name} {values}", client.get_prompt(name, values))

    async def _rooms(self) -> list[str]:
        return sorted(await self._house.app.conversations.ids())[:4]

    def _argument(self) -> str:
        return self._rng.choice((*texts.QUESTIONS, *texts.SENTENCES, texts.sentence(self._rng)))

    async def _document(self, face: str, reading: Any) -> None:
        self.asked += 1
        try:
            result = await reading
        except MCPError as error:
            if _INSIDE in str(error) or "internal" in str(error).casefold():
                self._fault(face, str(error))
        except Exception as error:
            self._fault(face, f"{type(error).__name__}: {error}")
        else:
            assert result is not None
        self._note_log(face)

    # --- REST ------------------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        house = self._house
        client = house.serve()
        for path in ("/healthz", "/readyz", "/v1/openapi.json", "/v1/me"):
            self._answer(f"GET {path}", lambda path=path: house.run(client.get(path)), (200,))  # type: ignore[misc]
        for name in self._rng.sample(READING, 12):
            arguments = arguments_for(house, TOOLS[name], self._rng)
            face = f"POST /v1/{name} {json.dumps(arguments, ensure_ascii=False)[:300]}"
            self._answer(face, lambda name=name, arguments=arguments: house.ask(name, arguments))  # type: ignore[misc]
        for name, arguments in (
            ("list", ["list", "--json"]),
            ("search", ["search", "披萨"]),
            ("history", ["history", "--json"]),
            ("recalls", ["recalls"]),
            ("list", ["list", "--archived", "--json"]),
        ):
            body: Mapping[str, Any] = {
                "arguments": arguments,
                "language": self._rng.choice(LANGUAGES),
            }
            self._answer(
                f"POST /v1/commands/{name}",
                lambda name=name, body=body: house.ask(f"commands/{name}", body),
                (200,),
            )  # type: ignore[misc]

    def _answer(self, face: str, ask: Any, allowed: tuple[int, ...] = ()) -> None:
        self.asked += 1
        try:
            response = ask()
        except Exception as error:
            self._fault(face, f"{type(error).__name__}: {error}")
            return
        self._note_log(face)
        if response.status_code >= 500 or (allowed and response.status_code not in allowed):
            self._fault(face, f"status {response.status_code}: {response.text[:500]}")
        for fault in faults_of_json(response.text, lines=False):
            self._fault(face, fault)


def faults_of_output(output: Output) -> Iterator[str]:
    """What a command said wrong."""
    if output.status not in (0, 1, 2):
        yield f"status {output.status}"
    if "--json" in output.words and output.status == 0 and output.words[0] not in ("recall",):
        yield from faults_of_json(output.text, lines=output.words[0] not in ("recall", "remember"))
    else:
        yield from faults_of(output.text)
    yield from faults_of(output.errors)
    if output.status == 2 and not output.errors.strip():
        yield "it refuses without a word"
