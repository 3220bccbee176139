"""`install sillytavern` and `uninstall sillytavern` on a folder as SillyTavern makes it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from cli_program import in_process

from memory_server.config import load
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile

ORIGINS = ["http://127.0.0.1:8000", "http://localhost:8000"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "memories"))
    (tmp_path / "SillyTavern" / "data" / "default-user" / "characters").mkdir(parents=True)
    return tmp_path / "SillyTavern"


def run(*arguments: str) -> str:
    status, out, err = in_process(*arguments)
    assert status == 0, err
    return out


def refused(*arguments: str) -> str:
    status, out, err = in_process(*arguments)
    assert (status, out) == (2, ""), out
    return err


def files_in(folder: Path) -> dict[str, bytes | None]:
    """The content of each file; None for each folder."""
    contents: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        contents[str(path)] = path.read_bytes() if path.is_file() else None
    return contents


def test_it_is_put_there_once_and_taken_out_without_a_trace(root: Path, tmp_path: Path) -> None:
    before = files_in(root)
    settings = tmp_path / "config" / "memory-server" / "memory-server.toml"
    preview = run("install", "sillytavern", str(root), "--dry-run")
    assert "index.js" in preview
    assert files_in(root) == before
    assert not settings.exists()
    output = run("install", "sillytavern", str(root))
    extension = root / "data" / "default-user" / "extensions" / "memory-server"
    assert {path.name for path in extension.rglob("*")} >= {
        "manifest.json",
        "index.js",
        "style.css",
        "settings.html",
        "zh-cn.json",
    }
    assert tomllib.loads(settings.read_text())["http"]["origins"] == ORIGINS
    token = re.search(r"mst_\S+", output)
    assert token is not None
    assert "http://127.0.0.1:8460" in output
    assert "memory-server serve --http" in output
    token_entry = TokenFile(tokens_at(tmp_path / "memories")).find(token[0])
    assert token_entry is not None
    assert (token_entry.tenant, token_entry.scopes) == ("sillytavern", ("read", "write"))
    second_output = run("install", "sillytavern", str(root))
    assert "mst_" not in second_output
    assert "tokens remove sillytavern" in second_output
    run("uninstall", "sillytavern", str(root))
    (root / "data" / "default-user" / "extensions").rmdir()
    assert files_in(root) == before
    assert not settings.exists()
    assert TokenFile(tokens_at(tmp_path / "memories")).tokens() == []
    run("uninstall", "sillytavern", str(root))


def test_an_update_replaces_files_and_keeps_what_others_put_there(root: Path) -> None:
    run("install", "sillytavern", str(root / "data" / "default-user"))
    extension = root / "data" / "default-user" / "extensions" / "memory-server"
    script = (extension / "index.js").read_bytes()
    (extension / "index.js").write_text("// of yesterday")
    (extension / "mine.txt").write_text("mine")
    run("install", "sillytavern", str(root))
    assert (extension / "index.js").read_bytes() == script
    run("uninstall", "sillytavern", str(root))
    assert [path.name for path in extension.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# mine\nconversation = "x"\n',
        "[http]\n",
        '[http]\n# here\norigins = "https://a.example"\nlisten = "9000"\n\n[short_term]\nthreshold = 6\n',
        'conversation = "x"\n[http]\nlisten = "9000"\norigins = ["https://a.example"]\n',
        '[http.jwt]\ntenant_claim = "sub"\n',
        '[http]\r\nlisten = "9000"\r\n',
    ],
)
def test_the_settings_file_keeps_what_it_said(root: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(text.encode())
    was = tomllib.loads(text)
    run("install", "sillytavern", str(root), "--config", str(file))
    now = tomllib.loads(file.read_text())
    origins = now["http"].pop("origins")
    former_origins = was.get("http", {}).pop("origins", [])
    if isinstance(former_origins, str):
        former_origins = [former_origins]
    assert origins == [
        *former_origins,
        *(origin for origin in ORIGINS if origin not in former_origins),
    ]
    assert now == {"http": {}} | was
    assert load({}, {}, file).http.origins == ",".join(origins)
    assert all(line in file.read_text() for line in text.splitlines() if line.startswith("#"))
    run("uninstall", "sillytavern", str(root), "--config", str(file))
    assert file.read_bytes() == text.encode()


def test_another_port_has_other_origins(root: Path, tmp_path: Path) -> None:
    run("install", "sillytavern", str(root), "--port", "8123")
    settings = tmp_path / "config" / "memory-server" / "memory-server.toml"
    assert tomllib.loads(settings.read_text())["http"]["origins"] == [
        "http://127.0.0.1:8123",
        "http://localhost:8123",
    ]


def test_what_cannot_be_is_refused_and_changes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(tmp_path)
    assert "Name the folder" in refused("install", "sillytavern")
    assert "characters" in refused("install", "sillytavern", str(tmp_path / "elsewhere"))
    assert "leave them out" in refused("install", "sillytavern", str(root), "--project")
    assert "leave" in refused("install", "cursor", str(root))
    monkeypatch.setenv("MEMORY_SERVER_HTTP__TOKEN", "t" * 40)
    assert "http.token" in refused("install", "sillytavern", str(root))
    monkeypatch.delenv("MEMORY_SERVER_HTTP__TOKEN")
    file = tmp_path / "own.toml"
    file.write_text('http = { listen = "9000" }\n')
    assert "origins" in refused("install", "sillytavern", str(root), "--config", str(file))
    file.unlink()
    assert files_in(tmp_path) == before


@pytest.mark.skipif(not hasattr(Path, "symlink_to"), reason="needs links")
def test_nothing_is_written_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (root / "data" / "default-user" / "extensions").mkdir()
    (root / "data" / "default-user" / "extensions" / "memory-server").symlink_to(
        tmp_path / "theirs"
    )
    assert "link" in refused("install", "sillytavern", str(root))
    assert list((tmp_path / "theirs").iterdir()) == []


def test_a_token_of_that_name_for_something_else_is_not_touched(root: Path, tmp_path: Path) -> None:
    run("tokens", "add", "sillytavern", "--tenant", "alice")
    before = files_in(root)
    assert "a token `sillytavern` that `install` did not make" in refused(
        "install", "sillytavern", str(root)
    )
    assert files_in(root) == before
    assert "The token `sillytavern` stays" in run("uninstall", "sillytavern", str(root))
    assert [token.tenant for token in TokenFile(tokens_at(tmp_path / "memories")).tokens()] == [
        "alice"
    ]
