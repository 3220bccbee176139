"""Install or remove the extension of SillyTavern, with its own token and tenant, and allow its page to call the
server."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Literal

from languages import Sentence, _
from memory_server.cli.install.places import place_of
from memory_server.config import (
    ENVIRONMENT_PREFIX,
    Settings,
    default_config_file,
    named_config_file,
)
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.operations.install import edits
from memory_server.operations.install.client_files import ClientFile, InstallPlan, bytes_of
from memory_server.runtime.homes import TokenFile, tokens_at

NAME = "sillytavern"
"""The name of the token, and of its tenant."""
_FOLDER = "memory-server"
"""The folder of the extension in SillyTavern's `extensions`; the extension itself does not know it."""


def plans(
    settings: Settings, flags: Namespace, environment: Mapping[str, str], *, out: bool
) -> list[InstallPlan]:
    """Plan to install the extension, or to remove it if `out`. Raises InvalidInput if the folder is not a folder of
    SillyTavern, or if access is not controlled by a token file."""
    if flags.project or getattr(flags, "with_hooks", False) or hasattr(flags, "tenant"):
        raise InvalidInput(
            "--project, --with-hooks and --tenant are not for sillytavern; leave them out."
        )

    extension = _users_folder(flags.folder) / "extensions" / _FOLDER

    # A link may lead to a checkout of the extension, which must not be overwritten.
    if extension.is_symlink():
        raise InvalidInput(
            "{place} is a link, so nothing was changed; remove it, then try again.", extension
        )

    config = (
        getattr(flags, "config", None) or named_config_file(environment) or default_config_file()
    )

    # The page may be opened under either name, and browsers tell them apart.
    origins = [f"http://{host}:{flags.port}" for host in ("127.0.0.1", "localhost")]
    settings_file = ClientFile.read(
        place_of(Path(config).expanduser().absolute()), edits.of_origins(origins)
    )

    tokens_path = settings.http.tokens or tokens_at(settings.folder)
    tokens = TokenFile(tokens_path.expanduser())

    if out:
        return [_removal_plan(extension), settings_file.take(), _token_back(tokens)]
    _refuse_other_entrance(settings)
    return [
        _copy_plan(extension),
        settings_file.put(),
        _token(tokens, settings),
        *_next_steps(flags, environment),
    ]


def _refuse_other_entrance(settings: Settings) -> None:
    """Refuse settings that control access by anything but a token file. Raises InvalidInput."""
    entrances = {
        "http.token": settings.http.token,
        "http.open": settings.http.open,
        "http.jwt.issuer": settings.http.jwt.issuer,
    }
    for name, value in entrances.items():
        if value:
            raise InvalidInput(
                "The setting {other} controls access, so tokens of `memory-server tokens` have no effect; unset "
                "it, then install again.",
                name,
            )


def _users_folder(typed: str | None) -> Path:
    """Return the folder of a user in SillyTavern: the typed folder, or the folder of the only user
    of the typed SillyTavern. Raises InvalidInput if no folder was typed, or if it is neither."""
    if typed is None:
        raise InvalidInput(
            "Name the folder of SillyTavern: `memory-server install sillytavern ~/SillyTavern`."
        )
    root = Path(typed).expanduser().absolute()
    for folder in (root / "data" / "default-user", root / "default-user", root):
        if (folder / "characters").is_dir():
            return folder
    raise InvalidInput(
        "{root} has no data/default-user and is not the folder of a user of SillyTavern; start SillyTavern once, or "
        "name the folder in its `data` that has `characters`.",
        root,
    )


