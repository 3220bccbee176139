"""Claude Code's list of servers, changed by its own command: it writes that file all the time, and we would collide."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_server.cli.install.client_files import bytes_of, say, text_of
from memory_server.cli.install.edits import NameTaken, NotJson, document_of
from memory_server.cli.install.entries import Server, is_our_server, server_entry
from memory_server.cli.install.places import Machine, servers_file, servers_name
from memory_server.core.errors import InvalidInput, MemoryServerError

CLAUDE_SECONDS = 60.0
"""How long `claude` may take; it usually takes a second."""


class ClientFailed(MemoryServerError):
    """The client's own command did not do what was asked of it."""


def claude_is_here() -> bool:
    """Whether Claude Code's command can be run."""
    return shutil.which("claude") is not None


@dataclass(frozen=True, slots=True)
class Registration:
    """`known` is the entry that it has under this name."""

    server: Server
    known: object

    @classmethod
    def of(cls, server: Server, machine: Machine) -> Registration:
        data = bytes_of(Path(str(servers_file("claude-code", machine))))
        try:
            servers = document_of(text_of(data or b"")).get(servers_name("claude-code"))
        except NotJson:
            servers = None  # the command tells better what is wrong with its file
        return cls(server, servers.get(server.name) if isinstance(servers, dict) else None)

    def with_it(self) -> dict[str, Any]:
        """The entry that is to be there.

        Raises:
            InvalidInput: the name is another server's.
        """
        if self._is_another:
            raise InvalidInput(f"Claude Code's servers were not changed, because {NameTaken(self.server.name)}.")
        return server_entry(self.server, "claude-code")

    def without_it(self) -> None:
        """Nothing stands in the way of taking it out."""

    def put(self, *, dry_run: bool) -> bool:
        entry = self.with_it()
        if self.known == entry:
            say(f"Claude Code has `{self.server.name}` already; nothing was changed.")
            return False
        if self.known is not None:
            _claude("remove", "--scope", "user", self.server.name, dry_run=dry_run)
        text = json.dumps(entry, ensure_ascii=False)
        _claude("add-json", "--scope", "user", self.server.name, text, dry_run=dry_run)
        if not dry_run:
            say(f"Claude Code has `{self.server.name}` now, in all projects.")
        return True

    @property
    def _is_another(self) -> bool:
        return self.known is not None and not is_our_server(self.known)

    def take(self, *, dry_run: bool) -> None:
        if self.known is None or self._is_another:
            say(f"Claude Code does not have `{self.server.name}`; nothing was changed.")
            return
        _claude("remove", "--scope", "user", self.server.name, dry_run=dry_run)
        if not dry_run:
            say(f"Claude Code has `{self.server.name}` no more.")


def _claude(*arguments: str, dry_run: bool) -> None:
    if dry_run:
        say(f"would run: {shlex.join(('claude', 'mcp', *arguments))}")
        return
    program = shutil.which("claude") or "claude"
    try:
        done = subprocess.run(
            [program, "mcp", *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CLAUDE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClientFailed(f"`claude mcp {arguments[0]}` could not be run: {error}.") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split()).rstrip(".")
        raise ClientFailed(f"`claude mcp {arguments[0]}` failed: {said or f'status {done.returncode}'}.")
