"""The arguments and the help of the commands that look. The other commands are in commands.py."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser

from languages import N_
from memory_server.cli.command_arguments import (
    ALL,
    USUAL,
    Add,
    argument,
    count,
    dry_run,
    family,
    json_lines,
    other_words,
    switch,
)
from memory_server.cli.search_arguments import ABOUT_ARCHIVED, ABOUT_SCOPE, OF_TOOL, SEARCH

_ID_OR_NAME = N_("id (or its beginning) of a memory or entry, or name of a long-term memory")


def looking(add: Add) -> None:
    """Add the parsers of the commands that look, from `list` to `knowledge`."""
    list_ = add(
        "list",
        "List what is stored, newest first.",
        "list --family notes",
        meaning_of_c=ALL,
        listed=("list, show", N_("List what is stored; show one memory.")),
    )
    switch(list_, "--archived", ABOUT_ARCHIVED)

    show = add(
        "show",
        "Show everything that is known about one memory.",
        "show 3f2a",
        meaning_of_c=ALL,
    )
    argument(show, "memory", "ID|NAME", _ID_OR_NAME)

    search = add(
        "search",
        "Find memories by words, dates, scores and tags.",
        "search mango --since 2026-05-01",
        meaning_of_c=ALL,
        listed=True,
    )
    argument(
        search,
        OF_TOOL + "query",
        "TEXT",
        "text whose words are searched for",
        nargs="?",
        default=argparse.SUPPRESS,
    )

    # Errors name the flag in place of the tool's argument.
    names = {"query": "TEXT", "conversation_id": "-c"}
    for row in SEARCH:
        options = dict(row.options)
        if row.metavar is not None:
            options["metavar"] = row.metavar
        dest = OF_TOOL + row.name
        search.add_argument(
            row.flag, dest=dest, help=row.about, default=argparse.SUPPRESS, **options
        )
        names[row.name] = row.flag
    search.set_defaults(sentence=OF_TOOL + "query", names=names)

    explain = add(
        "explain",
        "Explain why a memory is recalled, or why not.",
        'explain mango --ask "What can I bake?"',
        meaning_of_c=ALL,
        listed=("explain, recalls", N_("Explain why a memory came or not; list recalls.")),
    )
    argument(explain, "--ask", "TEXT", "a message of the user (may be repeated)", action="append")
    argument(explain, "memory", "ID|WORDS", "id of a short-term memory, or words of it", nargs="?")
    argument(explain, "--recall", "ID", "explain this recall instead; `recalls` shows its id")
    argument(explain, "--scope", "SCOPE", ABOUT_SCOPE)
    other_words(explain, "other words that were used for the search, separated by commas")
    names = {
        "recentMessages": "--ask",
        "otherWords": "--other-words",
        "memory_id": "ID|WORDS",
        "text": "ID|WORDS",
        "scope": "--scope",
    }
    explain.set_defaults(sentence="memory", names=names)

    recalls = add(
        "recalls",
        "List the recalls, newest last.",
        "recalls -n 5",
        meaning_of_c=ALL,
    )
    recalls.add_argument(
        "-n",
        "--limit",
        metavar="N",
        help="how many recalls to show; usually 20",
        dest="n",
        type=int,
        default=20,
    )
    switch(recalls, "--empty", "only recalls that found nothing")
    json_lines(recalls)

    examine = add(
        "examine",
        "Ask again what was asked before, and show what is recalled otherwise now.",
        "examine --accept",
    )
    argument(
        examine,
        "--limit",
        "N",
        "how many changed answers to show; usually 20",
        type=count,
        default=20,
    )
    switch(examine, "--accept", "compare with the answers of now from now on")
    json_lines(examine)

    web = add(
        "web",
        "Open the page that shows what is remembered, and why.",
        "web",
        meaning_of_c=USUAL,
        listed=("web, view", N_("Open the page, or write it to a file.")),
    )
    argument(
        web, "--port", "N", "port of the page; by default 8771, or the next free one", type=int
    )
    switch(web, "--no-open", "only print the link")

    view = add(
        "view",
        "Write the first two pages to a file that needs no server.",
        "view --html memories.html",
        meaning_of_c=USUAL,
    )
    view.add_argument("--html", metavar="FILE", required=True, help="the file to write")
    switch(view, "--force", "replace a file that exists")

    history = add(
        "history",
        "Show who changed what and when, newest first.",
        "history --limit 5",
        meaning_of_c=ALL,
        listed=True,
    )
    argument(history, "--limit", "N", "how many changes to show; usually 20", type=int)
    argument(
        history, "--steps", "N", "how many steps of each change to show; usually 100", type=int
    )
    argument(list_, "--limit", "N", "how many rows to show; usually 50", type=int)
    json_lines(explain)

    for parser in (list_, show, search, history):
        family(parser)
        json_lines(parser)
    argument(history, "--before", "CHANGE", "only changes before this one")

    json_lines(
        add(
            "where",
            "Show the folders and the settings file in use.",
            "where",
            listed=("where, daemon", N_("Show folders, settings and the shared process.")),
        )
    )

    _knowledge(
        add(
            "knowledge",
            "List and show notes, write pages of them, tidy them up.",
            "knowledge list",
            listed=("knowledge, books", N_("Show and change notes and lorebooks.")),
        )
    )


def _knowledge(parser: ArgumentParser) -> None:
    """Add the arguments of `knowledge`."""
    actions = (
        "list",
        "show",
        "document",
        "projects",
        "reindex",
        "cleanup",
        "delete",
        "restore",
        "promote",
        "assign",
    )

    argument(
        parser,
        "action",
        None,
        "document: write pages of notes; reindex: merge notes with the same content; cleanup: archive "
        "entries that are past their limits; promote: move an entry (its key) to all projects; assign: "
        "assign notes to the project of the folder; words: ask the model of [llm] for other words by "
        "which memories are found",
        choices=(*actions, "words", "history"),
    )
    argument(
        parser,
        "words",
        "WORDS|ID",
        "words, or the number, id or key of an entry, or a project",
        nargs="*",
    )
    argument(
        parser,
        "--space",
        None,
        "list: only this kind",
        choices=("notes", "sessions", "layers", "refs"),
    )

    argument(parser, "--user", "USER", "list: only memories of this user")
    switch(parser, "--archived", "list: only the archive")
    switch(parser, "--json", "list, projects, history: print JSON, one object a line")
    argument(parser, "--limit", "N", "list, history: how many rows to show", type=int)
    argument(
        parser,
        "--type",
        None,
        "document: only this page",
        choices=("tech", "project-tech", "domain"),
    )

    argument(parser, "--output", "DIR", "document: folder of the pages; memory-docs by default")
    switch(parser, "--stable", "document: write pages that change only if a note changes")
    switch(parser, "--force", "document: also replace files that `document` did not write")
    switch(parser, "--verbose", "reindex: show which notes were merged and which were not")
    argument(
        parser,
        "--to",
        "DIR|PROJECT",
        "assign: use this project instead of that of the current folder",
    )
    dry_run(parser, "reindex, cleanup, assign, words: show what would change")
