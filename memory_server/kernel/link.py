"""A link: the server whose memory this machine uses, and the folder names that are the same on all machines."""

from __future__ import annotations

import ipaddress
import platform
from urllib.parse import SplitResult, urlsplit

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import frozen

TOO_LARGE = (413, 414, 431)
"""Status of a request that is too large, also for a proxy in between that says it with a page."""
MOST_FOLDER_CHARS = 1_000
"""Characters of a folder's name that are sent. In a header each may become nine bytes, of the 16,384 of a head."""


@frozen
class Link:
    """The server whose memory this machine uses. `url` is its URL, without a slash at the end. `ca` is a file of
    further certificate authorities; if it is None, only the machine's own authorities count."""

    url: str
    token_file: str
    ca: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether the server is on this machine."""
        return _is_here(urlsplit(self.url).hostname or "")


def url_of(typed: str) -> str:
    """Check the URL of a server, and return it as a link has it, without `/` or `/mcp` at its end. Raise InvalidInput if
    `typed` is not such a URL, or others could read what is sent."""
    parts = _server_url_parts(typed.strip())
    if "@" in typed or "?" in typed:
        # Without the URL: it may hold a password or token, and an error is shown and logged.
        raise InvalidInput(
            "The URL of a server has no user, password or query; write it as https://home.example, and put the token "
            "into a file for --token-file."
        )

    if parts is None or not parts.hostname:
        raise InvalidInput(
            "`{url}` is not the URL of a server; write one such as https://home.example.", typed
        )

    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise InvalidInput(
            "{url} is not encrypted, so others could read your memories and your token; use https:// (plain http is "
            "only for a server on this machine).",
            typed,
        )

    return typed.strip().rstrip("/").removesuffix("/mcp")


def _server_url_parts(url: str) -> SplitResult | None:
    """Return the parts of a URL of http or https, or None if it cannot be the URL of a server: it
    has a wrong port, a user, a query or a fragment."""
    try:
        parts = urlsplit(url)
        _port = parts.port  # raises ValueError where it is not the number of a port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    if parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts


def shared_name(folder: str | None, home: str) -> str | None:
    """Return a folder by the name that it has on all machines of a user: `~/shop` for what is in the `home` folder."""
    if folder is None or home in ("", "/"):
        return folder
    home_path = home.rstrip("/")
    if folder != home and not folder.startswith(f"{home_path}/"):
        return folder
    return "~" + folder.removeprefix(home_path)


def machine_name() -> str:
    """Return the name that tells the folders of this machine from those on other machines. A name that many machines
    have gets the number of a network card."""
    name = platform.node().partition(".")[0]
    if name.lower() not in ("", "localhost"):
        return name
    from uuid import getnode

    return f"localhost-{getnode():x}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
