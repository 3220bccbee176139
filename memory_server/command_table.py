"""The commands of `memory-server`, one row each, and the settings that every command takes.

The entrance (process/), the parser, the link to a server and the docs read these rows; arguments and help are in
cli/commands.py. The entrance reads them before argparse, at each prompt of a user: this module imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from typing import Literal

    Opens = Literal["view", "host", "settings"]
    Changes = Literal["nothing", "memories", "some"]
    Shared = Literal["no", "window", "hook", "turn", "look"]
    Linked = Literal["here", "tool", "sent", "refused"]
    Tenant = Literal["known", "may be new", "its own"]


class Command:
    """A command.

    `name`: one or two words. `run`: its module and function in `memory_server.cli`. `opens`: what the function takes
    beside the flags: the "view" of the memories, the settings and the "host" that opens them, or the "settings" alone.

    `changes`: "memories" is refused where `read_only` is set, unless --dry-run is there. "some" depends on arguments or
    on what it finds, and its function looks at `read_only`.

    `shared`: what the shared process does for it. It serves a "window"; it answers a "hook", which reads an event; a
    "turn" is read from standard input if no words are given; a "look" reads no input and prints for people.

    `linked`: what it does on a machine that is linked to a server. It works "here", asks a "tool" of the server, is
    "sent" to the server as it was typed, or is "refused" because it is done on the server. `run_for_others`: a server
    also runs it for linked machines, though these do not send it as it was typed.

    `tenant`: of which tenant --tenant may speak. `for_tools`: its readers have tools, and no shell. `value_options`:
    its options that a value follows, where words of a user may be its argument ("turn").
    """

    __slots__ = (
        "changes",
        "for_tools",
        "linked",
        "name",
        "opens",
        "run",
        "run_for_others",
        "shared",
        "tenant",
        "value_options",
    )

    def __init__(
        self,
        name: str,
        run: str,
        *,
        opens: Opens = "view",
        changes: Changes = "nothing",
        shared: Shared = "no",
        linked: Linked = "refused",
        run_for_others: bool = False,
        tenant: Tenant = "known",
        for_tools: bool = False,
        value_options: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.run = run
        self.opens = opens
        self.changes = changes
        self.shared = shared
        self.linked = linked
        self.run_for_others = run_for_others or linked == "sent"
        self.tenant = tenant
        self.for_tools = for_tools
        self.value_options = value_options


_ROWS = (
    Command(
        "serve",
        "serve.serve",
        opens="settings",
        changes="some",
        shared="window",
        linked="here",
        tenant="may be new",
        for_tools=True,
    ),
    Command("install", "install.command.install", opens="settings", linked="here"),
    Command("uninstall", "install.command.uninstall", opens="settings", linked="here"),
    Command("link", "link.link", opens="settings", changes="some", linked="here"),
    Command("unlink", "link.unlink", opens="settings", changes="some", linked="here"),
    Command(
        "hook",
        "hook.command.hook",
        opens="host",
        changes="some",
        shared="hook",
        linked="here",
        run_for_others=True,
        tenant="may be new",
    ),
    Command(
        "recall",
        "call_tool.recall",
        opens="host",
        changes="some",
        shared="turn",
        linked="tool",
        tenant="may be new",
        value_options=("--chars", "--flashbacks", "--messages", "--other-words", "--session"),
    ),
    Command(
        "remember",
        "call_tool.remember",
        opens="host",
        changes="memories",
        shared="turn",
        linked="tool",
        tenant="may be new",
        value_options=("--other-words", "--session", "--turn"),
    ),
    Command("pause", "maintenance.pause", changes="memories", linked="sent"),
    Command("resume", "maintenance.resume", changes="memories", linked="sent"),
    Command("list", "families.list_", shared="look", linked="sent"),
    Command("show", "show.show", shared="look", linked="sent"),
    Command("search", "families.search", shared="look", linked="sent"),
    Command("explain", "inspection.explain", shared="look", linked="sent"),
    Command("recalls", "recalls.recalls", shared="look", linked="sent"),
    Command("examine", "examine.examine", changes="some"),
    Command("web", "web.web", opens="settings", changes="some"),
    Command("view", "web.view"),
    Command("history", "history.history", shared="look", linked="sent"),
    Command("where", "where.where", opens="host", linked="here"),
    Command("knowledge", "knowledge.knowledge", changes="some"),
    Command("undo", "undo.undo", changes="memories", linked="sent"),
    Command("forget", "forget.forget", changes="memories", linked="sent"),
    Command("secrets test", "erasing.say_without_secrets", opens="settings"),
    Command("secrets erase", "erasing.erase_secrets", changes="memories"),
    Command("pin", "maintenance.pin", changes="memories", linked="sent"),
    Command("mute", "maintenance.mute", changes="memories", linked="sent"),
    Command("edit", "maintenance.edit", changes="memories", linked="sent"),
    Command("books", "books.books", changes="some", linked="sent"),
    Command("cleanup", "cleanup.cleanup", changes="memories"),
    Command("backup", "maintenance.backup", changes="memories"),
    Command("backup list", "maintenance.backups"),
    Command("backup restore", "maintenance.restore", changes="memories"),
    Command("backup delete", "maintenance.delete", changes="memories"),
    Command("doctor", "maintenance.doctor", changes="some"),
    Command("copy", "stores.copy", opens="settings", changes="memories", tenant="its own"),
    Command("migrate", "stores.migrate", opens="settings", changes="memories", tenant="its own"),
    Command("tokens", "tokens.tokens", opens="settings", changes="some", tenant="its own"),
    Command("daemon", "daemon.daemon", opens="settings", linked="here"),
    Command("export", "export.export"),
    Command(
        "import", "imports.import_", changes="memories", run_for_others=True, tenant="may be new"
    ),
    Command("add-trigger", "imports.add_trigger", changes="memories", tenant="may be new"),
    Command("convert", "imports.convert", linked="here"),
    Command("demo", "demo.demo", opens="settings", linked="here"),
    Command("tools", "tool_list.tools", opens="settings", linked="here"),
    Command(
        "call", "call_tool.call", changes="some", linked="tool", tenant="may be new", for_tools=True
    ),
)
COMMANDS = {command.name: command for command in _ROWS}
"""All commands by name."""


class SettingFlag:
    """A setting that is a flag of every command, with a value.

    `in_shared_process`: a process that is shared has "one value" of it, or one for each "window", or does not take the
    flag ("none"). `on_linked_machine`: its command line is sent to the server with the flag ("sent") or without it
    ("left out"); "refused" is left out too, and a server refuses it, because it is about one machine. `is_path`: its
    value is a path. `setting`: its name in the settings.
    """

    __slots__ = ("in_shared_process", "is_path", "name", "on_linked_machine", "setting")

    def __init__(
        self,
        name: str,
        in_shared_process: Literal["one value", "window", "none"],
        on_linked_machine: Literal["sent", "left out", "refused"],
        *,
        is_path: bool = False,
    ) -> None:
        self.name = name
        self.setting = name.replace("-", "_")
        self.in_shared_process = in_shared_process
        self.on_linked_machine = on_linked_machine
        self.is_path = is_path


_SETTING_FLAGS = (
    SettingFlag("data-dir", "one value", "refused", is_path=True),
    SettingFlag("config", "one value", "refused", is_path=True),
    SettingFlag("tenant", "none", "refused"),
    SettingFlag("conversation", "window", "sent"),
    SettingFlag("timezone", "one value", "sent"),
    SettingFlag("log-level", "one value", "refused"),
    SettingFlag("now", "one value", "refused"),
    SettingFlag("seed", "one value", "refused"),
    SettingFlag("toolsets", "window", "refused"),
    SettingFlag("tools", "window", "refused"),
    SettingFlag("exclude-tools", "window", "refused"),
    SettingFlag("language", "one value", "left out"),
)
SETTING_FLAGS = {flag.name: flag for flag in _SETTING_FLAGS}
"""All of them by name, in the order of the help."""
