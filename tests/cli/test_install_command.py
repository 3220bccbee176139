"""`install` and `uninstall` in a home of their own: what is written, backed up, told, and taken back to the byte."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_program import CommandLine

from memory_server.config.project_file import NAME, read
from memory_server.operations.install.client_files import BACKUP_SUFFIX
from memory_server.tools import TOOLSETS

FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "claude-code": ".claude.json",
    "gemini": ".gemini/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
}
OTHERS = """{
   "servers": {
      "x": {"command": "x", "args": ["-y",  "小明"]}
   },

   "mcpServers": {"y": {"command" :"y", "timeout": 1.50e1}}, "last": "\\u5c0f\\ud83d"
}
"""
"""Strict JSON as a person writes it."""
COMMENTED = '{\n  // mine\n  "servers": {\n    "x": {"command": "x"},\n  },\n  "mcpServers": {} /* none */\n}\n'
FAKE_CLAUDE = """\
#!{python}
import json, os, pathlib, sys
home = pathlib.Path(os.environ["HOME"])
with (home / "calls").open("a") as file: file.write(json.dumps(sys.argv[1:]) + "\\n")
path = home / ".claude.json"
state = json.loads(path.read_text()) if path.exists() else {{}}
servers = state.setdefault("mcpServers", {{}})
verb, name = sys.argv[2], sys.argv[5]
if verb == "add-json":
    if name in servers: sys.exit("MCP server already exists")
    servers[name] = json.loads(sys.argv[6])
else:
    if name not in servers: sys.exit("No MCP server found")
    del servers[name]
path.write_text(json.dumps(state))
"""
FAKE_CODE = """\
#!{python}
import json, pathlib, sys
path = pathlib.Path({file!r})
text = path.read_text() if path.exists() else "{{}}"
made = json.loads(sys.argv[2])
name = made.pop("name")
try:
    state = json.loads(text)
except ValueError:
    path.write_text(text.replace('"servers": {{', '"servers": {{ ' + json.dumps(name) + ": " + json.dumps(made) + ","))
else:
    state.setdefault("servers", {{}})[name] = made
    path.write_text(json.dumps(state))
"""


@pytest.fixture(autouse=True)
def home(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home without Claude Code. Never the real one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: tmp_path / "home"))
    for name in ("MEMORY_SERVER_DATA_DIR", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path / "home"


@pytest.fixture
def claude(home: Path) -> Path:
    """A stand-in for Claude Code's command, which notes its calls in `home/calls`."""
    program = home.parent / "bin" / "claude"
    program.write_text(FAKE_CLAUDE.format(python=sys.executable))
    program.chmod(0o755)
    return home / "calls"


def server_entry(home: Path, client: str, name: str = "memory") -> dict[str, object]:
    listed = json.loads((home / FILES[client]).read_bytes())
    server: dict[str, object] = listed["servers" if client == "vscode" else "mcpServers"][name]
    return server


@pytest.mark.parametrize("client", FILES)
def test_a_client_without_a_file_gets_one_and_loses_it_again(
    cli: CommandLine, home: Path, client: str
) -> None:
    status, out, err = cli("install", client)
    assert (status, err) == (0, "")
    assert str(home / FILES[client]) in out
    command = str(server_entry(home, client)["command"])
    assert Path(command).is_absolute()
    assert Path(command).exists()
    assert cli("uninstall", client).status == 0
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("client", FILES)
@pytest.mark.parametrize(
    "before",
    [
        "{}",
        OTHERS,
        OTHERS.rstrip(),
        OTHERS.replace("\n", "\r\n"),
        OTHERS.replace("   ", "\t"),
        "\ufeff" + OTHERS,
        '{"servers":{},"mcpServers":{}}',
        "",
        "  \n",
    ],
)
def test_a_file_comes_back_to_the_byte(
    cli: CommandLine, home: Path, client: str, before: str
) -> None:
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before.encode())
    file.chmod(0o640)
    assert cli("install", client).status == 0
    assert file.read_bytes() != before.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.with_name(file.name + BACKUP_SUFFIX).read_bytes() == before.encode()
    assert cli("uninstall", client).status == 0
    assert file.read_bytes() == before.encode()
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == [file.name]


