"""Which project a folder is, without git being started: a table of layouts that git itself made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_server.storage import repositories
from memory_server.storage.repositories import as_on_disk, checkout_at, folder_of_work, normalized, project_at

ME = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")


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


# Each makes folders below `top` and gives a working folder, and the folder whose path the key is; None: no project.
def plain(top: Path) -> tuple[Path, Path | None]:
    return repository(top / "shop"), top / "shop"


def folder_in_it(top: Path) -> tuple[Path, Path | None]:
    (repository(top / "shop") / "src" / "a").mkdir(parents=True)
    return top / "shop" / "src" / "a", top / "shop"


def worktree(top: Path) -> tuple[Path, Path | None]:
    git(repository(top / "shop"), "worktree", "add", "-q", str(top / "shop-pay"), "-b", "pay")
    return top / "shop-pay", top / "shop"


def worktree_with_relative_paths(top: Path) -> tuple[Path, Path | None]:
    worktree(top)
    (top / "shop-pay" / ".git").write_text("gitdir: ../shop/.git/worktrees/shop-pay\n")
    (top / "shop" / ".git" / "worktrees" / "shop-pay" / "gitdir").write_text("../../../../shop-pay/.git\n")
    return top / "shop-pay", top / "shop"


def worktree_inside(top: Path) -> tuple[Path, Path | None]:
    git(repository(top / "shop"), "worktree", "add", "-q", ".claude/worktrees/pay", "-b", "pay")
    return top / "shop" / ".claude" / "worktrees" / "pay", top / "shop"


def worktree_that_was_moved_by_git(top: Path) -> tuple[Path, Path | None]:
    worktree(top)
    git(top / "shop", "worktree", "move", str(top / "shop-pay"), str(top / "elsewhere"))
    return top / "elsewhere", top / "shop"


def copied_worktree(top: Path) -> tuple[Path, Path | None]:
    worktree(top)
    shutil.copytree(top / "shop-pay", top / "copy")
    return top / "copy", top / "copy"


def bare_with_worktree(top: Path) -> tuple[Path, Path | None]:
    git(repository(top / "shop"), "clone", "-q", "--bare", str(top / "shop"), str(top / "bare.git"))
    git(top / "bare.git", "worktree", "add", "-q", str(top / "tree"), "-b", "pay")
    return top / "tree", top / "bare.git"


def bare_itself(top: Path) -> tuple[Path, Path | None]:
    bare_with_worktree(top)
    return top / "bare.git", top / "bare.git"


def bare_behind_a_file(top: Path) -> tuple[Path, Path | None]:
    git(repository(top / "source"), "clone", "-q", "--bare", str(top / "source"), str(top / "shop" / ".bare"))
    (top / "shop" / ".git").write_text("gitdir: ./.bare\n")
    git(top / "shop", "worktree", "add", "-q", "pay", "-b", "pay")
    return top / "shop" / "pay", top / "shop"


def top_of_bare_behind_a_file(top: Path) -> tuple[Path, Path | None]:
    bare_behind_a_file(top)
    return top / "shop", top / "shop"


def submodule(top: Path) -> tuple[Path, Path | None]:
    repository(top / "library")
    git(repository(top / "shop"), "submodule", "add", "-q", str(top / "library"), "libs/library")
    git(top / "shop", "commit", "-q", "-m", "library")
    return top / "shop" / "libs" / "library", top / "shop" / "libs" / "library"


def submodule_in_a_worktree(top: Path) -> tuple[Path, Path | None]:
    submodule(top)
    git(top / "shop", "worktree", "add", "-q", str(top / "shop-pay"), "-b", "pay")
    git(top / "shop-pay", "submodule", "update", "-q", "--init")
    return top / "shop-pay" / "libs" / "library", top / "shop" / "libs" / "library"


def git_elsewhere(top: Path) -> tuple[Path, Path | None]:
    git(top / "shop", "init", "-q", "--separate-git-dir", str(top / "shop.git"))
    return top / "shop", top / "shop.git"


def file_that_names_another_repository(top: Path) -> tuple[Path, Path | None]:
    (top / "archive").mkdir()
    (top / "archive" / ".git").write_text(f"gitdir: {repository(top / 'shop', 'https://host.example/shop')}/.git\n")
    return top / "archive", top / "archive"


def file_that_names_a_worktree_of_another(top: Path) -> tuple[Path, Path | None]:
    worktree(top)
    (top / "archive").mkdir()
    shutil.copy(top / "shop-pay" / ".git", top / "archive" / ".git")
    return top / "archive", top / "archive"


def link_that_names_another_repository(top: Path) -> tuple[Path, Path | None]:
    (top / "archive").mkdir()
    (top / "archive" / ".git").symlink_to(repository(top / "shop", "https://host.example/shop") / ".git")
    return top / "archive", top / "archive"


def file_that_names_nothing(top: Path) -> tuple[Path, Path | None]:
    (top / "shop").mkdir()
    (top / "shop" / ".git").write_text("gitdir: /nowhere/at/all\n")
    return top / "shop", top / "shop"


def file_without_sense(top: Path) -> tuple[Path, Path | None]:
    (top / "shop").mkdir()
    (top / "shop" / ".git").write_bytes(b"\xff\0gitdir:")
    return top / "shop", top / "shop"


def symlink_to_it(top: Path) -> tuple[Path, Path | None]:
    (top / "link").symlink_to(repository(top / "shop"))
    return top / "link", top / "shop"


def folder_without_git(top: Path) -> tuple[Path, Path | None]:
    (top / "notes").mkdir()
    return top / "notes", top / "notes"


def home(top: Path) -> tuple[Path, Path | None]:
    return top / "home", None


def home_with_git(top: Path) -> tuple[Path, Path | None]:
    return repository(top / "home"), top / "home"


def top_of_all(top: Path) -> tuple[Path, Path | None]:
    return Path(top.anchor), None


def folder_that_is_gone(top: Path) -> tuple[Path, Path | None]:
    return top / "gone", top / "gone"


LAYOUTS = [
    *(plain, folder_in_it, worktree, worktree_with_relative_paths, worktree_inside, worktree_that_was_moved_by_git),
    *(copied_worktree, bare_with_worktree, bare_itself, bare_behind_a_file, top_of_bare_behind_a_file, submodule),
    *(submodule_in_a_worktree, git_elsewhere, file_that_names_another_repository, symlink_to_it, folder_without_git),
    *(file_that_names_a_worktree_of_another, link_that_names_another_repository, file_that_names_nothing),
    *(file_without_sense, home, home_with_git, top_of_all, folder_that_is_gone),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_a_folder_belongs_to_the_main_checkout_of_its_repository(
    top: Path, layout: Callable[[Path], tuple[Path, Path | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, place = layout(top)
    monkeypatch.setattr(subprocess, "Popen", None)  # git is not started
    assert key(work) == (None if place is None else str(place))
    if place is not None and work.exists() and work != top / "home":
        assert folder_of_work(work) == str(place)
        shared = key(work, on_several_machines=True)
        assert shared is not None
        assert re.fullmatch(rf"[^/:]+-[0-9a-f]{{6}}:{place}", shared)


def test_a_removed_worktree_leaves_its_project(top: Path) -> None:
    work, _place = worktree(top)
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
    *((url, None) for url in ("/srv/git/shop.git", "../shop", "file:///srv/git/shop", "C:\\git\\shop", "~/shop", "")),
    *((url, None) for url in ("work:acme/backend", "git@server:shop.git", "ssh://nas/shop", "https://10.0.0.5/shop")),
    *(
        (url, None)
        for url in ("git@192.168.1.4:shop", "https://[fe80::1]/shop", "https://nas.local/a", "http://a.lan/b")
    ),
    (f"https://host.example/{'a' * 301}", None),
    *((url, None) for url in ("https://github.com/", "https://host.example:x/a", "ext::sh -c a", "http://[/a")),
]


@pytest.mark.parametrize(("url", "origin"), URLS)
def test_one_repository_has_one_url_and_a_url_of_one_network_is_none(url: str, origin: str | None) -> None:
    assert normalized(url) == origin


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
def test_the_url_is_that_of_origin_and_two_are_none(top: Path, config: str, origin: str | None) -> None:
    (repository(top / "shop") / ".git" / "config").write_text(config, encoding="utf-8", newline="")
    assert key(top / "shop") == (origin or str(top / "shop"))


def test_a_disk_that_does_not_tell_case_has_one_project(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(top / "Shop")
    assert as_on_disk(top / "Shop") == str(top / "Shop")
    repository(top / "shop")
    assert key(top / "Shop") != key(top / "shop")
    monkeypatch.setattr(repositories, "_is_same", lambda path, other: str(path).lower() == str(other).lower())
    assert key(top / "Shop") == key(top / "shop")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_settings_of_another_user_say_nothing(top: Path) -> None:
    config = repository(top / "shop", "https://github.com/acme/a") / ".git" / "config"
    os.chown(config, 65534, -1)
    assert key(top / "shop") == str(top / "shop")
    os.chown(top / "shop" / ".git", 65534, -1)
    assert checkout_at(top / "shop") is None


def test_a_folder_of_the_home_has_the_same_name_for_others_without_that_of_the_user(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = key(repository(top / "home" / "shop"), on_several_machines=True)
    assert mine is not None
    assert mine.endswith(":~/shop")
    (top / "other").mkdir()
    monkeypatch.setenv("HOME", str(top / "other"))
    theirs = key(repository(top / "other" / "shop"), on_several_machines=True)
    assert theirs is not None
    assert theirs.endswith(":~/shop")
    assert mine != theirs


def test_a_path_that_no_request_could_hold_keeps_its_identity(top: Path) -> None:
    deep = top
    for _ in range(8):
        deep /= "文" * 80
        deep.mkdir()
    (deep.parent / "other").mkdir()
    (deep / "other").mkdir()
    keys = {key(folder, on_several_machines=True) for folder in (deep, deep / "other", deep.parent / "other")}
    assert len(keys) == 3
    assert all(found is not None and len(found) < 200 for found in keys)
    assert key(deep) == str(deep)
