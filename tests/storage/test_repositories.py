"""Which project a folder is, without git being started: a table of layouts that git itself made."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory_server.cli.parser import main
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.link import url_of
from memory_server.knowledge.projects import Project, public_key
from memory_server.runtime.app import open_memory
from memory_server.storage import repositories
from memory_server.storage.repositories import (
    as_on_disk,
    checkout_at,
    folder_of_work,
    normalized,
    project_at,
)

ME = (
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "-c",
    "protocol.file.allow=always",
    "-c",
    "init.defaultBranch=main",
)


def git(folder: Path, *arguments: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *ME, *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, origin: str | None = None) -> Path:
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    if origin is not None:
        git(folder, "remote", "add", "origin", origin)
    return folder


def key(folder: Path, *, on_several_machines: bool = False) -> str | None:
    project = project_at(folder, on_several_machines=on_several_machines)
    return None if project is None else project.key


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "home").mkdir()
    return tmp_path


@dataclass(frozen=True)
class Layout:
    """The folder that is worked in, and the one whose path is the key; without one there is no project."""

    work: Path
    project: Path | None


# Each makes folders below `top`.
def plain(top: Path) -> Layout:
    return Layout(repository(top / "shop"), top / "shop")


def folder_in_it(top: Path) -> Layout:
    (repository(top / "shop") / "src" / "a").mkdir(parents=True)
    return Layout(top / "shop" / "src" / "a", top / "shop")


def worktree(top: Path) -> Layout:
    git(repository(top / "shop"), "worktree", "add", "-q", str(top / "shop-pay"), "-b", "pay")
    return Layout(top / "shop-pay", top / "shop")


def worktree_with_relative_paths(top: Path) -> Layout:
    worktree(top)
    (top / "shop-pay" / ".git").write_text("gitdir: ../shop/.git/worktrees/shop-pay\n")
    (top / "shop" / ".git" / "worktrees" / "shop-pay" / "gitdir").write_text(
        "../../../../shop-pay/.git\n"
    )
    return Layout(top / "shop-pay", top / "shop")


def worktree_inside(top: Path) -> Layout:
    git(repository(top / "shop"), "worktree", "add", "-q", ".claude/worktrees/pay", "-b", "pay")
    return Layout(top / "shop" / ".claude" / "worktrees" / "pay", top / "shop")


def worktree_that_was_moved_by_git(top: Path) -> Layout:
    worktree(top)
    git(top / "shop", "worktree", "move", str(top / "shop-pay"), str(top / "elsewhere"))
    return Layout(top / "elsewhere", top / "shop")


def copied_worktree(top: Path) -> Layout:
    worktree(top)
    shutil.copytree(top / "shop-pay", top / "copy")
    return Layout(top / "copy", top / "copy")


def bare_with_worktree(top: Path) -> Layout:
    git(repository(top / "shop"), "clone", "-q", "--bare", str(top / "shop"), str(top / "bare.git"))
    git(top / "bare.git", "worktree", "add", "-q", str(top / "tree"), "-b", "pay")
    return Layout(top / "tree", top / "bare.git")


def bare_itself(top: Path) -> Layout:
    bare_with_worktree(top)
    return Layout(top / "bare.git", top / "bare.git")


def bare_behind_a_file(top: Path) -> Layout:
    git(
        repository(top / "source"),
        "clone",
        "-q",
        "--bare",
        str(top / "source"),
        str(top / "shop" / ".bare"),
    )
    (top / "shop" / ".git").write_text("gitdir: ./.bare\n")
    git(top / "shop", "worktree", "add", "-q", "pay", "-b", "pay")
    return Layout(top / "shop" / "pay", top / "shop")


def top_of_bare_behind_a_file(top: Path) -> Layout:
    bare_behind_a_file(top)
    return Layout(top / "shop", top / "shop")


def submodule(top: Path) -> Layout:
    repository(top / "library")
    git(repository(top / "shop"), "submodule", "add", "-q", str(top / "library"), "libs/library")
    git(top / "shop", "commit", "-q", "-m", "library")
    return Layout(top / "shop" / "libs" / "library", top / "shop" / "libs" / "library")


def submodule_in_a_worktree(top: Path) -> Layout:
    submodule(top)
    git(top / "shop", "worktree", "add", "-q", str(top / "shop-pay"), "-b", "pay")
    git(top / "shop-pay", "submodule", "update", "-q", "--init")
    return Layout(top / "shop-pay" / "libs" / "library", top / "shop" / "libs" / "library")


def git_elsewhere(top: Path) -> Layout:
    git(top / "shop", "init", "-q", "--separate-git-dir", str(top / "shop.git"))
    return Layout(top / "shop", top / "shop.git")


def file_that_names_another_repository(top: Path) -> Layout:
    (top / "archive").mkdir()
    (top / "archive" / ".git").write_text(
        f"gitdir: {repository(top / 'shop', 'https://host.example/shop')}/.git\n"
    )
    return Layout(top / "archive", top / "archive")


def file_that_names_a_worktree_of_another(top: Path) -> Layout:
    worktree(top)
    (top / "archive").mkdir()
    shutil.copy(top / "shop-pay" / ".git", top / "archive" / ".git")
    return Layout(top / "archive", top / "archive")


def link_that_names_another_repository(top: Path) -> Layout:
    (top / "archive").mkdir()
    (top / "archive" / ".git").symlink_to(
        repository(top / "shop", "https://host.example/shop") / ".git"
    )
    return Layout(top / "archive", top / "archive")


def file_that_names_nothing(top: Path) -> Layout:
    (top / "shop").mkdir()
    (top / "shop" / ".git").write_text("gitdir: /nowhere/at/all\n")
    return Layout(top / "shop", top / "shop")


def file_without_sense(top: Path) -> Layout:
    (top / "shop").mkdir()
    (top / "shop" / ".git").write_bytes(b"\xff\0gitdir:")
    return Layout(top / "shop", top / "shop")


def symlink_to_it(top: Path) -> Layout:
    (top / "link").symlink_to(repository(top / "shop"))
    return Layout(top / "link", top / "shop")


def folder_without_git(top: Path) -> Layout:
    (top / "notes").mkdir()
    return Layout(top / "notes", top / "notes")


def home(top: Path) -> Layout:
    return Layout(top / "home", None)


def home_with_git(top: Path) -> Layout:
    return Layout(repository(top / "home"), top / "home")


def top_of_all(top: Path) -> Layout:
    return Layout(Path(top.anchor), None)


def folder_that_is_gone(top: Path) -> Layout:
    return Layout(top / "gone", top / "gone")


LAYOUTS = [
    *(
        plain,
        folder_in_it,
        worktree,
        worktree_with_relative_paths,
        worktree_inside,
        worktree_that_was_moved_by_git,
    ),
    *(
        copied_worktree,
        bare_with_worktree,
        bare_itself,
        bare_behind_a_file,
        top_of_bare_behind_a_file,
        submodule,
    ),
    *(
        submodule_in_a_worktree,
        git_elsewhere,
        file_that_names_another_repository,
        symlink_to_it,
        folder_without_git,
    ),
    *(
        file_that_names_a_worktree_of_another,
        link_that_names_another_repository,
        file_that_names_nothing,
    ),
    *(file_without_sense, home, home_with_git, top_of_all, folder_that_is_gone),
]


@pytest.mark.parametrize("make_layout", LAYOUTS, ids=lambda make_layout: make_layout.__name__)
def test_a_folder_belongs_to_the_main_checkout_of_its_repository(
    top: Path, make_layout: Callable[[Path], Layout], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_layout(top)
    monkeypatch.setattr(subprocess, "Popen", None)  # git is not started
    if layout.project is None:
        assert key(layout.work) is None
        return
    assert key(layout.work) == str(layout.project)
    if layout.work.exists() and layout.work != top / "home":
        assert folder_of_work(layout.work) == str(layout.project)
        shared = key(layout.work, on_several_machines=True)
        assert shared is not None
        assert re.fullmatch(rf"[^/:]+-[0-9a-f]{{6}}:{layout.project}", shared)


def test_a_removed_worktree_leaves_its_project(top: Path) -> None:
    work = worktree(top).work
    before = project_at(work)
    git(top / "shop", "worktree", "remove", "--force", str(work))
    after = project_at(top / "shop")
    assert before is not None
    assert after is not None
    assert before.key == after.key
    assert before.names == ("shop-pay", "shop")
    assert after.names == ("shop",)


URLS = [
    ("https://github.com/Acme/Backend.git", "github.com/acme/backend"),
    ("https://ana:secret@github.com/acme/backend", "github.com/acme/backend"),
    ("git@github.com:acme/backend.git", "github.com/acme/backend"),
    ("ssh://git@github.com/acme/backend.git/", "github.com/acme/backend"),
    ("ssh://git@GitHub.com:22/acme/backend", "github.com/acme/backend"),
    ("git://git.example.org/Tools/a.git", "git.example.org/Tools/a"),
    ("https://git.example.org:8443/a.git", "git.example.org:8443/a"),
    ("https://git.example.org/?p=a.git", None),
    ("https://git.example.com/shop.git?access_token=abc", "git.example.com/shop"),
    ("https://git.example.com/shop.git?access_token=abc#main", "git.example.com/shop"),
    ("git@git.example.com:shop.git?access_token=abc", "git.example.com/shop"),
    ("ssh://git@ssh.github.com:443/Acme/shop", "github.com/acme/shop"),
    ("https://ssh.github.com/acme/shop", "ssh.github.com/acme/shop"),
    ("git@github.com-work:acme/backend.git", "github.com-work/acme/backend"),
    *(
        (url, None)
        for url in (
            "/srv/git/shop.git",
            "../shop",
            "file:///srv/git/shop",
            "C:\\git\\shop",
            "~/shop",
            "",
        )
    ),
    *(
        (url, None)
        for url in (
            "work:acme/backend",
            "git@server:shop.git",
            "ssh://nas/shop",
            "https://10.0.0.5/shop",
        )
    ),
    *(
        (url, None)
        for url in (
            "git@192.168.1.4:shop",
            "https://[fe80::1]/shop",
            "https://nas.local/a",
            "http://a.lan/b",
        )
    ),
    (f"https://host.example/{'a' * 301}", None),
    *(
        (url, None)
        for url in ("https://github.com/", "https://host.example:x/a", "ext::sh -c a", "http://[/a")
    ),
]


@pytest.mark.parametrize(("url", "origin"), URLS)
def test_one_repository_has_one_url_and_a_url_of_one_network_is_none(
    url: str, origin: str | None
) -> None:
    assert normalized(url) == origin


SECRET = "ghpSECRETtoken42"
_HOLDERS = (
    "https://{user}@github.com/acme/shop.git",
    "https://mirror.example/https://{user}@github.com/acme/shop.git",
    "https://mirror.example/https:/{user}@github.com/acme/shop",
    "https://mirror.example/https%3A%2F%2F{user}%40github.com%2Facme%2Fshop",
    "https://mirror.example/ssh://{user}@github.com/acme/shop",
    "https://mirror.example/{user}@github.com/acme/shop",
    "https://mirror.example/ana:{secret}/acme/shop",
    "https://github.com/acme/shop;{secret}",
    "https://github.com/acme/shop#{secret}",
    "https://github.com/acme/shop%3Fprivate_token={secret}",
    "https://github.com/acme/shop&private_token={secret}",
    "https://github.com/ghp_{secret}/shop",
    "git@github.com:acme/shop#{secret}",
    "git@github.com:acme/shop;{secret}",
    "first.last:{secret}@github.com:acme/shop",
    "ssh://{user}@github.com:22/acme/shop",
    "https://ana:{secret}/more@github.com/acme/shop",
    "https://mirror.example/https%253A%252F%252F{user}%2540github.com%252Facme%252Fshop",
)


@pytest.mark.parametrize("user", [SECRET, f"ana:{SECRET}", f"ana%3A{SECRET}", f"{SECRET}:x-oauth"])
@pytest.mark.parametrize("url", _HOLDERS)
def test_a_password_or_token_of_a_url_is_in_no_key(url: str, user: str) -> None:
    origin = normalized(url.format(user=user, secret=SECRET))
    assert origin in (None, "github.com/acme/shop")
    former = repositories._former(url.format(user=user, secret=SECRET))
    if former is not None:
        assert SECRET.lower() not in (public_key(former) or "").lower()


@pytest.mark.parametrize(
    "key",
    [
        "github.com/acme/shop",
        "dev.azure.com/org/My%20Project/_git/shop",
        "/home/ana@work/shop",
        "laptop-5f3a9c:~/a@b",
        "name:a@b.c/d",
        "?a@b",
        "",
    ],
)
def test_a_key_without_a_secret_stays(key: str) -> None:
    assert public_key(key) == key


def test_notes_under_a_key_of_before_with_a_token_are_those_of_the_project(top: Path) -> None:
    repository(top / "shop", f"https://mirror.example/https://ana:{SECRET}@github.com/acme/shop")
    project = project_at(top / "shop")
    assert project is not None
    assert project.key == "github.com/acme/shop"
    assert f"mirror.example/https://ana:{SECRET}@github.com/acme/shop" in project.former_keys


@pytest.mark.parametrize("url", ["https://ana:{}@home.example", "https://home.example/?t={}"])
def test_the_url_of_a_link_with_a_secret_is_refused_without_saying_it(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        url_of(url.format(SECRET))
    assert SECRET not in str(refused.value)


def test_doctor_counts_notes_under_a_key_with_a_token_and_does_not_say_it(
    top: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(top / "data"))
    leaky = Project(f"mirror.example/https://ana:{SECRET}@github.com/acme/shop")

    async def store() -> None:
        async with open_memory(top / "data") as app:
            await app.knowledge.notes.remember(
                "project-tech", "deploy", "Deploys go through the blue gate.", project=leaky
            )

    asyncio.run(store())
    main(["doctor"])
    said = capfd.readouterr().out
    assert "1 note of projects" in said
    assert SECRET not in said


def test_two_clones_are_one_project_and_a_fork_is_another(top: Path) -> None:
    for name, url in (
        ("one", "git@github.com:acme/a.git"),
        ("two", "https://github.com/acme/a"),
        ("fork", "git@github.com:me/a"),
    ):
        repository(top / name, url)
    assert key(top / "one") == key(top / "two") == "github.com/acme/a"
    assert key(top / "fork") == "github.com/me/a"
    project = project_at(top / "one")
    assert project is not None
    assert project.former_keys == (str(top / "one"),)


def test_a_name_of_the_user_counts_more_than_a_url(top: Path) -> None:
    repository(top / "shop", "https://github.com/acme/template")
    git(top / "shop", "config", "memory-server.project", "acme shop")
    git(top / "shop", "worktree", "add", "-q", str(top / "shop-pay"), "-b", "pay")
    assert key(top / "shop") == key(top / "shop-pay") == "name:acme shop"


CONFIGS = [
    ('[remote "origin"]\n\turl = https://a.example/b\n', "a.example/b"),
    ('[Remote "origin"] URL = "https://a.example/b" ; said\n', "a.example/b"),
    ('[remote "origin"]\n url = https://a.example/b # c\n', "a.example/b"),
    ('[remote "origin"]\n url=https://a.example/b\r\n', "a.example/b"),
    ('[remote "Origin"]\n url = https://a.example/b\n', None),
    ('[remote "upstream"]\n url = https://a.example/b\n', None),
    ('[remote "origin"]\n pushurl = https://a.example/b\n', None),
    ('[remote "origin"]\n url = https://a.example/b\n url = https://a.example/c\n', None),
    ('[remote "origin"]\n[core]\n url = https://a.example/b\n', None),
    ('[include]\n path = x\n[remote "origin"]\n url\n', None),
    ("\0\xff[[[", None),
]


@pytest.mark.parametrize(("config", "origin"), CONFIGS)
def test_the_url_is_that_of_origin_and_two_are_none(
    top: Path, config: str, origin: str | None
) -> None:
    (repository(top / "shop") / ".git" / "config").write_text(config, encoding="utf-8", newline="")
    assert key(top / "shop") == (origin or str(top / "shop"))


def test_a_disk_that_does_not_tell_case_has_one_project(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(top / "Shop")
    assert as_on_disk(top / "Shop") == str(top / "Shop")
    repository(top / "shop")
    assert key(top / "Shop") != key(top / "shop")
    monkeypatch.setattr(
        repositories,
        "_is_same",
        lambda path, other_path: str(path).lower() == str(other_path).lower(),
    )
    assert key(top / "Shop") == key(top / "shop")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
def test_settings_of_another_user_say_nothing(top: Path) -> None:
    config = repository(top / "shop", "https://github.com/acme/a") / ".git" / "config"
    os.chown(config, 65534, -1)
    assert key(top / "shop") == str(top / "shop")
    os.chown(top / "shop" / ".git", 65534, -1)
    assert checkout_at(top / "shop") is None


def test_a_folder_of_the_home_has_the_same_name_for_others_without_that_of_the_user(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    my_key = key(repository(top / "home" / "shop"), on_several_machines=True)
    assert my_key is not None
    assert my_key.endswith(":~/shop")
    (top / "other").mkdir()
    monkeypatch.setenv("HOME", str(top / "other"))
    their_key = key(repository(top / "other" / "shop"), on_several_machines=True)
    assert their_key is not None
    assert their_key.endswith(":~/shop")
    assert my_key != their_key


def test_a_path_that_no_request_could_hold_keeps_its_identity(top: Path) -> None:
    deep = top
    for _ in range(8):
        deep /= "文" * 80
        deep.mkdir()
    (deep.parent / "other").mkdir()
    (deep / "other").mkdir()
    keys = {
        key(folder, on_several_machines=True)
        for folder in (deep, deep / "other", deep.parent / "other")
    }
    assert len(keys) == 3
    assert all(project_key is not None and len(project_key) < 200 for project_key in keys)
    assert key(deep) == str(deep)