def test_what_was_changed_since_stays_when_it_goes(cli: CommandLine, home: Path) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"x": {"command": "x"}}}, indent="\t") + "\n")
    cli("install", "cursor")
    file.write_text(file.read_text().replace('"command": "x"', '"command": "new"'))
    cli("uninstall", "cursor")
    assert (
        file.read_text()
        == json.dumps({"mcpServers": {"x": {"command": "new"}}}, indent="\t") + "\n"
    )


def test_it_comes_back_to_the_byte_also_after_another_install_with_other_options(
    cli: CommandLine, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(OTHERS)
    for options in ([], ["--timezone", "Asia/Shanghai"], ["--conversation", "小明"]):
        assert cli("install", "claude-code", "--with-hooks", *options).status == 0
    assert cli("uninstall", "claude-code").status == 0
    assert settings.read_text() == OTHERS


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        COMMENTED.replace("\n", "\r\n"),
        "\ufeff" + COMMENTED,
        '{"mcpServers": {},}',
        "// none yet\n{}",
    ],
)
@pytest.mark.parametrize("client", FILES)
def test_a_file_with_comments_is_left_alone_and_what_to_paste_is_said(
    cli: CommandLine, home: Path, client: str, text: str
) -> None:
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    status, out, err = cli("install", client, "--conversation", "小明")
    assert (status, out) == (2, "")
    sentence, _, block = err.partition("\n")
    assert "comments or trailing commas" in sentence
    assert str(file) in sentence
    if client == "claude-code":
        assert "Claude Code ignores such a file as a whole; correct that place" in sentence
        assert "line" in sentence
    else:
        listed = "servers" if client == "vscode" else "mcpServers"
        assert json.loads(block)[listed]["memory"]["args"] == ["--conversation", "小明"]
    assert "nothing was changed" in cli("uninstall", client).out
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [
        (file.name, text.encode())
    ]


def test_what_was_pasted_beside_comments_is_known_and_has_to_be_taken_out_by_hand(
    cli: CommandLine, home: Path
) -> None:
    file = home / FILES["vscode"]
    file.parent.mkdir(parents=True)
    block = cli("install", "print").out.split("# VS Code")[1].split("\n", 1)[1].split("\n\n")[0]
    text = block.replace("{", "{ // mine", 1)
    file.write_text(text)
    status, out, err = cli("uninstall", "vscode")
    assert (status, out) == (2, "")
    assert "remove `memory` of `servers` yourself" in err
    assert file.read_text() == text


def test_hooks_are_not_wanted_where_a_file_with_comments_has_none(
    cli: CommandLine, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(COMMENTED)
    assert cli("install", "claude-code", "--with-hooks").status == 2
    assert not (home / ".claude.json").exists(), (
        "nothing is changed where one of two files cannot be"
    )
    assert cli("install", "claude-code").status == 0
    assert cli("uninstall", "claude-code").status == 0
    assert settings.read_text() == COMMENTED


ALL_OF_NOTES = ",".join(tool.name for tool in TOOLSETS["notes"])


@pytest.mark.parametrize("client", ["cursor", "claude-code", "print"])
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--toolsets", "refs,sessions"], "offer `sessions` and `refs` from two server entries"),
        (["--toolsets", "notes,nope"], "There is no toolset `nope`"),
        (["--tools", "nope"], "There is no tool `nope`"),
        (
            ["--toolsets", "notes", "--exclude-tools", ALL_OF_NOTES],
            "No tool is left to offer",
        ),
    ],
)
def test_what_the_server_refuses_is_not_installed(
    cli: CommandLine, home: Path, client: str, flags: list[str], reason: str
) -> None:
    status, out, err = cli("install", client, *flags)
    assert (status, out) == (2, "")
    assert reason in err
    assert not any(home.rglob("*.json"))


