"""Where each client keeps its settings, on three systems; what is written there; which command a client starts."""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from memory_server.kernel.errors import InvalidInput
from memory_server.operations.install.clients import (
    Client,
    Machine,
    Server,
    command_here,
    hook_entry,
    hooks_file,
    is_our_hook,
    packages_folder,
    server_entry,
    servers_file,
    shell_line,
)
from memory_server.storage.repositories import folder_of_work, project_at

LINUX = Machine("linux", PurePosixPath("/home/ming"), {})
MACOS = Machine("macos", PurePosixPath("/Users/ming"), {})
WINDOWS = Machine("windows", PureWindowsPath(r"C:\Users\明"), {})
WINDOWS_MOVED = Machine(
    "windows",
    PureWindowsPath(r"C:\Users\明"),
    {"APPDATA": r"D:\Roaming", "LOCALAPPDATA": r"D:\Local"},
)
PACKAGE = PureWindowsPath(r"D:\Local\Packages\Claude_pzs8sxrjxfjjc")
PACKAGED = Machine("windows", WINDOWS.home, WINDOWS_MOVED.environment, (PACKAGE,))


@pytest.mark.parametrize(
    ("client", "machine", "expected"),
    [
        ("claude-desktop", LINUX, "/home/ming/.config/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            MACOS,
            "/Users/ming/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        (
            "claude-desktop",
            WINDOWS,
            r"C:\Users\明\AppData\Roaming\Claude\claude_desktop_config.json",
        ),
        ("claude-desktop", WINDOWS_MOVED, r"D:\Roaming\Claude\claude_desktop_config.json"),
        (
            "claude-desktop",
            PACKAGED,
            rf"{PACKAGE}\LocalCache\Roaming\Claude\claude_desktop_config.json",
        ),
        ("claude-code", LINUX, "/home/ming/.claude.json"),
        ("claude-code", MACOS, "/Users/ming/.claude.json"),
        ("claude-code", WINDOWS, r"C:\Users\明\.claude.json"),
        ("cursor", LINUX, "/home/ming/.cursor/mcp.json"),
        ("cursor", MACOS, "/Users/ming/.cursor/mcp.json"),
        ("cursor", WINDOWS, r"C:\Users\明\.cursor\mcp.json"),
        ("codex", LINUX, "/home/ming/.codex/config.toml"),
        ("codex", Machine("linux", LINUX.home, {"CODEX_HOME": "/codex"}), "/codex/config.toml"),
        ("gemini", WINDOWS, r"C:\Users\明\.gemini\settings.json"),
        ("windsurf", MACOS, "/Users/ming/.codeium/windsurf/mcp_config.json"),
        ("vscode", LINUX, "/home/ming/.config/Code/User/mcp.json"),
        ("vscode", MACOS, "/Users/ming/Library/Application Support/Code/User/mcp.json"),
        ("vscode", WINDOWS_MOVED, r"D:\Roaming\Code\User\mcp.json"),
    ],
)
def test_the_file_of_a_user(client: Client, machine: Machine, expected: str) -> None:
    assert str(servers_file(client, machine)) == expected


def test_what_the_environment_moves() -> None:
    moved = Machine(
        "linux", LINUX.home, {"XDG_CONFIG_HOME": "/cfg", "CLAUDE_CONFIG_DIR": "/claude"}
    )
    assert str(servers_file("claude-desktop", moved)) == "/cfg/Claude/claude_desktop_config.json"
    assert str(servers_file("vscode", moved)) == "/cfg/Code/User/mcp.json"
    assert str(servers_file("claude-code", moved)) == "/claude/.claude.json"
    assert str(hooks_file(moved)) == "/claude/settings.json"
    assert str(hooks_file(LINUX)) == "/home/ming/.claude/settings.json"


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
    ],
)
def test_the_file_of_a_project(client: Client, expected: str) -> None:
    assert str(servers_file(client, LINUX, PurePosixPath("/project"))) == f"/project/{expected}"
    assert (
        str(hooks_file(LINUX, PurePosixPath("/project"))) == "/project/.claude/settings.local.json"
    )


def test_a_place_that_cannot_be_told_is_refused() -> None:
    two = Machine("windows", WINDOWS.home, {}, (PACKAGE, PACKAGE.with_name("Claude_other")))
    with pytest.raises(InvalidInput, match="several packages"):
        servers_file("claude-desktop", two)
    with pytest.raises(InvalidInput, match="leave --project out"):
        servers_file("claude-desktop", LINUX, PurePosixPath("/project"))


def test_packages_are_looked_for_on_windows_only() -> None:
    assert packages_folder(LINUX) is None
    assert packages_folder(MACOS) is None
    assert str(packages_folder(WINDOWS)) == r"C:\Users\明\AppData\Local\Packages"
    assert str(packages_folder(WINDOWS_MOVED)) == r"D:\Local\Packages"


