"""The arguments and the help of the commands that look. The other commands are in commands.py."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser

from languages import N_, _
from memory_server.cli.command_arguments import (
    ALL,
    UNLISTED,
    USUAL,
    Add,
    argument,
    dry_run,
    family,
    json_lines,
    other_words,
    switch,
)
from memory_server.cli.search_arguments import ABOUT_ARCHIVED, ABOUT_SCOPE, OF_TOOL, SEARCH

_ID_OR_NAME = N_("id (or its beginning) of a memory or entry, or name of a long-term memory")


def looking(add: Add) -> None:
    about = _("List what is stored, newest first.")
    both = ("list, show", _("List what is stored; show one memory."))
    list_ = add("list", about, "list --family notes", about_c=ALL, listed=both)
    switch(list_, "--archived", ABOUT_ARCHIVED)

    about = _("Show everything that is known about one memory.")
    show = add("show", about, "show 3f2a", about_c=ALL, listed=UNLISTED)
    argument(show, "memory", "ID|NAME", _ID_OR_NAME)

    about = _("Find memories by words, dates, scores and tags.")
    example = "search mango --since 2026-05-01"
    search = add("search", about, example, about_c=ALL)
    about = _("text whose words are searched for")
    argument(search, OF_TOOL + "query", "TEXT", about, nargs="?", default=argparse.SUPPRESS)

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

    about = _("Explain why a memory is recalled, or why not.")
    example = 'explain mango --ask "What can I bake?"'
    both = ("explain, recalls", _("Explain why a memory came or not; list recalls."))
    explain = add("explain", about, example, about_c=ALL, listed=both)
    argument(
        explain, "--ask", "TEXT", _("a message of the user (may be repeated)"), action="append"
    )
    argument(
        explain, "memory", "ID|WORDS", _("id of a short-term memory, or words of it"), nargs="?"
    )
    about = _("explain this recall instead; `recalls` shows its id")
    argument(explain, "--recall", "ID", about)
    argument(explain, "--scope", "SCOPE", ABOUT_SCOPE)
    other_words(explain, _("other words that were used for the search, separated by commas"))
    names = {
        "recentMessages": "--ask",
        "otherWords": "--other-words",
        "memory_id": "ID|WORDS",
        "text": "ID|WORDS",
        "scope": "--scope",
    }
    explain.set_defaults(sentence="memory", names=names)

    about = _("List the recalls, newest last.")
    recalls = add("recalls", about, "recalls -n 5", about_c=ALL, listed=UNLISTED)
    about = _("how many recalls to show; usually 20")
    recalls.add_argument("-n", "--limit", metavar="N", help=about, dest="n", type=int, default=20)
    switch(recalls, "--empty", _("only recalls that found nothing"))
    json_lines(recalls)

    about = _("Open the page that shows what is remembered, and why.")
    both = ("web, view", _("Open the page, or write it to a file."))
    web = add("web", about, "web", about_c=USUAL, listed=both)
    argument(
        web, "--port", "N", _("port of the page; by default 8771, or the next free one"), type=int
    )
    switch(web, "--no-open", _("only print the link"))

    about = _("Write the first two pages to a file that needs no server.")
    view = add("view", about, "view --html memories.html", about_c=USUAL, listed=UNLISTED)
    view.add_argument("--html", metavar="FILE", required=True, help=_("the file to write"))
    switch(view, "--force", _("replace a file that exists"))

    about = _("Show who changed what and when, newest first.")
    history = add("history", about, "history --limit 5", about_c=ALL)
    argument(history, "--limit", "N", _("how many changes to show; usually 20"), type=int)
    argument(
        history, "--steps", "N", _("how many steps of each change to show; usually 100"), type=int
    )
    argument(list_, "--limit", "N", _("how many rows to show; usually 50"), type=int)
    json_lines(explain)

    for parser in (list_, show, search, history):
        family(parser)
        json_lines(parser)
    argument(history, "--before", "CHANGE", _("only changes before this one"))

    about = _("Show the folders and the settings file in use.")
    both = ("where, daemon", _("Show folders, settings and the shared process."))
    json_lines(add("where", about, "where", listed=both))

    about = _("List and show notes, write pages of them, tidy them up.")
    example = "knowledge list"
    both = ("knowledge, books", _("Show and change notes and lorebooks."))
    _knowledge(add("knowledge", about, example, listed=both))


def _knowledge(parser: ArgumentParser) -> None:
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
    about = _(
        "document: write pages of notes; reindex: merge notes with the same content; cleanup: archive "
        "entries that are past their limits; promote: move an entry (its key) to all projects; assign: "
        "assign notes to the project of the folder; words: ask the model of [llm] for other words by "
        "which memories are found"
    )

    argument(parser, "action", None, about, choices=(*actions, "words", "history"))
    argument(
        parser,
        "words",
        "WORDS|ID",
        _("words, or the number, id or key of an entry, or a project"),
        nargs="*",
    )
    argument(
        parser,
        "--space",
        None,
        _("list: only this kind"),
        choices=("notes", "sessions", "layers", "refs"),
    )

    argument(parser, "--user", "USER", _("list: only memories of this user"))
    switch(parser, "--archived", _("list: only the archive"))
    switch(parser, "--json", _("list, projects, history: print JSON, one object a line"))
    argument(parser, "--limit", "N", _("list, history: how many rows to show"), type=int)
    argument(
        parser,
        "--type",
        None,
        _("document: only this page"),
        choices=("tech", "project-tech", "domain"),
    )

    argument(parser, "--output", "DIR", _("document: folder of the pages; memory-docs by default"))
    switch(parser, "--stable", _("document: write pages that change only if a note changes"))
    switch(parser, "--force", _("document: also replace files that `document` did not write"))
    switch(parser, "--verbose", _("reindex: show which notes were merged and which were not"))
    argument(
        parser,
        "--to",
        "DIR|PROJECT",
        _("assign: use this project instead of that of the current folder"),
    )
    dry_run(parser, _("reindex, cleanup, assign, words: show what would change"))
