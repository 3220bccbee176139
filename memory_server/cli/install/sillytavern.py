"""`install sillytavern` and `uninstall sillytavern`: the extension in SillyTavern's folder, a token of its own for a
tenant of its own, and leave for its page to call."""

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

from memory_server.cli.install import edits
from memory_server.cli.install.steps import ClientFile, InstallPlan, bytes_of
from memory_server.config import ENVIRONMENT_PREFIX, Settings, default_config_file, named_config_file
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile
from sandbox.locale import _

NAME = "sillytavern"
"""Of the token, and of its tenant."""
_FOLDER = "memory-server"
"""The folder of the extension in SillyTavern's `extensions`; the extension itself does not know it."""


def plans(settings: Settings, flags: Namespace, environment: Mapping[str, str], *, out: bool) -> list[InstallPlan]:
    """The plans to install it, or to take it `out`. Raises InvalidInput: the folder is not one of SillyTavern, or
    people enter the server in another way than by tokens of a file."""
    if flags.project or getattr(flags, "with_hooks", False) or hasattr(flags, "tenant"):
        raise InvalidInput("--project, --with-hooks and --tenant are not for sillytavern; leave them out.")
    place = _users_folder(flags.folder) / "extensions" / _FOLDER
    if place.is_symlink():
        raise InvalidInput("{place} is a link, so nothing was changed; remove it, then try again.", place)
    named = getattr(flags, "config", None) or named_config_file(environment) or default_config_file()
    wanted = [f"http://{host}:{flags.port}" for host in ("127.0.0.1", "localhost")]
    file = ClientFile.read(Path(named).expanduser().absolute(), edits.of_origins(wanted))
    tokens = settings.http.tokens or tokens_at(settings.folder)
    if out:
        return [_removed(place), file.take(), _token_back(TokenFile(tokens.expanduser()))]
    ways = {
        "http.token": settings.http.token,
        "http.open": settings.http.open,
        "http.jwt.issuer": settings.http.jwt.issuer,
    }
    if other := next((name for name, given in ways.items() if given), None):
        raise InvalidInput(
            "The setting {other} lets people enter, and tokens of `memory-server tokens` do not count beside it; "
            "unset it, then install again.",
            other,
        )
    return [_copied(place), file.put(), _token(TokenFile(tokens.expanduser()), settings), *_told(flags, environment)]


def _users_folder(given: str | None) -> Path:
    """The folder of a user in SillyTavern: the one given, or that of the only user of the SillyTavern given."""
    if given is None:
        raise InvalidInput("Name the folder of SillyTavern: `memory-server install sillytavern ~/SillyTavern`.")
    root = Path(given).expanduser().absolute()
    for place in (root / "data" / "default-user", root / "default-user", root):
        if (place / "characters").is_dir():
            return place
    raise InvalidInput(
        "{root} has no data/default-user and is not the folder of a user of SillyTavern; start SillyTavern once, or "
        "name the folder in its `data` that has `characters`.",
        root,
    )


def _shipped() -> Iterator[tuple[str, bytes]]:
    """The files of the extension: in the wheel, or in the source tree."""
    packed = Path(str(files("memory_server"))) / NAME
    folder = packed if packed.is_dir() else Path(__file__).parents[3] / "distribution" / NAME
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def _copied(place: Path) -> InstallPlan:
    changed = {name: data for name, data in _shipped() if bytes_of(place / name, links=False) != data}
    if not changed:
        return InstallPlan(_("{place} has the extension already; nothing was changed.", place))
    said = _("The extension was put into {place}.", place)
    return InstallPlan(said, "\n".join(f"+++ {place / name}" for name in changed), partial(_write, place, changed))


def _write(place: Path, contents: Mapping[str, bytes]) -> None:
    try:
        for name, data in contents.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            folders.replace_file(place / name, data)
    except OSError as error:
        raise StorageUnwritable(_("{path} cannot be written: {reason}.", place, error.strerror), place) from error


def _removed(place: Path) -> InstallPlan:
    names = [name for name, _data in _shipped() if (place / name).is_file()]
    if not names:
        return InstallPlan(_("{place} does not have the extension; nothing was changed.", place))
    said = _("The extension was removed from {place}.", place)
    return InstallPlan(said, "\n".join(f"--- {place / name}" for name in names), partial(_remove, place, names))


def _remove(place: Path, names: Sequence[str]) -> None:
    try:
        for name in names:
            (place / name).unlink()
    except OSError as error:
        raise StorageUnwritable(_("{path} cannot be changed: {reason}.", place, error.strerror), place) from error
    with suppress(OSError):  # it holds something else
        for folder in (*sorted({(place / name).parent for name in names} - {place}), place):
            folder.rmdir()


def _of_token(file: TokenFile) -> Literal["ours", "other"] | None:
    """Whether there is a token of this name, and it is the one that `install` makes, or enters something else."""
    found = [token for token in file.tokens() if token.name == NAME] if file.path.exists() else []
    return ("ours" if found[0].tenant == NAME else "other") if found else None


def _token(file: TokenFile, settings: Settings) -> InstallPlan:
    listen = settings.http.listen
    address = f"http://{listen if ':' in listen else f'127.0.0.1:{listen}'}"
    known = _of_token(file)
    if known == "other":
        raise InvalidInput(
            "There is a token `{name}` that `install` did not make; run `memory-server tokens remove {name2}`, then "
            "install again.",
            NAME,
            NAME,
        )
    if known == "ours":
        return InstallPlan(
            _(
                "The address is {address}. The token `{name}` was given before, and is shown only once; for another "
                "one run `memory-server tokens remove {name2}` and install again.",
                address,
                NAME,
                NAME,
            )
        )

    def act() -> None:
        token = file.add(NAME, NAME, ("read", "write"), None)
        sys.stdout.write(f"{_('Address: {address}', address)}\n{_('Token, shown only now: {token}', token)}\n")

    return InstallPlan("", _("would make a token `{name}` for a tenant of its own", NAME), act)


def _token_back(file: TokenFile) -> InstallPlan:
    known = _of_token(file)
    if known is None:
        return InstallPlan()
    if known == "other":
        return InstallPlan(_("The token `{name}` stays, because `install` did not make it.", NAME))
    said = _("The token `{name}` is taken back. The memories of its tenant stay; a new token finds them again.", NAME)
    return InstallPlan(said, _("would take back the token `{name}`", NAME), partial(file.remove, NAME))


def _told(flags: Namespace, environment: Mapping[str, str]) -> list[InstallPlan]:
    given = {f"--{name}": getattr(flags, name.replace("-", "_"), None) for name in ("data-dir", "config")}
    command = ["memory-server", "serve", "--http", *(part for one in given.items() if one[1] for part in map(str, one))]
    said = [_("Start the server (again): {command}", shlex.join(command))]
    if f"{ENVIRONMENT_PREFIX}HTTP__ORIGINS" in environment:
        said.append(_("This shell sets MEMORY_SERVER_HTTP__ORIGINS, which counts before the file; unset it."))
    said.append(_("Reload SillyTavern, open Extensions, Memory (memory-server), and paste address and token."))
    return [InstallPlan(one) for one in said]