PLAIN = Server("memory", ["/bin/memory-server"])
TUNED = Server(
    "memory",
    ["/bin/python", "-m", "memory_server"],
    {"conversation": "小 明"},
    {"toolsets": "all", "read-only": None},
)
ARGUMENTS = ["-m", "memory_server", "--conversation", "小 明", "--toolsets", "all", "--read-only"]


@pytest.mark.parametrize(
    ("server", "client", "entry"),
    [
        (PLAIN, "claude-desktop", {"command": "/bin/memory-server"}),
        (PLAIN, "cursor", {"command": "/bin/memory-server"}),
        (PLAIN, "vscode", {"type": "stdio", "command": "/bin/memory-server"}),
        (
            PLAIN,
            "claude-code",
            {"type": "stdio", "command": "/bin/memory-server", "args": [], "env": {}},
        ),
        (TUNED, "cursor", {"command": "/bin/python", "args": ARGUMENTS}),
        (TUNED, "vscode", {"type": "stdio", "command": "/bin/python", "args": ARGUMENTS}),
    ],
)
def test_the_entry_that_starts_the_server(
    server: Server, client: Client, entry: dict[str, Any]
) -> None:
    assert server_entry(server, client) == entry


def test_the_hook_runs_in_a_shell_and_is_known_again() -> None:
    hook = hook_entry(TUNED, "Stop", "linux")
    assert hook["hooks"][0]["command"] == "/bin/python -m memory_server --conversation '小 明' hook"
    assert is_our_hook(hook)
    assert "matcher" not in hook
    begins = hook_entry(TUNED, "SessionStart", "linux")
    assert begins["matcher"] == "startup|clear|compact"
    assert is_our_hook(begins)
    for entry in (
        None,
        {},
        {"hooks": []},
        {"hooks": [{"command": "memory-server-like"}]},
        {"hooks": [{"command": "x hook"}]},
    ):
        assert not is_our_hook(entry)
    assert not is_our_hook({"hooks": [*hook["hooks"], {"type": "command", "command": "mine"}]})


def test_a_windows_path_is_the_same_for_both_shells() -> None:
    command = [r"C:\Program Files\memory\memory-server.exe", "--data-dir", r"D:\my data", "hook"]
    assert (
        shell_line(command, "windows")
        == '"C:/Program Files/memory/memory-server.exe" --data-dir "D:/my data" hook'
    )
    assert (
        shell_line(["/my venv/bin/memory-server", "hook"], "linux")
        == "'/my venv/bin/memory-server' hook"
    )


@pytest.mark.parametrize(
    ("executable", "called_as", "existing", "command"),
    [
        (
            PurePosixPath("/v/bin/python"),
            PurePosixPath("/x"),
            {"/v/bin/memory-server"},
            ["/v/bin/memory-server"],
        ),
        (
            PurePosixPath("/usr/bin/python3"),
            PurePosixPath("/o/memory-server"),
            {"/o/memory-server"},
            ["/o/memory-server"],
        ),
        (
            PurePosixPath("/usr/bin/python3"),
            PurePosixPath("/o/memory-server"),
            set(),
            ["/usr/bin/python3", "-m", "memory_server"],
        ),
        (
            PurePosixPath("/usr/bin/python3"),
            PurePosixPath("/o/pytest"),
            {"/o/pytest"},
            ["/usr/bin/python3", "-m", "memory_server"],
        ),
    ],
)
def test_the_command_that_is_started(
    executable: PurePath, called_as: PurePath, existing: set[str], command: list[str]
) -> None:
    assert (
        command_here(executable, called_as, "linux", lambda path: str(path) in existing) == command
    )


def test_the_command_on_windows() -> None:
    python = PureWindowsPath(r"C:\v\Scripts\python.exe")
    beside = r"C:\v\Scripts\memory-server.exe"
    assert command_here(
        python, PureWindowsPath("x"), "windows", lambda path: str(path) == beside
    ) == [beside]


@pytest.mark.parametrize(
    "executable",
    [
        PurePosixPath("/home/m/.cache/uv/archive-v0/x/bin/python"),
        PureWindowsPath(r"C:\c\uv\archive-v0\x\Scripts\python.exe"),
    ],
)
def test_an_environment_that_will_be_gone_is_refused(executable: PurePath) -> None:
    with pytest.raises(InvalidInput, match="install the program permanently"):
        command_here(executable, executable, "linux", lambda path: True)


def test_a_path_of_another_system_is_not_in_the_repository_of_this_process() -> None:
    assert folder_of_work(Path("C:\\shop")) == "C:\\shop"
    assert project_at(Path("C:\\shop")) is None
    assert folder_of_work(Path()) != "C:\\shop"
