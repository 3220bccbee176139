"""The arguments and the help of the commands of `memory-server`, grouped by their use.

The other facts about a command are in its row of command_table.py. `add(name, summary, example)` makes the parser of
a command. `meaning_of_c` says what `-c` means for the command, if it has a meaning. `listed` is the command's row in the
help of all commands, if that is not its name and summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from languages import N_, _
from memory_server.cli.command_arguments import (
    ALL,
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
    """Add the parser of `serve`."""
    serve = add(
        "serve",
        "Serve MCP on standard input and output (default).",
        "serve",
        listed=("serve, tokens", N_("Serve MCP (default); tokens for HTTP.")),
    )

    argument(
        serve,
        "--http",
        "[HOST:]PORT",
        "serve over HTTP instead; by default at the setting http.listen",
        nargs="?",
        const="",
    )


def _installing(add: Add) -> None:
    """Add the parsers of `install` and `uninstall`."""
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

    install = add(
        "install",
        "Add the server to a client's settings.",
        "install cursor",
        listed=("install, uninstall", N_("Add the server to a client, or remove it.")),
    )

    argument(install, "client", None, "print: only show what to paste", choices=(*clients, "print"))

    uninstall = add(
        "uninstall",
        "Remove the server from a client's settings.",
        "uninstall cursor",
    )
    argument(uninstall, "client", None, "the client from which to remove it", choices=clients)

    for parser in (install, uninstall):
        argument(
            parser,
            "folder",
            "FOLDER",
            "sillytavern: the folder of SillyTavern, or that of one of its users",
            nargs="?",
        )
        argument(
            parser,
            "--port",
            "N",
            "sillytavern: the port of the SillyTavern page; usually 8000",
            type=int,
            default=8000,
        )
        argument(parser, "--name", "NAME", "what the client calls the server", default="memory")
        argument(parser, "--project", "DIR", "only for this project", nargs="?", const=".")
        dry_run(parser, "show what would change")

    switch(
        install,
        "--with-hooks",
        "claude-code, vscode, cursor: also add hooks that recall and remember",
    )
    argument(
        install,
        "--hooks",
        None,
        "claude-code: with `prompts`, add no hooks that run at each call of a tool",
        choices=("all", "prompts"),
        default="all",
    )


def _linking(add: Add) -> None:
    """Add the parsers of `link` and `unlink`."""
    link = add(
        "link",
        "Use the memory of a server.",
        "link https://home.example --token-file ~/memory-token",
        listed=("link, unlink", N_("Use a server's memory, or this machine's again.")),
    )

    argument(link, "url", "URL", "URL of the server", nargs="?")
    argument(link, "--token-file", "FILE", "file with the token; only you may be able to read it")

    argument(link, "--ca", "FILE", "certificate of your own certificate authority")
    switch(
        link,
        "--send",
        "send the memories of this machine to the server; if you send them again, they are not stored twice",
    )
    switch(link, "--yes", "with --send: do not ask")
    switch(
        link,
        "--retry-refused",
        "send the turns again that the server refused; `where` lists them",
    )

    dry_run(link, "with --send or --retry-refused: show what would change")
    add(
        "unlink",
        "Use the memory of this machine again.",
        "unlink",
    )


def _turns(add: Add) -> None:
    """Add the parsers of `hook`, `recall` and `remember`."""
    hook = add(
        "hook",
        "Recall and remember as a hook of a client.",
        "hook < event.json",
    )

    recall = add(
        "recall",
        "Print what comes to mind, ready for a prompt.",
        'recall "What was the name of my cat?"',
        meaning_of_c=USUAL,
        listed=("recall, remember", N_("Recall before a turn; remember after it.")),
    )

    # A hook gets less room than the command, because its text comes unasked.
    argument(
        hook,
        "--chars",
        "N",
        "at most this many characters of recalled text; usually 800, or 400 after a Chinese prompt",
        type=int,
    )
    argument(recall, "--chars", "N", "characters at most; usually 7,200", type=int)
    argument(
        recall,
        "--messages",
        "N",
        "how many messages the chat has; by default, each recall of the session counts as one",
        type=number_of_messages,
    )
    about = _("how many random memories of each kind to add; usually none")
    argument(hook, "--flashbacks", "N", about, type=count, default=0)
    argument(recall, "--flashbacks", "N", about, type=count)
    argument(
        hook,
        "--seconds",
        "S",
        "give up after so many seconds, without an error",
        type=float,
        default=HOOK_SECONDS,
    )

    remember = add(
        "remember",
        "Remember what was said in a turn.",
        'remember "My cat is called Miso."',
        meaning_of_c=USUAL,
    )
    argument(
        remember, "--turn", "ID", "id of the turn; a turn with the same id is stored only once"
    )
    other_words(recall, "other words for what may have been said before, separated by commas")
    other_words(remember, "other words that a later question may use for it, separated by commas")

    for parser in (recall, remember):
        argument(
            parser,
            "words",
            "WORDS",
            "what the user said; by default messages as JSON on standard input",
            nargs="?",
        )
        parser.set_defaults(sentence="words")
        argument(
            parser,
            "--session",
            "ID",
            "the session of this turn; memories of other sessions are recalled at once",
        )
        switch(parser, "--json", "print the tool's result, or an error, as JSON")
        switch(
            parser,
            "--start",
            "start the shared process if it is not running; later calls are then faster",
        )


def _pausing(add: Add) -> None:
    """Add the parsers of `pause` and `resume`."""
    pause = add(
        "pause",
        "Store nothing for a while, and stop hooks from recalling.",
        "pause --for 2h",
        listed=("pause, resume", N_("Pause storing and recalling, or resume them.")),
    )
    argument(
        pause,
        "--for",
        "TIME",
        "how long, such as 30m, 2h or 3d; by default until `resume`",
        dest="for_",
    )
    add(
        "resume",
        "End the pause.",
        "resume",
    )


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
    """Add the parser of `undo`."""
    undo = add(
        "undo",
        "Undo a change, or the last one if you give no id; later changes stay. Or bring a memory back.",
        "undo 12-37a8",
        meaning_of_c=ALL,
        listed=("undo", N_("Undo a change, or bring a memory back.")),
    )

    argument(undo, "change", "CHANGE", "the id of a change, as `history` shows it", nargs="?")

    argument(
        undo, "--memory", "ID|NAME", "bring back memories that were deleted or forgotten", nargs="*"
    )
    argument(
        undo,
        "--pattern",
        "PATTERN",
        "with --memory: only those whose text contains this word or matches /regex/flags",
    )
    argument(undo, "--since", "TIME", "with --memory: only those removed at this ISO time or later")
    argument(
        undo, "--until", "TIME", "with --memory: only those removed at this ISO time or earlier"
    )
    argument(undo, "--family", None, "undo the last change of this kind", choices=FAMILIES)

    switch(undo, "--yes", "do not ask")
    dry_run(undo, "show the last change, or the memories that would come back")


def _forgetting(add: Add) -> None:
    """Add the parsers of `forget`, `secrets test` and `secrets erase`."""
    forget = add(
        "forget",
        "Forget texts with these words, or erase them.",
        "forget dentist Halloran",
        meaning_of_c=ALL,
        listed=("forget, secrets", N_("Forget or erase texts; find keys and passwords.")),
    )
    argument(
        forget,
        "words",
        "WORDS|ID",
        "words that must all occur in a text; or ids, as `list` shows them",
        nargs="*",
    )

    argument(forget, "--family", None, "only this kind", choices=FAMILIES)
    argument(forget, "--since", "TIME", "only what was said or changed at this ISO time or later")
    argument(forget, "--until", "TIME", "only what was said or changed at this ISO time or earlier")
    argument(forget, "--user", "USER", "only facts of this user; without words or ids, all of them")

    switch(
        forget,
        "--for-good",
        "erase the text from everything that is stored; this cannot be undone",
    )
    switch(forget, "--in-backups", "with --for-good: also from the backups")
    switch(forget, "--yes", "do not ask")
    dry_run(forget, "show what would be forgotten or erased")

    test = add(
        "secrets test",
        "Show a text without its secrets, as it would be stored.",
        'secrets test "DB_PASSWORD=hunter22"',
    )
    argument(test, "text", "TEXT", "the text; - reads it from standard input")

    erase = add(
        "secrets erase",
        "Erase for good the memories that hold secrets.",
        "secrets erase --dry-run",
    )
    switch(erase, "--in-backups", "also from the backups")
    switch(erase, "--yes", "do not ask")
    dry_run(erase, "show what would be erased")


def _correcting(add: Add) -> None:
    """Add the parsers of `pin`, `mute` and `edit`."""
    pin = add(
        "pin",
        "Keep a memory for good; --off ends that.",
        "pin 3f2a",
        meaning_of_c=ALL,
        listed=("pin, mute, edit", N_("Keep a memory, mute it, or correct it.")),
    )
    argument(pin, "memory", "ID", "id of the memory, or its beginning")
    switch(pin, "--off", "let the clean-up forget it when it has faded")

    mute = add(
        "mute",
        "Stop a memory from coming unasked in its conversation.",
        "mute 3f2a",
        meaning_of_c=ALL,
    )
    argument(mute, "memory", "ID", "id of the memory, or its beginning")

    # The group refuses two of its flags together: a memory is muted in one kind of place.
    where = mute.add_mutually_exclusive_group()
    mute.set_defaults(where="conversation")
    for flag, words in (
        ("folder", _("in this folder, and in every conversation there")),
        ("everywhere", _("in every conversation and folder")),
    ):
        where.add_argument(f"--{flag}", dest="where", action="store_const", const=flag, help=words)
    where.add_argument(
        "--off",
        dest="where",
        action="store_const",
        const="nowhere",
        help="let the memory come unasked again, everywhere",
    )

    edit = add(
        "edit",
        "Correct a memory: replace some of its words.",
        "edit 3f2a Halloran O'Halloran",
        meaning_of_c=ALL,
    )
    argument(edit, "memory", "ID", "id of the memory, or its beginning")
    argument(
        edit,
        "find",
        "FIND",
        "the words to replace; they must occur exactly once in the memory",
        nargs="?",
    )
    argument(
        edit,
        "replacement",
        "REPLACEMENT",
        "the new words; '' only removes the old ones",
        nargs="?",
    )
    other_words(
        edit,
        "the other words that are kept with the memory, separated by commas; '' removes them",
    )


def _cleaning_up(add: Add) -> None:
    cleanup = add(
        "cleanup",
        "Forget faded memories; archive expired entries.",
        "cleanup --dry-run",
        meaning_of_c=ALL,
        listed=True,
    )
    dry_run(cleanup, "show what would be forgotten, and why")


def _backing_up(add: Add) -> None:
    """Add the parsers of `backup`, and of `backup list`, `backup restore` and `backup delete`."""
    backup = add(
        "backup",
        "Back up all memories while servers keep writing.",
        "backup before-move",
        meaning_of_c=ALL,
        listed=("backup", N_("Back up all memories; list or restore backups.")),
    )
    argument(
        backup,
        "name",
        "NAME",
        "name of the backup; by default the time. `backup list`, `backup restore NAME` and `backup delete NAME` "
        "are commands of their own",
        nargs="?",
    )
    switch(backup, "--all-tenants", "also the memories of every tenant, each in its own folder")

    add(
        "backup list",
        "List the backups.",
        "backup list",
    )
    restore = add(
        "backup restore",
        "Restore the memories of a backup.",
        "backup restore before-move --dry-run",
        meaning_of_c=ALL,
    )
    switch(restore, "--overwrite", "also remove memories that are not in the backup")
    dry_run(restore, "show what would change")

    delete = add(
        "backup delete",
        "Delete a backup for good.",
        "backup delete before-move",
    )
    for parser in (restore, delete):
        argument(parser, "name", "NAME", "name of the backup")


def _examining(add: Add) -> None:
    """Add the parser of `doctor`."""
    doctor = add(
        "doctor",
        "Check folder, disk, files and clock; repair them.",
        "doctor",
        meaning_of_c=ALL,
        listed=("doctor, examine", N_("Check and repair the home; ask questions again.")),
    )
    switch(doctor, "--json", "print the findings as JSON")
    work = doctor.add_mutually_exclusive_group()
    switch(
        work,
        "--repair",
        "repair broken files: keep each of them aside as a whole, and continue from the last good state",
    )
    switch(work, "--reindex", "find the words of older memories again, with the current settings")
    dry_run(doctor, "with --repair or --reindex: show what would change")


def _stores(add: Add) -> None:
    """Add the parsers of `copy` and `migrate`."""
    copy = add(
        "copy",
        "Copy conversations and their history to another store.",
        "copy --to postgresql://me@host/name",
        listed=("copy, migrate", N_("Copy all to another store; update its tables.")),
    )
    argument(
        copy, "conversations", "CONVERSATION", "conversations to copy; by default all", nargs="*"
    )

    argument(
        copy,
        "--from",
        "STORE",
        "folder or PostgreSQL URL; by default the store of the settings. Leave the password out of the "
        "URL, because all users of the machine can see it; put it into ~/.pgpass or MEMORY_SERVER_STORE",
        dest="from_",
    )
    argument(copy, "--to", "STORE", "as for --from")
    dry_run(copy, "show what would be copied")

    migrate = add(
        "migrate",
        "Update the tables of a PostgreSQL database.",
        "migrate --dry-run",
    )
    dry_run(migrate, "show which steps are missing")


def _tokens(add: Add) -> None:
    """Add the parser of `tokens`."""
    tokens = add(
        "tokens",
        "Make, list or revoke the tokens of `serve --http`.",
        "tokens add phone --tenant alice",
    )

    argument(
        tokens,
        "action",
        None,
        "add: make a token and print it; --tenant NAME, --timezone ZONE and --read-only before the "
        "command apply to it; remove: revoke the token",
        choices=("add", "list", "remove"),
    )
    argument(tokens, "name", "NAME", "name of the token", nargs="?")

    switch(tokens, "--operator", "add: the token may also read /metrics")
    argument(tokens, "--days", "N", "add: the token expires after so many days", type=float)
    switch(tokens, "--erase", "remove: also erase everything of its tenant for good")
    switch(tokens, "--yes", "with --erase: do not ask")


def _daemon(add: Add) -> None:
    daemon = add(
        "daemon",
        "Show or end the process that windows share.",
        "daemon status",
    )
    argument(daemon, "action", None, "status: show it; stop: end it", choices=("status", "stop"))


def _books(add: Add) -> None:
    """Add the parser of `books`."""
    books = add(
        "books",
        "List lorebooks; show one, switch it off or on, or remove it.",
        "books off Weather",
        meaning_of_c=ALL,
    )
    argument(
        books,
        "action",
        None,
        "list: all books (default); show: the entries of a book; off, on: switch a book off or on; "
        "remove: move a book into the archive",
        nargs="?",
        choices=("list", "show", "off", "on", "remove"),
        default="list",
    )

    argument(books, "name", "NAME", "the name of a book, or its id", nargs="?")
    argument(
        books,
        "--limit",
        "N",
        "show: how many entries to show; usually 200",
        type=int,
        default=200,
    )
    json_lines(books)


def _develop(add: Add) -> None:
    """Add the parsers of `demo`, `tools` and `call`."""
    demo = add(
        "demo",
        "Store a sample chat and ask about it.",
        "demo",
        listed=("demo, tools, call", N_("Try a sample chat; list tools, or call one.")),
    )
    switch(demo, "--all", "ask all questions, and show the random memories")
    switch(demo, "--why", "also show the words and points of each memory")

    tools = add(
        "tools",
        "List the tools, or show one with an example.",
        "tools add_long_term_memory",
    )
    argument(
        tools,
        "name",
        "TOOLSET|TOOL",
        "show only this toolset, or the arguments of this tool",
        nargs="?",
    )
    json_lines(tools)

    call = add(
        "call",
        "Call a tool and print its result as JSON.",
        "call get_memory_stats '{}'",
        meaning_of_c=USUAL,
    )
    argument(call, "tool", "TOOL", "name of a tool, such as search_short_term_memories")
    argument(
        call,
        "arguments",
        "JSON",
        "its arguments: JSON, @FILE, or - for standard input",
        nargs="?",
        default="{}",
    )
    switch(call, "--text", "print the text for people instead of JSON")


GROUPS: Mapping[str, Callable[[Add], None]] = {
    N_("daily"): _daily,
    N_("inspect"): looking,
    N_("repair"): _mend,
    N_("transfer"): exchange,
    N_("develop"): _develop,
}