def test_what_only_this_shell_says_is_not_refused(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed server does not have it."""
    monkeypatch.setenv("MEMORY_SERVER_TOOLSETS", "refs,sessions")
    assert cli("install", "cursor").status == 0


def test_twice_is_once_and_other_options_replace(
    cli: CommandLine, home: Path, tmp_path: Path
) -> None:
    cli("install", "cursor")
    settings = (home / FILES["cursor"]).read_bytes()
    assert "nothing was changed" in cli("install", "cursor").out
    assert (home / FILES["cursor"]).read_bytes() == settings
    assert (
        cli(
            "install", "cursor", "--data-dir", "mine", "--conversation", "小明", "--toolsets", "all"
        ).status
        == 0
    )
    arguments = [
        "--data-dir",
        str(Path("mine").absolute()),
        "--conversation",
        "小明",
        "--toolsets",
        "all",
    ]
    assert server_entry(home, "cursor")["args"] == arguments
    cli("install", "cursor", "--name", "second")
    assert "args" not in server_entry(home, "cursor", "second")
    cli("uninstall", "cursor", "--name", "second")
    cli("uninstall", "cursor")
    assert not (home / FILES["cursor"]).exists()
    assert "nothing was changed" in cli("uninstall", "cursor").out


@pytest.mark.parametrize("client", FILES)
def test_a_dry_run_shows_and_changes_nothing(cli: CommandLine, home: Path, client: str) -> None:
    status, out, _ = cli(
        "install", client, "--dry-run", *(["--with-hooks"] if client == "claude-code" else [])
    )
    assert status == 0
    assert "+" in out
    assert '"command"' in out
    assert list(home.rglob("*")) == []


def test_hooks_come_with_claude_code_and_go_with_it(cli: CommandLine, home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    listed = '"hooks": {\n    "Stop": [\n      {"hooks": [{"type": "command", "command": "say done"}]}\n    ]\n  }'
    before = f'{{\n  {listed},\n  "model": "opus"\n}}\n'
    settings.write_text(before)
    cli("install", "claude-code", "--with-hooks", "--conversation", "my project")
    hooks = json.loads(settings.read_bytes())["hooks"]
    assert len(hooks["Stop"]) == 2
    command = hooks["UserPromptSubmit"][0]["hooks"][0]["command"]
    assert command.endswith(" --conversation 'my project' hook")
    assert (
        "nothing was changed"
        in cli("install", "claude-code", "--with-hooks", "--conversation", "my project").out
    )
    cli("install", "claude-code")
    assert "my project" not in settings.read_text(), (
        "the hooks are of the same memory as the server"
    )
    assert [len(items) for items in json.loads(settings.read_bytes())["hooks"].values()] == [
        2,
        1,
        1,
        1,
        1,
        1,
    ], "not doubled"
    cli("uninstall", "claude-code")
    assert settings.read_text() == before
    assert not (home / ".claude.json").exists()


AT_TOOLS = {"PreToolUse", "PostToolUse", "PostToolUseFailure"}


def hooked(home: Path) -> set[str]:
    path = home / ".claude" / "settings.json"
    return set(json.loads(path.read_bytes())["hooks"]) if path.exists() else set()


def test_hooks_at_tools_come_when_they_are_wanted_and_no_upgrade_adds_them(
    cli: CommandLine, home: Path
) -> None:
    cli("install", "claude-code", "--with-hooks", "--hooks", "prompts")
    assert hooked(home) == {"SessionStart", "UserPromptSubmit", "Stop"}
    offer = "before it is changed"
    assert offer in cli("doctor").out.replace("\n", " ")
    cli("install", "claude-code")
    assert not hooked(home) & AT_TOOLS, "an upgrade adds none"
    cli("install", "claude-code", "--with-hooks")
    assert hooked(home) >= AT_TOOLS
    assert offer not in cli("doctor").out.replace("\n", " ")
    cli("install", "claude-code")
    assert hooked(home) >= AT_TOOLS, "and keeps them in step"
    cli("install", "claude-code", "--with-hooks", "--hooks", "prompts")
    assert not hooked(home) & AT_TOOLS
    cli("uninstall", "claude-code")
    assert not (home / ".claude" / "settings.json").exists()


def test_uninstall_removes_hooks_at_tools_and_leaves_those_of_others(
    cli: CommandLine, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "lint"}]}]}}'
    settings.write_text(before)
    cli("install", "claude-code", "--with-hooks")
    assert len(json.loads(settings.read_bytes())["hooks"]["PreToolUse"]) == 2
    cli("uninstall", "claude-code")
    assert settings.read_text() == before


def test_a_project_has_files_of_its_own(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    cli("install", "claude-code", "--project", str(project), "--with-hooks")
    assert "memory" in json.loads((project / ".mcp.json").read_bytes())["mcpServers"]
    assert set(json.loads((project / ".claude" / "settings.local.json").read_bytes())["hooks"]) == {
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        *AT_TOOLS,
    }
    assert list(home.iterdir()) == []
    cli("uninstall", "claude-code", "--project", str(project))
    assert list(project.iterdir()) == [], "also no empty folder"


SAID = "for all projects already; none"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_project_gets_a_conversation_of_its_own_and_loses_it_again(
    cli: CommandLine, home: Path, project: Path
) -> None:
    flags = ("--project", str(project), "--with-hooks", "--conversation", "小 明")
    status, out, err = cli("install", "claude-code", *flags)
    assert (status, err) == (0, "")
    assert "the conversation of this folder is `小 明`" in out
    assert read(project / NAME).conversation == "小 明"
    server = json.loads((project / ".mcp.json").read_bytes())["mcpServers"]["memory"]
    assert (server["args"], server["env"]) == ([], {"MEMORY_SERVER_HOOKS": "true"}), (
        "the file says which conversation"
    )
    assert "小" not in (project / ".claude" / "settings.local.json").read_text("utf-8")
    before = {name: (project / name).read_bytes() for name in names_in(project)}
    assert "Start" not in cli("install", "claude-code", *flags).out
    assert {name: (project / name).read_bytes() for name in names_in(project)} == before
    assert cli("uninstall", "claude-code", "--project", str(project)).status == 0
    assert names_in(project) == set()
    assert list(home.iterdir()) == []


def test_what_is_there_for_all_projects_is_not_put_into_one_again(
    cli: CommandLine, project: Path
) -> None:
    cli("install", "claude-code", "--with-hooks")
    out = cli(
        "install",
        "claude-code",
        "--with-hooks",
        "--project",
        str(project),
        "--conversation",
        "heron",
    ).out
    assert out.count(SAID) == 2
    assert names_in(project) == {NAME}
    out = cli("install", "claude-code", "--project", str(project)).out
    assert "already says that the conversation in this folder is `heron`" in out
    cli("uninstall", "claude-code", "--project", str(project))
    assert names_in(project) == set()


def test_the_plugin_has_server_and_hooks_for_all_projects(
    cli: CommandLine, home: Path, project: Path
) -> None:
    (home / ".claude").mkdir()
    on = {"enabledPlugins": {"memory-server@memory-server": True, "other@x": True}}
    (home / ".claude" / "settings.json").write_text(json.dumps(on))
    out = cli(
        "install",
        "claude-code",
        "--with-hooks",
        "--project",
        str(project),
        "--conversation",
        "heron",
    ).out
    assert out.count(SAID) == 2
    on["enabledPlugins"]["memory-server@memory-server"] = False
    (home / ".claude" / "settings.json").write_text(json.dumps(on))
    assert SAID not in cli("install", "claude-code", "--with-hooks", "--project", str(project)).out
    assert names_in(project) == {NAME, ".mcp.json", ".claude/settings.local.json"}


def test_a_server_knows_of_hooks_that_are_there(
    cli: CommandLine, home: Path, project: Path
) -> None:
    environment = {"MEMORY_SERVER_HOOKS": "true"}
    cli("install", "claude-code")
    assert server_entry(home, "claude-code")["env"] == {}
    cli("install", "claude-code", "--with-hooks")
    assert server_entry(home, "claude-code")["env"] == environment
    cli("install", "claude-code")
    assert server_entry(home, "claude-code")["env"] == environment, "they are still there"
    cli("install", "cursor", "--conversation", "heron")
    assert "env" not in server_entry(home, "cursor"), "hooks are Claude Code's"
    cli("install", "cursor", "--project", str(project), "--conversation", "heron")
    assert names_in(project) == {".cursor/mcp.json"}


@pytest.mark.parametrize("content", ['conversation = "crane"\n', "conversation = crane", ""])
def test_a_file_of_the_project_that_says_something_else_is_left_alone(
    cli: CommandLine, project: Path, content: str
) -> None:
    (project / NAME).write_text(content)
    status, out, err = cli(
        "install", "claude-code", "--project", str(project), "--conversation", "heron"
    )
    assert (status, out) == (2, "")
    assert str(project / NAME) in err
    assert {path.name: path.read_text() for path in project.iterdir()} == {NAME: content}


def test_a_file_that_somebody_wrote_stays_when_the_rest_goes(
    cli: CommandLine, project: Path
) -> None:
    (project / NAME).write_text('conversation = "heron"  # ours\n')
    cli("install", "claude-code", "--project", str(project), "--conversation", "heron")
    assert "it stays" in cli("uninstall", "claude-code", "--project", str(project)).out
    assert names_in(project) == {NAME}


def test_where_claude_codes_own_command_is_it_does_it(
    cli: CommandLine, home: Path, claude: Path
) -> None:
    assert "would run: claude mcp add-json" in cli("install", "claude-code", "--dry-run").out
    assert not claude.exists()
    cli("install", "claude-code")
    assert "nothing was changed" in cli("install", "claude-code").out
    cli("install", "claude-code", "--conversation", "小明")
    assert server_entry(home, "claude-code")["args"] == ["--conversation", "小明"]
    cli("uninstall", "claude-code")
    assert "nothing was changed" in cli("uninstall", "claude-code").out
    calls = [json.loads(line)[:4] for line in claude.read_text().splitlines()]
    verbs = ["add-json", "remove", "add-json", "remove"]
    assert calls == [["mcp", verb, "--scope", "user"] for verb in verbs]


def test_when_claude_fails_it_is_told_in_one_sentence(
    cli: CommandLine, home: Path, claude: Path
) -> None:
    (home.parent / "bin" / "claude").write_text(
        f"#!{sys.executable}\nimport sys\nsys.exit('not logged in')\n"
    )
    assert cli("install", "claude-code") == (
        1,
        "",
        "memory-server: `claude mcp add-json` failed: not logged in.\n",
    )


@pytest.mark.parametrize("before", [None, OTHERS, COMMENTED])
def test_where_vs_codes_own_command_is_it_does_it_also_beside_comments(
    cli: CommandLine, home: Path, before: str | None
) -> None:
    program = home.parent / "bin" / "code"
    file = home / FILES["vscode"]
    program.write_text(FAKE_CODE.format(python=sys.executable, file=str(file)))
    program.chmod(0o755)
    file.parent.mkdir(parents=True)
    if before is not None:
        file.write_text(before)
    assert "would run: code --add-mcp" in cli("install", "vscode", "--dry-run").out
    assert cli("install", "vscode", "--conversation", "小明").status == 0
    assert '"memory"' in file.read_text()
    if before == COMMENTED:
        assert "remove `memory` of `servers` yourself" in cli("uninstall", "vscode").err
        return
    assert "nothing was changed" in cli("install", "vscode", "--conversation", "小明").out
    assert server_entry(home, "vscode")["args"] == ["--conversation", "小明"]
    assert cli("uninstall", "vscode").status == 0
    assert (file.read_text() if file.exists() else None) == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"mcpServers": {', "it is not valid JSON at line 1, column 17"),
        (b'{\n  // mine\n  "mcpServers": {', "it is not valid JSON at line 2, column 3"),
        (b'{"mcpServers": 5}', "`mcpServers` is not an object"),
        (b'{"mcpServers": null}', "`mcpServers` is not an object"),
        (b"[]", "it is not an object"),
        (b'{"a": 1, "a": 2}', "an object in it has `a` twice"),
        (b'{"a": 1e999}', "it holds a number that JSON cannot hold"),
        (b'{"a": NaN}', "it holds a number that JSON cannot hold"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
        (b"\xff\xfe{}", "it is not UTF-8"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(
    cli: CommandLine, home: Path, content: bytes, reason: str
) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir()
    file.write_bytes(content)
    status, out, err = cli("install", "cursor")
    assert (status, out) == (2, "")
    assert reason in err
    assert "install print" in err
    cli("uninstall", "cursor")
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [
        (file.name, content)
    ]


def test_nothing_is_changed_where_one_of_two_files_cannot_be(cli: CommandLine, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text("no JSON")
    assert cli("install", "claude-code", "--with-hooks").status == 2
    assert not (home / ".claude.json").exists()


OTHER_MEMORY = {
    "claude-desktop": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
    "cursor": {"url": "http://127.0.0.1:1/mcp"},
    "gemini": {"httpUrl": "http://127.0.0.1:1/mcp"},
    "windsurf": {"serverUrl": "http://127.0.0.1:1/mcp"},
    "vscode": {"command": "node", "args": ["/opt/memory-server/index.js"]},
    "claude-code": {
        "type": "stdio",
        "command": "other",
        "args": [],
        "env": {"KEY": "memory-server"},
    },
}
"""Servers of somebody else's under the name that ours has; the official one is called so."""


@pytest.mark.parametrize(
    ("client", "by_its_own_command"),
    [*((client, False) for client in FILES), ("claude-code", True)],
)
def test_another_server_of_that_name_is_neither_replaced_nor_taken_out(
    cli: CommandLine,
    home: Path,
    client: str,
    by_its_own_command: bool,
    request: pytest.FixtureRequest,
) -> None:
    if by_its_own_command:
        request.getfixturevalue("claude")
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    before = json.dumps(
        {"servers" if client == "vscode" else "mcpServers": {"memory": OTHER_MEMORY[client]}}
    )
    file.write_text(before)
    for flags in ((), ("--dry-run",), ("--with-hooks",) if client == "claude-code" else ()):
        status, out, err = cli("install", client, *flags)
        assert (status, out) == (2, "")
        assert "the name `memory` belongs to another server" in err
        assert "--name" in err
    assert cli("uninstall", client).status == 0
    assert file.read_text() == before
    assert [path for path in home.rglob("*") if path.is_file() and path.name != "calls"] == [file]
    assert cli("install", client, "--name", "mine").status == 0
    assert server_entry(home, client) == OTHER_MEMORY[client]
    assert cli("uninstall", client, "--name", "mine").status == 0
    assert json.loads(file.read_text()) == json.loads(before)


def test_a_link_stays_a_link(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "mcp.json"
    real.write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").symlink_to(real)
    cli("install", "cursor")
    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert "memory" in real.read_text()
    cli("uninstall", "cursor")
    assert real.read_text() == "{}"


def test_print_shows_what_to_paste(cli: CommandLine, home: Path) -> None:
    status, out, _ = cli("install", "print", "--conversation", "小明")
    assert status == 0
    assert out.count('"小明"') == 4
    assert "UserPromptSubmit" not in out
    assert "MEMORY_SERVER_HOOKS" not in out
    out = cli("install", "print", "--with-hooks").out
    assert all(
        part in out
        for part in ("UserPromptSubmit", "sessionStart", '"MEMORY_SERVER_HOOKS": "true"')
    )
    assert list(home.iterdir()) == []


HOOK_FILES = {"claude-code": ".claude/settings.json", "cursor": ".cursor/hooks.json"}
HOOK_FILES["vscode"] = ".copilot/hooks/memory-server.json"
MINE = {
    "hooks": {
        "stop": [{"command": "say done"}],
        "Stop": [{"type": "command", "command": "say done"}],
    }
}


@pytest.mark.parametrize("client", HOOK_FILES)
@pytest.mark.parametrize(
    "before", [None, json.dumps(MINE), json.dumps({"version": 1} | MINE, indent=4)]
)
def test_hooks_come_with_a_client_that_has_them_and_go_with_it(
    cli: CommandLine, home: Path, client: str, before: str | None
) -> None:
    file = home / HOOK_FILES[client]
    if before is not None:
        file.parent.mkdir(parents=True)
        file.write_text(before)
    out = cli("install", client, "--with-hooks").out
    assert "text between <private> and </private> is never stored" in out
    assert "memory-server pause" in out
    hooks = json.loads(file.read_bytes())["hooks"]
    last = "stop" if client == "cursor" else "Stop"
    assert str(hooks[last][-1]).count("memory-server hook") == 1
    assert len(hooks[last]) == (1 if before is None else 2)
    assert ("timeout" in str(hooks[last][-1])) == (client != "cursor")
    assert ("UserPromptSubmit" in hooks) == (client != "cursor"), "Cursor's cannot add to a prompt"
    assert "nothing was changed" in cli("install", client, "--with-hooks").out
    cli("install", client, "--timezone", "Asia/Shanghai")
    assert file.read_text().count("Asia/Shanghai") == len(
        json.loads(file.read_bytes())["hooks"]
    ) - (before is not None)
    assert cli("uninstall", client).status == 0
    assert (file.read_text() if file.exists() else None) == before
    assert before is not None or list(home.rglob("*")) == [], "also no empty folder"


@pytest.mark.parametrize(
    "flags", [("gemini", "--with-hooks"), ("cursor", "--with-hooks", "--project", ".")]
)
def test_hooks_that_a_client_cannot_have_are_refused(
    cli: CommandLine, home: Path, flags: tuple[str, ...]
) -> None:
    status, out, err = cli("install", *flags)
    assert (status, out) == (2, "")
    assert "hooks are for claude-code, cursor, vscode" in err
    assert list(home.iterdir()) == []


CODEX = """\
model = "o5"  # mine

[mcp_servers.other]
command = "x"
args = [
  "-y",
]
[mcp_servers.other.env]
A = "[b]"

# the next one
[profiles.fast]
since = 2026-01-01
"""


@pytest.mark.parametrize("before", [None, "", CODEX, CODEX.replace("\n", "\r\n"), "\ufeff" + CODEX])
def test_codex_keeps_its_comments(cli: CommandLine, home: Path, before: str | None) -> None:
    file = home / ".codex" / "config.toml"
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before.encode())
    assert cli("install", "codex", "--conversation", '小 "明"').status == 0
    text = file.read_bytes().decode("utf-8-sig")
    server = tomllib.loads(text)["mcp_servers"]["memory"]
    assert server["args"] == ["--conversation", '小 "明"']
    assert text.startswith((before or "").lstrip("\ufeff").rstrip())
    assert "nothing was changed" in cli("install", "codex", "--conversation", '小 "明"').out
    cli("install", "codex", "--toolsets", "all")
    assert tomllib.loads(file.read_bytes().decode("utf-8-sig"))["mcp_servers"]["memory"][
        "args"
    ] == [
        "--toolsets",
        "all",
    ]
    cli("uninstall", "codex")
    assert (file.read_bytes().decode() if file.exists() else None) == before


def test_what_was_changed_in_toml_since_stays_when_it_goes(cli: CommandLine, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(CODEX)
    cli("install", "codex")
    file.write_text(file.read_text().replace("o5", "o6") + "\n# a comment of mine\n[tui]\nx = 1\n")
    cli("uninstall", "codex")
    text = file.read_text()
    assert "memory" not in text
    assert "# the next one" in text
    assert "# a comment of mine" in text
    assert tomllib.loads(text) == tomllib.loads(CODEX.replace("o5", "o6")) | {"tui": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model = ", "it is not valid TOML"),
        ('mcp_servers = {other = {command = "x"}}\n', "`mcp_servers`"),
        ('[mcp_servers.memory]\nurl = "http://127.0.0.1:1"\n', "belongs to another server"),
        ("mcp_servers = 5\n", "is not an object"),
    ],
)
def test_toml_that_cannot_be_changed_is_left_alone(
    cli: CommandLine, home: Path, text: str, reason: str
) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    status, out, err = cli("install", "codex")
    assert (status, out) == (2, "")
    assert reason in err or "not a separate TOML table" in err or "not valid TOML" in err
    assert file.read_text() == text


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(("/usr/bin/git", "-C", str(folder), *arguments), check=True, capture_output=True)


@pytest.mark.skipif(not Path("/usr/bin/git").exists(), reason="needs git")
@pytest.mark.parametrize("client", ["claude-code", "cursor", "vscode"])
def test_a_file_that_people_commit_holds_no_path_of_this_machine(
    cli: CommandLine, home: Path, project: Path, client: str
) -> None:
    (home.parent / "bin" / "git").symlink_to("/usr/bin/git")
    git(project, "init", "-q")
    flags = ("install", client, "--project", str(project))
    settings_name = {
        "claude-code": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
    }[client]
    assert f"{project / settings_name} holds paths of this machine" in cli(*flags).out, (
        "the program is not on the PATH"
    )
    (home.parent / "bin" / "memory-server").symlink_to(
        Path(sys.executable).with_name("memory-server")
    )
    assert "paths of this machine" not in cli(*flags).out
    assert str(Path(sys.executable).parent) not in (project / settings_name).read_text()
    assert '"memory-server"' in (project / settings_name).read_text()
    assert "paths of this machine" in cli(*flags, "--data-dir", "here").out
    (project / ".gitignore").write_text(".*\n")
    assert "paths of this machine" not in cli(*flags, "--data-dir", "there").out
    if client == "claude-code":
        (project / ".gitignore").unlink()
        assert "settings.local.json holds paths" in cli(*flags, "--with-hooks").out


def test_settings_of_the_shell_that_are_not_carried_over_are_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "Asia/Shanghai")
    assert (
        "This shell sets MEMORY_SERVER_TIMEZONE, and the client may not"
        in cli("install", "cursor", "--dry-run").out
    )
    assert "This shell sets" not in cli("install", "cursor", "--timezone", "Asia/Tokyo").out


