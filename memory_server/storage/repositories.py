"""Which repository a folder belongs to, as its files say: git is not started, because a hook may not wait for it.

A linked worktree has a file `.git` that names its folder in the repository, and there `commondir` names the
repository (gitrepository-layout(5)). A submodule has such a file too, and no `commondir`. Names of a remote follow
git-config(1) and git-clone(1), "GIT URLS"."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit

from memory_server.kernel.files import has_git, is_ours, nearest
from memory_server.kernel.link import machine_name, shared_name
from memory_server.kernel.values import frozen
from memory_server.knowledge.projects import (
    NAMED,
    Project,
    is_bare_name,
    path_without_secrets,
    unsettled,
)
from nlp.once import Once

_MOST_BYTES = 1_000_000
"""The most bytes that are read of a file of git: a configuration with ten thousand branches has as many."""
_MOST_KEY_BYTES = 300
"""The most bytes of a path or URL in a key that is sent: in a header each may become three, of the 16,384 of a head."""
_LONG_NAME_CHARS = 40
"""The characters of the name of a folder that are kept where its path is too long."""
_MOST_NAME_CHARS = 200
"""The most characters of the name of a project, as of the setting `knowledge.project`."""
_OURS = "memory-server.project"
_ORIGIN = "remote.origin.url"
_WORKTREE = "core.worktree"
_SECTION = Once(
    lambda: re.compile(
        r'\s{0,99}\[\s{0,99}([\w.-]{1,99})(?:\s{1,99}"((?:[^"\\\n]|\\.){0,999})")?\s{0,99}\]'
    )
)
_SETTING = Once(lambda: re.compile(r"\s{0,99}([A-Za-z][\w-]{0,99})\s{0,99}=\s{0,99}(.{0,2000})"))
_SCP = Once(
    lambda: re.compile(r"(?:[^@/:\s]{1,200}@)?([^@/:\s]{1,255}):(?!//)(.{1,2000})", re.DOTALL)
)
"""`git@host:path`, the other form of a URL of ssh."""
_PATH = Once(lambda: re.compile(r"[/\\]|[A-Za-z]:[/\\]"))
_PORTS = {"ssh": 22, "http": 80, "https": 443, "git": 9418}
_IGNORE_CASE = ("github.com", "gitlab.com")
"""Hosts that take the path of a repository in any case."""
_GITHUB_THROUGH_HTTPS_PORT = "ssh.github.com"
"""The host where GitHub takes SSH on port 443, for networks that close port 22 (docs.github.com, "Using SSH over the
HTTPS port")."""
_OF_A_NETWORK = (
    "arpa",
    "corp",
    "home",
    "internal",
    "intranet",
    "lan",
    "local",
    "localhost",
    "private",
)
"""The last parts of names that mean another host in another network (RFC 6762, appendix G; RFC 6761; RFC 8375)."""


@frozen
class Checkout:
    """A folder with files of a repository. `top`: the folder; `repository`: the folder of the main checkout, which
    differs from `top` in a linked worktree; a bare repository is its own. `git`: the folder with the settings of the
    repository; `called`: the name of the folder by the path that led to it, which may be a link."""

    top: Path
    repository: Path
    git: Path
    called: str = ""


@frozen
class RepositoryIdentity:
    """What the settings of a repository say it is. `origin`: the URL it was cloned from, in one form for all ways to
    it, or None without a URL or if another machine may mean another repository by it. `named`: the name that the user
    gave it by `git config memory-server.project NAME`. `former_origin`: the key that an older version made of the
    URL, if it differs."""

    origin: str | None = None
    named: str | None = None
    former_origin: str | None = None


def checkout_at(folder: Path) -> Checkout | None:
    """Return the checkout that `folder` is in, or None if it is in no checkout of this user. A file
    `.git` that leads to another repository counts only if that repository knows this checkout, or
    has no other one."""
    above = nearest(folder, has_git)
    if above is None:
        return None

    top = Path(os.path.realpath(above))
    mark = top / ".git"
    # A file or link `.git` may have been copied, or come with an archive, and lead to any repository: it counts only
    # where that repository knows this checkout, or has no other one.
    alone = Checkout(top, top, git=mark, called=above.name)
    if mark.is_symlink() or mark.is_dir():
        return alone

    git = _path_in(mark, top, "gitdir:")
    if git is None:
        return alone

    common = _path_in(git / "commondir", git)
    if common is not None:
        worktree = _path_in(git / "gitdir", git)
        if worktree is None or not _is_same(worktree, mark):
            return alone
        return replace(alone, repository=_folder_of(common), git=common)

    # The settings of a submodule name the folder where it is checked out.
    if "modules" in git.parts:
        worktrees = _settings_of(git).get(_WORKTREE, [])
        is_known = len(worktrees) == 1 and _is_same(git / worktrees[0], top)
        return replace(alone, repository=_folder_of_submodule(top), git=git if is_known else mark)

    if git.name == ".git" or not (git / "HEAD").is_file():
        return alone

    return replace(alone, repository=_folder_of(git), git=git)


def _folder_of(git: Path) -> Path:
    """Return the folder that people call the repository: the folder around `.git`, or around a bare repository that
    its own file `.git` names; else the bare repository."""
    if git.name == ".git":
        return git.parent
    git_in_file = _path_in(git.parent / ".git", git.parent, "gitdir:")
    if git_in_file == git:
        return git.parent
    return git


def _folder_of_submodule(top: Path) -> Path:
    """Return the folder of a submodule in the main checkout of the repository around it."""
    outer = checkout_at(top.parent)
    if outer is None or outer.repository == outer.top:
        return top
    return outer.repository / top.relative_to(outer.top)


def folder_of_work(folder: Path) -> str | None:
    """Return the main checkout of the repository that `folder` is in, else `folder` itself. Return None for the top
    of the file system, where programs start that have no folder."""
    if is_foreign(folder):
        return str(folder)
    checkout = checkout_at(folder)
    # A path by a link is the same place.
    work = Path(os.path.realpath(folder)) if checkout is None else checkout.repository
    if work == work.parent:
        return None
    return str(work)


def identity_of(checkout: Checkout) -> RepositoryIdentity:
    """Read from its settings what a repository is. Return an empty identity if they cannot be read."""
    settings = _settings_of(checkout.git)
    urls = settings.get(_ORIGIN, [])
    origin = None
    former_origin = None
    if len(set(urls)) == 1:
        origin = normalized(urls[0])
        former_origin = _former(urls[0])
    if former_origin == origin:
        former_origin = None
    names = [name for name in settings.get(_OURS, []) if 0 < len(name) <= _MOST_NAME_CHARS]
    named = names[-1] if names else None
    return RepositoryIdentity(origin, named, former_origin)


def is_foreign(folder: Path) -> bool:
    """Tell whether `folder` is a path of another system, such as `C:\\shop` in a file from Windows. Here it would
    count as relative, and so be in the repository of the working directory."""
    if folder.is_absolute():
        return False
    return PureWindowsPath(folder).is_absolute() or PurePosixPath(folder).is_absolute()


def project_at(folder: Path, *, on_several_machines: bool = False) -> Project | None:
    """Return the project of a folder: of its repository, else of the folder itself. Return None for the home folder
    and the top of the file system, where programs start that have no folder. `on_several_machines`: others use the
    same store, so a path needs the name of this machine."""
    if is_foreign(folder):
        return None

    checkout = checkout_at(folder)
    if checkout is None:
        return _project_without_git(folder, on_several_machines)

    identity = identity_of(checkout)
    key_by_path = _key_of(checkout.repository, on_several_machines)
    key = identity.origin or key_by_path
    if identity.named is not None:
        key = NAMED + identity.named

    names = dict.fromkeys((checkout.called, checkout.top.name, checkout.repository.name))
    folder_names = tuple(filter(None, names))
    # Older versions may have stored notes under these keys.
    former_keys = [
        former_key
        for former_key in (key_by_path, identity.former_origin)
        if former_key is not None and former_key != key
    ]
    return Project(key, former_keys=tuple(former_keys), names=folder_names)


def _project_without_git(folder: Path, on_several_machines: bool) -> Project | None:
    """Return the project of a folder itself. Return None for the home folder, the top of the file system, or a folder
    that was removed."""
    try:
        work = Path(os.path.realpath(folder))
    except OSError:
        return None  # the working directory was removed
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - the text is needed even without a home folder
    if str(work) == home or work == work.parent:
        return None
    return Project(_key_of(work, on_several_machines))


def _key_of(folder: Path, on_several_machines: bool) -> str:
    """Return the key of a folder: its path, or with `on_several_machines` its name there (`shared_key`)."""
    path = as_on_disk(folder)
    if on_several_machines:
        return shared_key(path)
    return path


def shared_key(key: str) -> str:
    """Return a key as other machines know it. A path of this machine becomes `laptop-5f3a9c:~/shop`, where the hash
    is of the home folder: two users of the same machine have two folders `~/shop`. A bare name of a folder here does not
    name a folder there."""
    if is_bare_name(key):
        return unsettled(key)
    if not _PATH().match(key):
        return key
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - the text is needed even without a home folder
    name = shared_name(key, as_on_disk(Path(home)))
    name = name or key
    if len(os.fsencode(name)) > _MOST_KEY_BYTES:
        name = f"{_hash_of(name)[:32]}/{Path(name).name[:_LONG_NAME_CHARS]}"
    return f"{machine_name()}-{_hash_of(home)[:6]}:{name}"


def _hash_of(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()


@frozen
class _Address:
    """The parts of a URL that identify a repository. `port` is None for the usual port of its scheme."""

    host: str
    port: int | None
    path: str


def _address_of(url: str) -> _Address | None:
    """Return host, port and path of the URL of a repository, in one form for all ways to it; None
    for any other URL."""
    scp = None if "://" in url else _SCP().fullmatch(url)
    if scp is not None:
        return _Address(scp[1].lower(), None, scp[2])
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS:
        return None
    # GitHub answers SSH at port 443 of this host too (its documentation, "Using SSH over the HTTPS port").
    if host == _GITHUB_THROUGH_HTTPS_PORT and port == 443 and parts.scheme == "ssh":
        return _Address("github.com", None, parts.path)
    if port == _PORTS[parts.scheme]:
        port = None
    return _Address(host, port, parts.path)


def normalized(url: str) -> str | None:
    """Write the URL of a repository in one form for all ways to it: `github.com/acme/shop`, without user, password,
    scheme, query and `.git`. A query may hold a token, and a key is shown and sent. Return None if another machine
    may mean another repository by it, as by a path, a name of `~/.ssh/config` or a host of a local network."""
    address = _address_of(url.strip())
    if address is None:
        return None
    labels = address.host.rstrip(".").split(".")
    if len(labels) < 2 or labels[-1] in _OF_A_NETWORK or not labels[-1][:1].isalpha():
        return None
    public_path = path_without_secrets(address.path)
    if public_path is None:
        return None
    if public_path.startswith("//"):
        return normalized(f"https:{public_path}")
    return _written(address, public_path)


def _written(address: _Address, path_in_url: str) -> str | None:
    """Write `host/path` or `host:port/path`. Return None without a path, or if it is too long."""
    path = path_in_url.strip("/").removesuffix(".git").strip("/")
    if not path or len(os.fsencode(path)) > _MOST_KEY_BYTES:
        return None
    if address.host in _IGNORE_CASE:
        path = path.lower()
    if address.port is None:
        return f"{address.host}/{path}"
    return f"{address.host}:{address.port}/{path}"


def _former(url: str) -> str | None:
    """Return the key that an older version made of the same URL, which may hold a password or token."""
    address = _address_of(url.strip())
    return None if address is None else _written(address, address.path)


def as_on_disk(folder: Path) -> str:
    """Write a path in one form for all spellings that lead to the same folder. Where the disk does not tell upper
    from lower case, or one normal form of Unicode from another, the form is lower case and NFC."""
    built = Path(folder.anchor)
    for part in folder.parts[1:]:
        spelled = unicodedata.normalize("NFC", part).lower()
        if spelled != part and _is_same(built / part, built / spelled):
            built /= spelled
        else:
            built /= part
    return str(built)


def _is_same(path: Path, other_path: Path) -> bool:
    try:
        return path.samefile(other_path)
    except OSError:
        return False


def _path_in(file: Path, folder: Path, before: str = "") -> Path | None:
    """Return the path that a file of git has after `before`, seen from `folder`, without links."""
    text = _text_of(file)
    if not text.startswith(before) or not text[len(before) :].strip() or "\0" in text:
        return None
    path_text = text[len(before) :].strip()
    return Path(os.path.realpath(folder / path_text))


def _text_of(file: Path) -> str:
    """Read a small file. Return "" if it cannot be read."""
    try:
        if not file.is_file():  # also a pipe, which has no end
            return ""
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError:
        return ""
    if len(data) > _MOST_BYTES:
        return ""
    return os.fsdecode(data)


def _settings_of(git: Path) -> dict[str, list[str]]:
    """Return the values of the settings that are used here, by their names; none if the file is a
    link or of another user. Files that it includes are not read."""
    config = git / "config"
    values: dict[str, list[str]] = {}
    section = ""
    # A repository of another user, or links to one, could choose the project and so the memories.
    if git.is_symlink() or config.is_symlink() or not is_ours(config):
        return values

    for line in _text_of(config).splitlines():
        header = _SECTION().match(line)
        if header is not None:
            section = header[1].lower()
            if header[2] is not None:
                section += f".{header[2]}"
            # A setting may follow on the line of its section.
            line = line[header.end() :]
        setting = _SETTING().fullmatch(line)
        if setting is not None:
            name = f"{section}.{setting[1].lower()}"
            if name in (_OURS, _ORIGIN, _WORKTREE):
                values.setdefault(name, []).append(_value_of(setting[2]))

    return values


def _value_of(written: str) -> str:
    """Parse a value of git-config(1): quotes group, `#` and `;` outside of them begin a comment."""
    value = ""
    quoted = False
    escaped = False
    for character in written:
        if escaped:
            value += character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character in "#;" and not quoted:
            break
        else:
            value += character
    return value.strip()
