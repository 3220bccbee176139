"""Make the arguments of commands, for commands.py and looking_commands.py."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Callable
from typing import Any

from languages import N_, _
from memory_server.kernel.items import FAMILIES
from memory_server.kernel.text import words_between_commas

Add = Callable[..., ArgumentParser]

ALL = N_("only this conversation; by default all")
USUAL = N_("the conversation; by default that of the settings, or `default`")


def other_words(parser: ArgumentParser, about: str) -> None:
    parser.add_argument("--other-words", metavar="WORDS", type=words_between_commas, help=about)


def argument(
    parser: ArgumentParser | _ArgumentGroup, name: str, metavar: str | None, about: str, **more: Any
) -> None:
    parser.add_argument(name, metavar=metavar, help=about, **more)


def switch(parser: ArgumentParser | _ArgumentGroup, name: str, about: str) -> None:
    parser.add_argument(name, action="store_true", help=about)


def json_lines(parser: ArgumentParser) -> None:
    switch(parser, "--json", "print JSON, one object a line")


def family(parser: ArgumentParser) -> None:
    argument(parser, "--family", None, "only this kind", choices=FAMILIES)


def dry_run(parser: ArgumentParser, action: str) -> None:
    switch(parser, "--dry-run", _("only {what}", _(action)))


def number_up_to(most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from 0 to `most`, which raises ArgumentTypeError for any other text."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text) <= most):
            raise argparse.ArgumentTypeError(
                _("`{text}` is not a whole number from 0 to {most:,}", text, most)
            )
        return int(text)

    return number


count = number_up_to(100)
"""Parses a number of memories by chance; the settings `flashback_count` and `random_count` allow no more."""
number_of_messages = number_up_to(1_000_000)
"""Parses a number of messages of a chat; real chats are shorter."""