def test_the_rule_that_lets_claude_code_use_the_tools_is_named(cli: CommandLine) -> None:
    assert (
        '{"permissions": {"allow": ["mcp__mine"]}}'
        in cli("install", "claude-code", "--name", "mine").out
    )


PAST_SESSIONS = {
    "claude-code": (".claude/projects", ("-w/a.jsonl", "-v/b.jsonl"), "-w/agent-1.jsonl"),
    "codex": (".codex/sessions", ("2026/06/20/rollout-1.jsonl", "rollout-2.jsonl"), "x.jsonl"),
    "gemini": (".gemini/tmp", ("x/chats/session-1.json", "y/chats/session-2.jsonl"), "x/logs.json"),
}


@pytest.mark.parametrize("client", PAST_SESSIONS)
def test_the_past_of_a_client_is_one_command_away_and_nothing_is_imported(
    cli: CommandLine, home: Path, client: str
) -> None:
    assert "from before" not in cli("install", client, "--dry-run").out
    folder, sessions, other = PAST_SESSIONS[client]
    for name in (*sessions, other):
        path = home / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    told = cli("install", client, "--data-dir", str(home / "data"), "--conversation", "a b").out
    words = f"--data-dir {home / 'data'} import {home / folder} -c 'a b'"
    assert f"2 sessions from before; to remember them too, run `memory-server {words}`" in told
    assert not (home / "data").exists()