def _shipped_files() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the extension, by their paths in it: from the wheel, or from the source tree."""
    folder = Path(str(files("memory_server"))) / NAME
    if not folder.is_dir():
        folder = Path(__file__).parents[3] / "distribution" / NAME
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _copy_plan(extension: Path) -> InstallPlan:
    """Plan to write the files of the extension that are missing or differ from the shipped ones."""
    changed = {
        name: data
        for name, data in _shipped_files()
        if bytes_of(extension / name, links=False) != data
    }
    if not changed:
        return InstallPlan(_("{place} has the extension already; nothing was changed.", extension))
    report = _("The extension was put into {place}.", extension)
    shown = "\n".join(f"+++ {extension / name}" for name in changed)
    return InstallPlan(report, shown, partial(_write, extension, changed))


def _write(extension: Path, contents: Mapping[str, bytes]) -> None:
    """Write these files of the extension, by their paths in it. Raises StorageUnwritable."""
    try:
        for name, data in contents.items():
            path = extension / name
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.replace_file(path, data)
    except OSError as error:
        raise StorageUnwritable(
            Sentence("{path} cannot be written: {reason}.", extension, error.strerror), extension
        ) from error


def _removal_plan(extension: Path) -> InstallPlan:
    """Plan to remove the files of the extension."""
    names = [name for name, _data in _shipped_files() if (extension / name).is_file()]
    if not names:
        return InstallPlan(
            _("{place} does not have the extension; nothing was changed.", extension)
        )
    report = _("The extension was removed from {place}.", extension)
    shown = "\n".join(f"--- {extension / name}" for name in names)
    return InstallPlan(report, shown, partial(_remove, extension, names))


def _remove(extension: Path, names: Sequence[str]) -> None:
    """Remove these files of the extension, then its folders up to the first that holds something else.
    Raises StorageUnwritable if a file cannot be removed; a folder may stay."""
    try:
        for name in names:
            (extension / name).unlink()
    except OSError as error:
        raise StorageUnwritable(
            Sentence("{path} cannot be changed: {reason}.", extension, error.strerror), extension
        ) from error
    subfolders = {(extension / name).parent for name in names} - {extension}
    # One that is not empty ends the loop: the folder of the extension, the last one, is then not empty either.
    with suppress(OSError):
        for folder in (*sorted(subfolders), extension):
            folder.rmdir()


def _of_token(file: TokenFile) -> Literal["ours", "other"] | None:
    """Return whether the token of this name was made by `install`, or is another one, or is missing (None)."""
    if not file.path.exists():
        return None
    for token in file.tokens():
        if token.name == NAME:
            return "ours" if token.tenant == NAME else "other"
    return None


def _token(file: TokenFile, settings: Settings) -> InstallPlan:
    """Plan to make the token, and to print it with the address. Raises InvalidInput if another token has its name."""
    listen = settings.http.listen
    if ":" not in listen:
        listen = f"127.0.0.1:{listen}"
    address = f"http://{listen}"

    owner = _of_token(file)
    if owner == "other":
        raise InvalidInput(
            "There is a token `{name}` that `install` did not make; run `memory-server tokens remove {name2}`, then "
            "install again.",
            NAME,
            NAME,
        )

    if owner == "ours":
        return InstallPlan(
            _(
                "The address is {address}. The token `{name}` was made before, and is shown only once; to make "
                "another one, run `memory-server tokens remove {name2}` and install again.",
                address,
                NAME,
                NAME,
            )
        )

    def act() -> None:
        token = file.add(NAME, tenant=NAME, scopes=("read", "write"), days=None)
        sys.stdout.write(
            f"{_('Address: {address}', address)}\n{_('Token, shown only now: {token}', token)}\n"
        )

    return InstallPlan("", _("would make a token `{name}` with its own tenant", NAME), act)


def _token_back(file: TokenFile) -> InstallPlan:
    """Plan to revoke the token that `install` made. The plan does nothing if there is no token of
    this name, or if `install` did not make it."""
    owner = _of_token(file)
    if owner is None:
        return InstallPlan()
    if owner == "other":
        return InstallPlan(_("The token `{name}` stays, because `install` did not make it.", NAME))
    report = _(
        "The token `{name}` was revoked. The memories of its tenant stay; a new token for this tenant "
        "reaches them again.",
        NAME,
    )
    return InstallPlan(
        report, _("would revoke the token `{name}`", NAME), partial(file.remove, NAME)
    )


def _next_steps(flags: Namespace, environment: Mapping[str, str]) -> list[InstallPlan]:
    """Return sentences that tell the user what to do next; they change nothing."""
    command = ["memory-server", "serve", "--http"]
    for name in ("data-dir", "config"):
        value = getattr(flags, name.replace("-", "_"), None)
        if value:
            command += [f"--{name}", str(value)]

    sentences = [_("Start the server (again): {command}", shlex.join(command))]
    if f"{ENVIRONMENT_PREFIX}HTTP__ORIGINS" in environment:
        sentences.append(
            _("This shell sets MEMORY_SERVER_HTTP__ORIGINS, which overrides the file; unset it.")
        )
    sentences.append(
        _(
            "Reload SillyTavern, open Extensions, Memory (memory-server), and paste address and token."
        )
    )
    return [InstallPlan(sentence) for sentence in sentences]
