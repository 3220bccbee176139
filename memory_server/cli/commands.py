"""The arguments and the help of the commands of `memory-server`, grouped by their use.

What else is to be known of a command stands in its row of command_table.py.

`add(name, summary, example)` makes the parser of a command. `about_c`: what `-c` means for it, if it means something.
`listed`: its row of the help of all commands, if that is not its name and summary.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Callable, Mapping
from typing import Any

from memory_server.cli.search_arguments import ABOUT_ARCHIVED, ABOUT_SCOPE, OF_TOOL, SEARCH
from memory_server.kernel.items import FAMILIES
from memory_server.kernel.text import words_between_commas
from memory_server.shared_process.protocol import HOOK_SECONDS
from sandbox.locale import N_, _

Add = Callable[..., ArgumentParser]

MOST_BY_CHANCE = 100
"""The most that the settings `flashback_count` and `random_count` allow."""
_ALL = _("only this conversation; by default all")
_USUAL = _("the conversation; by default that of the settings, or `default`")
_ID_OR_NAME = _("id (or its beginning) of a memory or entry, or name of a long-term memory")
_UNLISTED = ("", "")
_READ = (
    *("native", "node", "gentian", "pack", "worldinfo", "official", "chat", "chat-export", "claude-code", "claude-mem"),
    *("codex", "gemini-cli", "livingmemory", "mem0", "memory-service", "notes-db", "pages", "refs-log"),
)
_WRITTEN = ("native", "node", "pack", "markdown", "csv")


def _daily(add: Add) -> None:
    about = _("Serve MCP on standard input and output (default).")
    both = ("serve, tokens", _("Serve MCP (default); tokens for HTTP."))
    serve = add("serve", about, "serve", listed=both)
    about = _("serve over HTTP instead; by default at the setting http.listen")
    _argument(serve, "--http", "[HOST:]PORT", about, nargs="?", const="")
    clients = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf", "sillytavern")
    both = ("install, uninstall", _("Put the server into a client; take it out."))
    put = _("Put the server into a client's settings.")
    install = add("install", put, "install cursor", listed=both)
    _argument(install, "client", None, _("print: only show what to paste"), choices=(*clients, "print"))
    taken, example = _("Take the server out of a client's settings."), "uninstall cursor"
    uninstall = add("uninstall", taken, example, listed=_UNLISTED)
    _argument(uninstall, "client", None, _("the client to take it out of"), choices=clients)
    for made in (install, uninstall):
        _argument(made, "folder", "FOLDER", _("sillytavern: its folder, or that of one of its users"), nargs="?")
        _argument(made, "--port", "N", _("sillytavern: the port of its page; usually 8000"), type=int, default=8000)
        _argument(made, "--name", "NAME", _("what the client calls the server"), default="memory")
        _argument(made, "--project", "DIR", _("for this project only"), nargs="?", const=".")
        _dry_run(made, _("show what would change"))
    _switch(install, "--with-hooks", _("claude-code, vscode, cursor: also add hooks that recall and remember"))

    about, both = _("Use the memory of a server."), ("link, unlink", _("Use the memory of a server, or that of here."))
    example = "link https://home.example --token-file ~/memory-token"
    link = add("link", about, example, listed=both)
    _argument(link, "url", "URL", _("where the server is reached"), nargs="?")
    _argument(link, "--token-file", "FILE", _("file that holds the token, which only you may read"))
    _argument(link, "--ca", "FILE", _("certificate of an authority of your own"))
    _switch(link, "--send", _("give the server what was remembered here; twice is once"))
    _switch(link, "--yes", _("with --send: do not ask"))
    _switch(link, "--retry-refused", _("send again the turns that the server refused; `where` names them"))
    _dry_run(link, _("with --send or --retry-refused: say what would change"))
    add("unlink", _("Use the memory of this machine again."), "unlink", listed=_UNLISTED)
    about = _("Recall and remember as a hook of a client.")
    hook = add("hook", about, "hook < event.json", listed=_UNLISTED)
    recalled = _("Print what comes to mind, ready for a prompt.")
    both = ("recall, remember", _("Recall before a turn; remember after it."))
    example = 'recall "What was the name of my cat?"'
    recall = add("recall", recalled, example, about_c=_USUAL, listed=both)
    at_most = _("characters of recalled text at most; usually 800, after a Chinese prompt 400")
    _argument(hook, "--chars", "N", at_most, type=int)
    _argument(recall, "--chars", "N", _("characters at most; usually 1,200"), type=int)
    about = _("memories of each kind that come by chance; usually none")
    _argument(hook, "--flashbacks", "N", about, type=_count, default=0)
    _argument(recall, "--flashbacks", "N", about, type=_count)
    _argument(hook, "--seconds", "S", _("give up after this time, silently"), type=float, default=HOOK_SECONDS)
    about, example = _("Remember what was said in a turn."), 'remember "My cat is called Miso."'
    remember = add("remember", about, example, about_c=_USUAL, listed=_UNLISTED)
    _argument(remember, "--turn", "ID", _("the same turn is stored once"))
    _other_words(recall, _("other words for what may have been said before, with commas between"))
    _other_words(remember, _("other words by which one may ask for it later, with commas between"))
    for made in (recall, remember):
        said = _("what the user said; by default messages as JSON on standard input")
        _argument(made, "words", "WORDS", said, nargs="?")
        made.set_defaults(sentence="words")
        _argument(made, "--session", "ID", _("the session of this turn; memories of other sessions come at once"))
        _switch(made, "--json", _("print the tool's result, or an error, as JSON"))
        _switch(made, "--start", _("start the shared process where it does not run; later calls are faster"))
    about = _("Store nothing for a while, and stop hooks from recalling.")
    both = ("pause, resume", _("Store and recall nothing for a while; go on."))
    pause = add("pause", about, "pause --for 2h", listed=both)
    _argument(pause, "--for", "TIME", _("such as 30m, 2h or 3d; by default until `resume`"), dest="for_")
    add("resume", _("End the pause."), "resume", listed=_UNLISTED)


def _look(add: Add) -> None:
    about = _("List what is stored, newest first.")
    both = ("list, show", _("List what is stored; show one of it."))
    list_ = add("list", about, "list --family notes", about_c=_ALL, listed=both)
    _switch(list_, "--archived", ABOUT_ARCHIVED)
    about = _("Show everything that is known about one memory.")
    show = add("show", about, "show 3f2a", about_c=_ALL, listed=_UNLISTED)
    _argument(show, "memory", "ID|NAME", _ID_OR_NAME)
    about, example = _("Find memories by words, dates, scores and tags."), "search mango --since 2026-05-01"
    search = add("search", about, example, about_c=_ALL)
    about = _("Text; its words are looked for")
    _argument(search, OF_TOOL + "query", "TEXT", about, nargs="?", default=argparse.SUPPRESS)
    for name, flag, metavar, kind, about in SEARCH:
        kind = dict(kind) | ({} if metavar is None else {"metavar": metavar})
        search.add_argument(flag, dest=OF_TOOL + name, help=about, default=argparse.SUPPRESS, **kind)
    names = {"query": "TEXT", "conversation_id": "-c", **{row[0]: row[1] for row in SEARCH}}
    search.set_defaults(sentence=OF_TOOL + "query", names=names)
    about, example = _("Say why a memory comes to mind, or does not."), 'explain mango --ask "What can I bake?"'
    both = ("explain, recalls", _("Say why a memory came or not; list what came."))
    explain = add("explain", about, example, about_c=_ALL, listed=both)
    _argument(explain, "--ask", "TEXT", _("a message of the user (may be repeated)"), action="append")
    _argument(explain, "memory", "ID|WORDS", _("id of a short-term memory, or words of it"), nargs="?")
    about = _("instead: what came at that moment, and why; `recalls` shows its id")
    _argument(explain, "--recall", "ID", about)
    _argument(explain, "--scope", "SCOPE", ABOUT_SCOPE)
    _other_words(explain, _("other words that the search was given, with commas between"))
    names = {
        "recentMessages": "--ask",
        "otherWords": "--other-words",
        "memory_id": "ID|WORDS",
        "text": "ID|WORDS",
        "scope": "--scope",
    }
    explain.set_defaults(sentence="memory", names=names)
    about = _("List what was recalled for whom, newest last.")
    recalls = add("recalls", about, "recalls -n 5", about_c=_ALL, listed=_UNLISTED)
    about = _("recalls shown; usually 20")
    recalls.add_argument("-n", "--limit", metavar="N", help=about, dest="n", type=int, default=20)
    _switch(recalls, "--empty", _("only those to which nothing came"))
    _json(recalls)
    about = _("Open the page: what it remembers, and why.")
    both = ("web, view", _("Open the page; write it to a file."))
    web = add("web", about, "web", about_c=_USUAL, listed=both)
    _argument(web, "--port", "N", _("by default 8771, or the next free one"), type=int)
    _switch(web, "--no-open", _("only print the link"))
    about = _("Write the first two pages to a file that needs no server.")
    view = add("view", about, "view --html memories.html", about_c=_USUAL, listed=_UNLISTED)
    view.add_argument("--html", metavar="FILE", required=True, help=_("the file to write"))
    _switch(view, "--force", _("replace a file that exists"))
    about = _("Show who changed what and when, newest first.")
    history = add("history", about, "history --limit 5", about_c=_ALL)
    _argument(history, "--limit", "N", _("changes shown; usually 20"), type=int)
    _argument(history, "--steps", "N", _("steps shown of each change; usually 100"), type=int)
    _argument(list_, "--limit", "N", _("rows shown; usually 50"), type=int)
    _json(explain)
    for made in (list_, show, search, history):
        _family(made)
        _json(made)
    _argument(history, "--before", "CHANGE", _("only changes before this one"))
    about, both = _("Show which folder holds what."), ("where, daemon", _("Show which folder and process does what."))
    _json(add("where", about, "where", listed=both))
    about, example = _("Look into notes, make pages of them, tidy them."), "knowledge list"
    _knowledge(add("knowledge", about, example))


def _knowledge(made: ArgumentParser) -> None:
    actions = "list", "show", "document", "projects", "reindex", "cleanup", "delete", "restore", "promote", "assign"
    about = _(
        "document: write pages of notes; reindex: merge notes that say the same; cleanup: archive what is over; "
        "promote: move an entry (its key) to all projects; assign: give notes to the project of the folder; "
        "words: ask the model of [llm] for other words by which memories are found"
    )
    _argument(made, "action", None, about, choices=(*actions, "words", "history"))
    _argument(made, "words", "WORDS|ID", _("words, or the number, id or key of an entry, or a project"), nargs="*")
    _argument(made, "--space", None, _("list: only these"), choices=("notes", "sessions", "layers", "refs"))
    _argument(made, "--user", "USER", _("list: only memories of this user"))
    _switch(made, "--archived", _("list: what is in the archive"))
    _switch(made, "--json", _("list, projects, history: JSON, one line each"))
    _argument(made, "--limit", "N", _("list, history: rows shown"), type=int)
    _argument(made, "--type", None, _("document: only this page"), choices=("tech", "project-tech", "domain"))
    _argument(made, "--output", "DIR", _("document: folder of the pages; memory-docs by default"))
    _switch(made, "--stable", _("document: pages that change only if a note does"))
    _switch(made, "--force", _("document: replace files that are not ours"))
    _switch(made, "--verbose", _("reindex: show what was merged and what was kept apart"))
    _argument(made, "--to", "DIR|PROJECT", _("assign: this project in place of that of the working folder"))
    _dry_run(made, _("reindex, cleanup, assign, words: show what would change"))


def _mend(add: Add) -> None:
    about = _("Take back a change, or without its id the last one; later changes stay. Or bring a memory back.")
    short = ("undo", _("Take back a change, or bring a memory back."))
    undo = add("undo", about, "undo 12-37a8", about_c=_ALL, listed=short)
    _argument(undo, "change", "CHANGE", _("the id of a change, as `history` shows it"), nargs="?")
    removed = _("bring back memories that were deleted or forgotten")
    _argument(undo, "--memory", "ID|NAME", removed, nargs="*")
    _argument(undo, "--pattern", "PATTERN", _("of these, whose text holds this word or matches /regex/flags"))
    _argument(undo, "--since", "TIME", _("of these, removed at this ISO time or later"))
    _argument(undo, "--until", "TIME", _("of these, removed at this ISO time or earlier"))
    _argument(undo, "--family", None, _("the last change of these"), choices=FAMILIES)
    _switch(undo, "--yes", _("do not ask"))
    _dry_run(undo, _("show the last change, or the memories that would come back"))
    about, example = _("Forget what holds these words; erase it for good."), "forget dentist Halloran"
    forget = add("forget", about, example, about_c=_ALL)
    about = _("words that it holds, all of them; or ids, as `list` shows them")
    _argument(forget, "words", "WORDS|ID", about, nargs="*")
    _argument(forget, "--family", None, _("only these"), choices=FAMILIES)
    _argument(forget, "--since", "TIME", _("only what was said or changed at this ISO time or later"))
    _argument(forget, "--until", "TIME", _("only what was said or changed at this ISO time or earlier"))
    _argument(forget, "--user", "USER", _("only facts of this user, also all of them"))
    _switch(forget, "--for-good", _("erase the text from everything that is kept; no undo brings it back"))
    _switch(forget, "--in-backups", _("with --for-good: also from the backups"))
    _switch(forget, "--yes", _("do not ask"))
    _dry_run(forget, _("show what would go"))
    both = ("pin, mute, edit", _("Keep a memory; let it not come; correct it."))
    about = _("Keep a memory for good, or (--off) no longer.")
    pin = add("pin", about, "pin 3f2a", about_c=_ALL, listed=both)
    _argument(pin, "memory", "ID", _("id of the memory, or its beginning"))
    _switch(pin, "--off", _("let the clean-up forget it when it has faded"))
    about = _("Let a memory no longer come unasked in its conversation.")
    mute = add("mute", about, "mute 3f2a", about_c=_ALL, listed=_UNLISTED)
    _argument(mute, "memory", "ID", _("id of the memory, or its beginning"))
    where = mute.add_mutually_exclusive_group()
    mute.set_defaults(where="conversation")
    for flag, words in (
        ("folder", _("in this folder, and in every conversation there")),
        ("everywhere", _("in every conversation and folder")),
    ):
        where.add_argument(f"--{flag}", dest="where", action="store_const", const=flag, help=words)
    words = _("let it come again everywhere")
    where.add_argument("--off", dest="where", action="store_const", const="nowhere", help=words)
    about = _("Correct a memory: put other words into it.")
    edit = add("edit", about, "edit 3f2a Halloran O'Halloran", about_c=_ALL, listed=_UNLISTED)
    _argument(edit, "memory", "ID", _("id of the memory, or its beginning"))
    _argument(edit, "find", "FIND", _("words that one of its messages has once"), nargs="?")
    _argument(edit, "replacement", "REPLACEMENT", _("what comes in their place; '' takes them out"), nargs="?")
    _other_words(edit, _("the other words that are kept with it, with commas between; '' takes them away"))
    about = _("Forget faded memories; archive expired entries.")
    cleanup = add("cleanup", about, "cleanup --dry-run", about_c=_ALL)
    _dry_run(cleanup, _("say what would be forgotten, and why"))

    about = _("Copy all memories, while servers go on writing.")
    both = ("backup", _("Copy all memories; backup list, restore, delete."))
    backup = add("backup", about, "backup before-move", about_c=_ALL, listed=both)
    _argument(backup, "name", "NAME", _("name of the backup; by default the time"), nargs="?")
    _switch(backup, "--all-tenants", _("also the memories of every tenant, each in its own folder"))
    add("backup list", _("List the backups."), "backup list", listed=_UNLISTED)
    about, example = _("Bring the memories of a backup back."), "backup restore before-move --dry-run"
    restore = add("backup restore", about, example, about_c=_ALL, listed=_UNLISTED)
    _switch(restore, "--overwrite", _("also remove what the backup does not hold"))
    _dry_run(restore, _("say what would change"))
    about = _("Delete a backup for good.")
    delete = add("backup delete", about, "backup delete before-move", listed=_UNLISTED)
    for made in (restore, delete):
        _argument(made, "name", "NAME", _("name of the backup"))

    about = _("Examine folder, disk, files and clock; mend them.")
    doctor = add("doctor", about, "doctor", about_c=_ALL)
    _switch(doctor, "--json", _("print the findings as JSON"))
    work = doctor.add_mutually_exclusive_group()
    _switch(work, "--repair", _("mend broken files: set them aside whole, and go on with the last good state"))
    _switch(work, "--reindex", _("find the words of older memories again, with the present settings"))
    _dry_run(doctor, _("with --repair or --reindex: say what would change"))
    about, example = _("Copy conversations with their past to another store."), "copy --to postgresql://me@host/name"
    both = ("copy, migrate", _("Copy all to another store; renew its tables."))
    copy = add("copy", about, example, listed=both)
    _argument(copy, "conversations", "CONVERSATION", _("conversations to copy; by default all"), nargs="*")
    from_ = _(
        "folder or URL of PostgreSQL, without the password, which all users of the machine could see: it goes into "
        "~/.pgpass or MEMORY_SERVER_STORE; by default what the settings say"
    )
    _argument(copy, "--from", "STORE", from_, dest="from_")
    _argument(copy, "--to", "STORE", _("the same"))
    _dry_run(copy, _("say what would be copied"))
    about = _("Bring the tables of a PostgreSQL database up to date.")
    migrate = add("migrate", about, "migrate --dry-run", listed=_UNLISTED)
    _dry_run(migrate, _("say what is missing"))
    about = _("Give, list or take back the tokens of `serve --http`.")
    tokens = add("tokens", about, "tokens add phone --tenant alice", listed=_UNLISTED)
    about = _("add: print a new one, for --tenant NAME and with --read-only if these are given; remove: take it back")
    _argument(tokens, "action", None, about, choices=("add", "list", "remove"))
    _argument(tokens, "name", "NAME", _("name of the token"), nargs="?")
    _switch(tokens, "--operator", _("add: it also reads /metrics"))
    _argument(tokens, "--days", "N", _("add: it ends after so many days"), type=float)
    _switch(tokens, "--erase", _("remove: also erase everything of its tenant for good"))
    _switch(tokens, "--yes", _("with --erase: do not ask"))
    about, example = _("Show or end the process that windows share."), "daemon status"
    daemon = add("daemon", about, example, listed=_UNLISTED)
    _argument(daemon, "action", None, _("status: show it; stop: end it"), choices=("status", "stop"))


def _exchange(add: Add) -> None:
    about, example = _("Write memories for people or programs."), "export memories.md --format markdown"
    both = ("export, import", _("Write memories; bring in those of other programs."))
    export = add("export", about, example, about_c=_ALL, listed=both)
    _argument(export, "target", "FILE|FOLDER", _("what to write; - for standard output"))
    forms = _("native (everything) by default")
    _argument(export, "--format", None, forms, dest="to", choices=_WRITTEN, default="native")
    _switch(export, "--force", _("replace a file that exists"))
    _family(export)
    _argument(export, "--type", None, _("only notes of this type"), choices=("tech", "project-tech", "domain"))
    _argument(export, "--tags", "TAGS", _("only entries that have one of these tags, with commas between"), default="")
    about, example = _("Bring in chats, and memories of other programs."), "import conversations.json --dry-run"
    into = _("for what names no conversation; by default that of the settings, or `default`")
    import_ = add("import", about, example, about_c=into, listed=_UNLISTED)
    _source(import_, nargs="+")
    _dry_run(import_, _("say what would be imported, what would not, and why"))
    chat = import_.add_argument_group(_("for a chat"))
    _argument(
        chat, "--ask", "TEXT", _("then ask this, and show what comes (may be repeated)"), action="append", default=[]
    )
    _switch(chat, "--shift-to-now", _("move all times so that the chat ended an hour ago, for trying things out"))
    about = _("Store a tested trigger: a .js file, or a pack.")
    example = 'add-trigger mother.js --prompt "Ask how his mother is."'
    trigger = add("add-trigger", about, example, about_c=_USUAL)
    _argument(trigger, "source", "FILE", _("a .js file, or a pack (.json)"), nargs="+")
    _argument(trigger, "--prompt", "TEXT", _("for a .js file: what the model reads when it fires"))
    _argument(trigger, "--name", "NAME", _("for a .js file: the name of the memory; by default that of the file"))
    _argument(trigger, "--encoding", "NAME", _("such as gb18030; by default UTF-8"))
    about, example = _("Make a pack from files of other programs."), "convert book.json pack.json"
    convert = add("convert", about, example)
    _source(convert)
    _argument(convert, "target", "TO", _("file or folder to write; - for standard output"))
    _argument(convert, "--as", None, _("form to write; pack by default"), dest="to", choices=_WRITTEN, default="pack")
    _switch(convert, "--force", _("replace a file that exists"))


def _source(parser: argparse.ArgumentParser, **more: Any) -> None:
    _argument(parser, "source", "FROM", _("file, database or folder to read; - for standard input"), **more)
    _argument(parser, "--format", None, _("form of the file; by default it is recognized"), choices=_READ)
    _argument(parser, "--encoding", "NAME", _("such as gb18030; by default UTF-8"))
    _argument(parser, "--char", "NAME", _("who {{char}} is: the name of the assistant in a chat or lorebook"))
    _argument(parser, "--user", "NAME", _("who {{user}} is"))
    lorebook = parser.add_argument_group(_("for a lorebook"))
    _argument(lorebook, "--depth", "N", _("messages to scan where the entry does not say it"), type=int)
    _switch(lorebook, "--substrings", _("keys match inside words, where the entry does not say it"))
    _switch(lorebook, "--case-sensitive", _("upper case counts, where the entry does not say it"))


def _develop(add: Add) -> None:
    about = _("Store a sample chat and ask about it.")
    both = ("demo, tools, call", _("Try it on a sample chat; list tools, and call one."))
    demo = add("demo", about, "demo", listed=both)
    _switch(demo, "--all", _("ask all questions, and show what comes by chance"))
    _switch(demo, "--why", _("also the words and points by which each memory came"))
    about = _("List the tools, or show one with an example.")
    tools = add("tools", about, "tools add_long_term_memory", listed=_UNLISTED)
    _argument(tools, "name", "TOOLSET|TOOL", _("only this toolset, or the arguments of this tool"), nargs="?")
    _json(tools)
    about, example = _("Call a tool and print its result as JSON."), "call get_memory_stats '{}'"
    call = add("call", about, example, about_c=_USUAL, listed=_UNLISTED)
    _argument(call, "tool", "TOOL", _("name of a tool, such as search_short_term_memories"))
    about = _("its arguments: JSON, @FILE, or - for standard input")
    _argument(call, "arguments", "JSON", about, nargs="?", default="{}")
    _switch(call, "--text", _("print the text for people instead"))


GROUPS: Mapping[str, Callable[[Add], None]] = {
    N_("daily"): _daily,
    N_("look"): _look,
    N_("mend"): _mend,
    N_("exchange"): _exchange,
    N_("develop"): _develop,
}


def _other_words(made: ArgumentParser, about: str) -> None:
    made.add_argument("--other-words", metavar="WORDS", type=words_between_commas, help=about)


def _argument(made: ArgumentParser | _ArgumentGroup, name: str, metavar: str | None, about: str, **more: Any) -> None:
    made.add_argument(name, metavar=metavar, help=about, **more)


def _switch(made: ArgumentParser | _ArgumentGroup, name: str, about: str) -> None:
    made.add_argument(name, action="store_true", help=about)


def _json(made: ArgumentParser) -> None:
    _switch(made, "--json", _("JSON, one line each"))


def _family(made: ArgumentParser) -> None:
    _argument(made, "--family", None, _("only this family"), choices=FAMILIES)


def _dry_run(made: ArgumentParser, what: str) -> None:
    _switch(made, "--dry-run", _("only {what}", what))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_BY_CHANCE):
        reason = _("`{text}` is not a whole number from 0 to {by_chance}", text, MOST_BY_CHANCE)
        raise argparse.ArgumentTypeError(reason)
    return int(text)
