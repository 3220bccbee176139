"""The arguments and the help of the commands of `memory-server`, grouped by their use.

The other facts about a command are in its row of command_table.py. `add(name, summary, example)` makes the parser of
a command. `about_c` says what `-c` means for the command, if it has a meaning. `listed` is the command's row in the
help of all commands, if that is not its name and summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from languages import N_, _
from memory_server.cli.command_arguments import (
    ALL,
    UNLISTED,
    USUAL,
    Add,
    argument,
    count,
    dry_run,
    json_lines,
    number_of_messages,
    other_words,
    switch,
)
from memory_server.cli.exchange_commands import exchange
from memory_server.cli.looking_commands import looking
from memory_server.kernel.items import FAMILIES
from memory_server.process.protocol import HOOK_SECONDS


def _daily(add: Add) -> None:
    _serving(add)
    _installing(add)
    _linking(add)
    _turns(add)
    _pausing(add)


def _serving(add: Add) -> None:
    about = _("Serve MCP on standard input and output (default).")
    both = ("serve, tokens", _("Serve MCP (default); tokens for HTTP."))

    serve = add("serve", about, "serve", listed=both)

    about = _("serve over HTTP instead; by default at the setting http.listen")
    argument(serve, "--http", "[HOST:]PORT", about, nargs="?", const="")


def _installing(add: Add) -> None:
    clients = (
        "claude-code",
        "claude-desktop",
        "cursor",
        "vscode",
        "codex",
        "gemini",
        "windsurf",
        "sillytavern",
    )

    both = ("install, uninstall", _("Add the server to a client, or remove it."))
    put = _("Add the server to a client's settings.")
    install = add("install", put, "install cursor", listed=both)

    argument(
        install, "client", None, _("print: only show what to paste"), choices=(*clients, "print")
    )

    taken = _("Remove the server from a client's settings.")
    example = "uninstall cursor"
    uninstall = add("uninstall", taken, example, listed=UNLISTED)
    argument(uninstall, "client", None, _("the client from which to remove it"), choices=clients)

    for parser in (install, uninstall):
        argument(
            parser,
            "folder",
            "FOLDER",
            _("sillytavern: the folder of SillyTavern, or that of one of its users"),
            nargs="?",
        )
        argument(
            parser,
            "--port",
            "N",
            _("sillytavern: the port of the SillyTavern page; usually 8000"),
            type=int,
            default=8000,
        )
        argument(parser, "--name", "NAME", _("what the client calls the server"), default="memory")
        argument(parser, "--project", "DIR", _("only for this project"), nargs="?", const=".")
        dry_run(parser, _("show what would change"))

    switch(
        install,
        "--with-hooks",
        _("claude-code, vscode, cursor: also add hooks that recall and remember"),
    )
    argument(
        install,
        "--hooks",
        None,
        _("claude-code: with `prompts`, add no hooks that run at each call of a tool"),
        choices=("all", "prompts"),
        default="all",
    )


def _linking(add: Add) -> None:
    about = _("Use the memory of a server.")
    both = ("link, unlink", _("Use a server's memory, or this machine's again."))
    example = "link https://home.example --token-file ~/memory-token"
    link = add("link", about, example, listed=both)

    argument(link, "url", "URL", _("URL of the server"), nargs="?")
    argument(
        link, "--token-file", "FILE", _("file with the token; only you may be able to read it")
    )

    argument(link, "--ca", "FILE", _("certificate of your own certificate authority"))
    switch(
        link,
        "--send",
        _(
            "send the memories of this machine to the server; if you send them again, they are not stored twice"
        ),
    )
    switch(link, "--yes", _("with --send: do not ask"))
    switch(
        link,
        "--retry-refused",
        _("send the turns again that the server refused; `where` lists them"),
    )

    dry_run(link, _("with --send or --retry-refused: show what would change"))
    add("unlink", _("Use the memory of this machine again."), "unlink", listed=UNLISTED)


def _turns(add: Add) -> None:
    about = _("Recall and remember as a hook of a client.")
    hook = add("hook", about, "hook < event.json", listed=UNLISTED)

    recalled = _("Print what comes to mind, ready for a prompt.")
    both = ("recall, remember", _("Recall before a turn; remember after it."))
    example = 'recall "What was the name of my cat?"'
    recall = add("recall", recalled, example, about_c=USUAL, listed=both)

    # A hook gets less room than the command, because its text comes unasked.
    at_most = _(
        "at most this many characters of recalled text; usually 800, or 400 after a Chinese prompt"
    )
    argument(hook, "--chars", "N", at_most, type=int)
    argument(recall, "--chars", "N", _("characters at most; usually 7,200"), type=int)
    about = _(
        "how many messages the chat has; by default, each recall of the session counts as one"
    )
    argument(recall, "--messages", "N", about, type=number_of_messages)
    about = _("how many random memories of each kind to add; usually none")
    argument(hook, "--flashbacks", "N", about, type=count, default=0)
    argument(recall, "--flashbacks", "N", about, type=count)
    argument(
        hook,
        "--seconds",
        "S",
        _("give up after so many seconds, without an error"),
        type=float,
        default=HOOK_SECONDS,
    )

    about = _("Remember what was said in a turn.")
    example = 'remember "My cat is called Miso."'
    remember = add("remember", about, example, about_c=USUAL, listed=UNLISTED)
    argument(
        remember, "--turn", "ID", _("id of the turn; a turn with the same id is stored only once")
    )
    other_words(recall, _("other words for what may have been said before, separated by commas"))
    other_words(
        remember, _("other words that a later question may use for it, separated by commas")
    )

    for parser in (recall, remember):
        about = _("what the user said; by default messages as JSON on standard input")
        argument(parser, "words", "WORDS", about, nargs="?")
        parser.set_defaults(sentence="words")
        argument(
            parser,
            "--session",
            "ID",
            _("the session of this turn; memories of other sessions are recalled at once"),
        )
        switch(parser, "--json", _("print the tool's result, or an error, as JSON"))
        switch(
            parser,
            "--start",
            _("start the shared process if it is not running; later calls are then faster"),
        )


def _pausing(add: Add) -> None:
    about = _("Store nothing for a while, and stop hooks from recalling.")
    both = ("pause, resume", _("Pause storing and recalling, or resume them."))
    pause = add("pause", about, "pause --for 2h", listed=both)
    argument(
        pause,
        "--for",
        "TIME",
        _("how long, such as 30m, 2h or 3d; by default until `resume`"),
        dest="for_",
    )
    add("resume", _("End the pause."), "resume", listed=UNLISTED)


def _mend(add: Add) -> None:
    _undoing(add)
    _forgetting(add)
    _correcting(add)
    _books(add)
    _cleaning_up(add)
    _backing_up(add)
    _examining(add)
    _stores(add)
    _tokens(add)
    _daemon(add)


def _undoing(add: Add) -> None:
    about = _(
        "Undo a change, or the last one if you give no id; later changes stay. Or bring a memory back."
    )
    short = ("undo", _("Undo a change, or bring a memory back."))
    undo = add("undo", about, "undo 12-37a8", about_c=ALL, listed=short)

    argument(undo, "change", "CHANGE", _("the id of a change, as `history` shows it"), nargs="?")

    removed = _("bring back memories that were deleted or forgotten")
    argument(undo, "--memory", "ID|NAME", removed, nargs="*")
    argument(
        undo,
        "--pattern",
        "PATTERN",
        _("with --memory: only those whose text contains this word or matches /regex/flags"),
    )
    argument(
        undo, "--since", "TIME", _("with --memory: only those removed at this ISO time or later")
    )
    argument(
        undo, "--until", "TIME", _("with --memory: only those removed at this ISO time or earlier")
    )
    argument(undo, "--family", None, _("undo the last change of this kind"), choices=FAMILIES)

    switch(undo, "--yes", _("do not ask"))
    dry_run(undo, _("show the last change, or the memories that would come back"))


def _forgetting(add: Add) -> None:
    about = _("Forget texts with these words, or erase them.")
    example = "forget dentist Halloran"
    both = ("forget, secrets", _("Forget or erase texts; find keys and passwords."))
    forget = add("forget", about, example, about_c=ALL, listed=both)
    about = _("words that must all occur in a text; or ids, as `list` shows them")
    argument(forget, "words", "WORDS|ID", about, nargs="*")

    argument(forget, "--family", None, _("only this kind"), choices=FAMILIES)
    argument(
        forget, "--since", "TIME", _("only what was said or changed at this ISO time or later")
    )
    argument(
        forget, "--until", "TIME", _("only what was said or changed at this ISO time or earlier")
    )
    argument(
        forget, "--user", "USER", _("only facts of this user; without words or ids, all of them")
    )

    switch(
        forget,
        "--for-good",
        _("erase the text from everything that is stored; this cannot be undone"),
    )
    switch(forget, "--in-backups", _("with --for-good: also from the backups"))
    switch(forget, "--yes", _("do not ask"))
    dry_run(forget, _("show what would be forgotten or erased"))

    about = _("Show a text without its secrets, as it would be stored.")
    test = add("secrets test", about, 'secrets test "DB_PASSWORD=hunter22"', listed=UNLISTED)
    argument(test, "text", "TEXT", _("the text; - reads it from standard input"))

    about = _("Erase for good the memories that hold secrets.")
    erase = add("secrets erase", about, "secrets erase --dry-run", listed=UNLISTED)
    switch(erase, "--in-backups", _("also from the backups"))
    switch(erase, "--yes", _("do not ask"))
    dry_run(erase, _("show what would be erased"))


def _correcting(add: Add) -> None:
    both = ("pin, mute, edit", _("Keep a memory, mute it, or correct it."))
    about = _("Keep a memory for good; --off ends that.")
    pin = add("pin", about, "pin 3f2a", about_c=ALL, listed=both)
    argument(pin, "memory", "ID", _("id of the memory, or its beginning"))
    switch(pin, "--off", _("let the clean-up forget it when it has faded"))

    about = _("Stop a memory from coming unasked in its conversation.")
    mute = add("mute", about, "mute 3f2a", about_c=ALL, listed=UNLISTED)
    argument(mute, "memory", "ID", _("id of the memory, or its beginning"))

    # The group refuses two of its flags together: a memory is muted in one kind of place.
    where = mute.add_mutually_exclusive_group()
    mute.set_defaults(where="conversation")
    for flag, words in (
        ("folder", _("in this folder, and in every conversation there")),
        ("everywhere", _("in every conversation and folder")),
    ):
        where.add_argument(f"--{flag}", dest="where", action="store_const", const=flag, help=words)
    words = _("let the memory come unasked again, everywhere")
    where.add_argument("--off", dest="where", action="store_const", const="nowhere", help=words)

    about = _("Correct a memory: replace some of its words.")
    edit = add("edit", about, "edit 3f2a Halloran O'Halloran", about_c=ALL, listed=UNLISTED)
    argument(edit, "memory", "ID", _("id of the memory, or its beginning"))
    argument(
        edit,
        "find",
        "FIND",
        _("the words to replace; they must occur exactly once in the memory"),
        nargs="?",
    )
    argument(
        edit,
        "replacement",
        "REPLACEMENT",
        _("the new words; '' only removes the old ones"),
        nargs="?",
    )
    other_words(
        edit,
        _("the other words that are kept with the memory, separated by commas; '' removes them"),
    )


def _cleaning_up(add: Add) -> None:
    about = _("Forget faded memories; archive expired entries.")
    cleanup = add("cleanup", about, "cleanup --dry-run", about_c=ALL)
    dry_run(cleanup, _("show what would be forgotten, and why"))


def _backing_up(add: Add) -> None:
    about = _("Back up all memories while servers keep writing.")
    both = ("backup", _("Back up all memories; list or restore backups."))
    backup = add("backup", about, "backup before-move", about_c=ALL, listed=both)
    about = _(
        "name of the backup; by default the time. `backup list`, `backup restore NAME` and `backup delete NAME` "
        "are commands of their own"
    )
    argument(backup, "name", "NAME", about, nargs="?")
    switch(backup, "--all-tenants", _("also the memories of every tenant, each in its own folder"))

    add("backup list", _("List the backups."), "backup list", listed=UNLISTED)
    about = _("Restore the memories of a backup.")
    example = "backup restore before-move --dry-run"
    restore = add("backup restore", about, example, about_c=ALL, listed=UNLISTED)
    switch(restore, "--overwrite", _("also remove memories that are not in the backup"))
    dry_run(restore, _("show what would change"))

    about = _("Delete a backup for good.")
    delete = add("backup delete", about, "backup delete before-move", listed=UNLISTED)
    for parser in (restore, delete):
        argument(parser, "name", "NAME", _("name of the backup"))


def _examining(add: Add) -> None:
    about = _("Check folder, disk, files and clock; repair them.")
    doctor = add("doctor", about, "doctor", about_c=ALL)
    switch(doctor, "--json", _("print the findings as JSON"))
    work = doctor.add_mutually_exclusive_group()
    switch(
        work,
        "--repair",
        _(
            "repair broken files: keep each of them aside as a whole, and continue from the last good state"
        ),
    )
    switch(
        work, "--reindex", _("find the words of older memories again, with the current settings")
    )
    dry_run(doctor, _("with --repair or --reindex: show what would change"))


def _stores(add: Add) -> None:
    about = _("Copy conversations and their history to another store.")
    example = "copy --to postgresql://me@host/name"
    both = ("copy, migrate", _("Copy all to another store; update its tables."))
    copy = add("copy", about, example, listed=both)
    argument(
        copy, "conversations", "CONVERSATION", _("conversations to copy; by default all"), nargs="*"
    )

    from_ = _(
        "folder or PostgreSQL URL; by default the store of the settings. Leave the password out of the "
        "URL, because all users of the machine can see it; put it into ~/.pgpass or MEMORY_SERVER_STORE"
    )
    argument(copy, "--from", "STORE", from_, dest="from_")
    argument(copy, "--to", "STORE", _("as for --from"))
    dry_run(copy, _("show what would be copied"))

    about = _("Update the tables of a PostgreSQL database.")
    migrate = add("migrate", about, "migrate --dry-run", listed=UNLISTED)
    dry_run(migrate, _("show which steps are missing"))


def _tokens(add: Add) -> None:
    about = _("Make, list or revoke the tokens of `serve --http`.")
    tokens = add("tokens", about, "tokens add phone --tenant alice", listed=UNLISTED)
    about = _(
        "add: make a token and print it; --tenant NAME, --timezone ZONE and --read-only before the "
        "command apply to it; remove: revoke the token"
    )

    argument(tokens, "action", None, about, choices=("add", "list", "remove"))
    argument(tokens, "name", "NAME", _("name of the token"), nargs="?")

    switch(tokens, "--operator", _("add: the token may also read /metrics"))
    argument(tokens, "--days", "N", _("add: the token expires after so many days"), type=float)
    switch(tokens, "--erase", _("remove: also erase everything of its tenant for good"))
    switch(tokens, "--yes", _("with --erase: do not ask"))


def _daemon(add: Add) -> None:
    about = _("Show or end the process that windows share.")
    example = "daemon status"
    daemon = add("daemon", about, example, listed=UNLISTED)
    argument(daemon, "action", None, _("status: show it; stop: end it"), choices=("status", "stop"))


def _books(add: Add) -> None:
    about = _("List lorebooks; show one, switch it off or on, or remove it.")
    books = add("books", about, "books off Weather", about_c=ALL, listed=UNLISTED)
    about = _(
        "list: all books (default); show: the entries of a book; off, on: switch a book off or on; "
        "remove: move a book into the archive"
    )
    argument(
        books,
        "action",
        None,
        about,
        nargs="?",
        choices=("list", "show", "off", "on", "remove"),
        default="list",
    )

    argument(books, "name", "NAME", _("the name of a book, or its id"), nargs="?")
    argument(
        books,
        "--limit",
        "N",
        _("show: how many entries to show; usually 200"),
        type=int,
        default=200,
    )
    json_lines(books)


def _develop(add: Add) -> None:
    about = _("Store a sample chat and ask about it.")
    both = ("demo, tools, call", _("Try a sample chat; list tools, or call one."))
    demo = add("demo", about, "demo", listed=both)
    switch(demo, "--all", _("ask all questions, and show the random memories"))
    switch(demo, "--why", _("also show the words and points of each memory"))

    about = _("List the tools, or show one with an example.")
    tools = add("tools", about, "tools add_long_term_memory", listed=UNLISTED)
    argument(
        tools,
        "name",
        "TOOLSET|TOOL",
        _("show only this toolset, or the arguments of this tool"),
        nargs="?",
    )
    json_lines(tools)

    about = _("Call a tool and print its result as JSON.")
    example = "call get_memory_stats '{}'"
    call = add("call", about, example, about_c=USUAL, listed=UNLISTED)
    argument(call, "tool", "TOOL", _("name of a tool, such as search_short_term_memories"))
    about = _("its arguments: JSON, @FILE, or - for standard input")
    argument(call, "arguments", "JSON", about, nargs="?", default="{}")
    switch(call, "--text", _("print the text for people instead of JSON"))


GROUPS: Mapping[str, Callable[[Add], None]] = {
    N_("daily"): _daily,
    N_("inspect"): looking,
    N_("repair"): _mend,
    N_("transfer"): exchange,
    N_("develop"): _develop,
}
