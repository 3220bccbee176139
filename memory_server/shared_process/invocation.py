"""What a command line and its environment ask for, and which shared process can do it.

Like `entrance.py`, it is what a user waits for at each prompt: it imports only what it needs.
"""

from __future__ import annotations

import os
import sys

from memory_server.command_table import COMMANDS, SETTING_FLAGS
from memory_server.shared_process.protocol import HOOK_SECONDS, PROTOCOL, CannotShare, absolute
from memory_server.version import __version__

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PER_SESSION_SETTINGS = (*[flag.setting for flag in SETTING_FLAGS.values() if flag.process == "window"], "hooks")
"""Settings that windows of one process may have different."""
PER_SESSION_VARIABLES = tuple([f"MEMORY_SERVER_{name.upper()}" for name in PER_SESSION_SETTINGS])
_PLACES_IN_ENVIRONMENT = ("MEMORY_SERVER_DATA_DIR", "MEMORY_SERVER_CONFIG")
_OF_XDG = ("XDG_CONFIG", "XDG_DATA", "XDG_CACHE", "XDG_RUNTIME")
"""Others differ from window to window, such as `XDG_ACTIVATION_TOKEN`."""
_PREFIXES = ("MEMORY_SERVER_", "MCP_MEMORY_", "LC_", "PYTHON", "SSL", *_OF_XDG)
_NAMES = ("HOME", "LANG", "LANGUAGE", "TZ")
_ENDINGS = ("_PROXY", "_proxy", "_CA_BUNDLE")
"""With SSL: by what way models are reached, and which certificates count."""
_PACKAGES = ("memory_server", "sandbox", "nlp")
_OFF = ("0", "f", "n", "no", "off", "false")


class Invocation:
    """What the command line and the environment ask for. Raises CannotShare: it is not for the shared process, or
    cannot be understood here.

    `arguments` and `environ` have absolute paths; `flags` are those that make another process. `starts`: the shared
    process is to be started. `reads_input`: `recall` and `remember` with words do not read standard input, nor does
    what only looks."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.arguments, self.environ = list(arguments), dict(environ)
        self.flags: list[str] = []
        self.command = COMMANDS["serve"]
        self._names_command = self.has_words = self.starts = False
        place = 0
        while place < len(self.arguments):
            place = self._take(place)
        self.reads_input = self.command.shared in ("window", "hook")
        if self.command.shared == "turn":
            self.reads_input = not self.has_words
        for name in _PLACES_IN_ENVIRONMENT:
            if self.environ.get(name):
                self.environ[name] = absolute(self.environ[name])
        if self.environ.get("MEMORY_SERVER_DAEMON__ENABLED", "").lower() in _OFF:
            raise CannotShare

    def _take(self, place: int) -> int:
        """Read the argument at `place`; gives the place of the next one."""
        word = self.arguments[place]
        name, equals, value = word.removeprefix("--").partition("=")
        setting = SETTING_FLAGS.get(name) if word.startswith("--") else None
        if setting is not None and setting.process != "none":
            if not equals:
                if place + 1 == len(self.arguments):
                    raise CannotShare
                value = self.arguments.pop(place + 1)
            if setting.is_path and value:
                value = absolute(value)
            self.arguments[place] = f"--{name}={value}"
            if setting.process == "one value":
                self.flags.append(self.arguments[place])
            return place + 1
        if word == "-c":
            return place + 2
        if word == "--start" and self.command.shared == "turn":
            self.starts = True
        elif word == "--read-only":
            self.flags.append(word)
        elif self._names_command and (not word.startswith("-") or word == "--"):
            self.has_words = True
        elif not word.startswith("-"):
            self._set_command(word)
        elif word in self.command.value_options:
            return place + 2
        elif self.command.shared == "window" or word in ("-h", "--help", "--no-daemon") or word.startswith("--te"):
            raise CannotShare
        return place + 1

    def _set_command(self, word: str) -> None:
        command = COMMANDS.get(word)
        if command is None or command.shared == "no":
            raise CannotShare
        self.command = command
        self._names_command = True

    def key(self) -> str:
        """All that must be equal for two commands to share a process. Raises CannotShare: the settings file turns it
        off."""
        named = [flag.removeprefix("--config=") for flag in self.flags if flag.startswith("--config=")]
        file = (named or [self.environ.get("MEMORY_SERVER_CONFIG") or default_config_file(self.environ)])[-1]
        stamp, settings = "", b""
        try:
            found = os.stat(file)
            stamp = f"{found.st_size} {found.st_mtime_ns}"
            with open(file, "rb") as opened:
                settings = opened.read()
        except OSError:
            pass
        if _turns_off(settings):
            raise CannotShare
        root = program_root()
        parts = [PROTOCOL, __version__, root, _code_stamp(root), sys.executable, file, stamp, *sorted(self.flags)]
        keys = self._keys_of_models(settings)
        parts += [
            f"{name}={value}"
            for name, value in sorted(self.environ.items())
            if (name.startswith(_PREFIXES) or name.endswith(_ENDINGS) or name in _NAMES or name in keys)
            and name not in PER_SESSION_VARIABLES
        ]
        return "\n".join(parts)

    def _keys_of_models(self, settings: bytes) -> list[str]:
        """The variables that `key_env` may name: those whose names stand in quotes in the settings, which need not be
        parsed for it."""
        ours = (each for each in self.environ.items() if each[0].startswith("MEMORY_SERVER_"))
        said = [settings.decode("utf-8", "replace"), *(f'{name} = "{value}" {value}' for name, value in ours)]
        text = "\n".join(said)
        if "key_env" not in text.lower():
            return []
        return [name for name in self.environ if f'"{name}"' in text or f"'{name}'" in text]

    def timeout_seconds(self) -> float:
        """How long a hook waits for its answer."""
        words = [part for word in self.arguments for part in word.split("=", 1)]
        try:
            return float(words[words.index("--seconds") + 1])
        except (ValueError, IndexError):
            return HOOK_SECONDS


def _turns_off(settings: bytes) -> bool:
    if b"daemon" not in settings:
        return False
    import tomllib

    daemon = tomllib.loads(settings.decode("utf-8-sig")).get("daemon")
    return isinstance(daemon, dict) and daemon.get("enabled") is False


def program_root() -> str:
    """The folder of the program's packages."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def installed_packages_first() -> None:
    """Let Python look into the folders of PYTHONPATH last, so that a foreign package there, such as another `mcp` or
    `jieba`, does not stand in for the one that was installed with this program. Where the program itself comes from
    PYTHONPATH, nothing is changed."""
    named = {os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part}
    if not named or program_root() in named:
        return
    last = [entry for entry in sys.path if os.path.abspath(entry) in named]
    sys.path[:] = [entry for entry in sys.path if entry not in last] + last


def _code_stamp(root: str) -> str:
    """The sum of the times of all files of the program: another one after an update, also of one that keeps the number
    of the version. Some 260 files, which takes a millisecond. Raises OSError: it is just being replaced."""
    times, folders = 0, [f"{root}/{name}" for name in _PACKAGES]
    for each in folders:
        with os.scandir(each) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":  # made by whatever is imported first
                        folders.append(entry.path)
                elif not entry.name.startswith("."):  # what editors leave beside a file
                    times += entry.stat(follow_symlinks=False).st_mtime_ns
    return str(times)


def default_config_file(environ: Mapping[str, str]) -> str:
    """Where platformdirs puts the settings file, without importing it."""
    home = environ.get("HOME", "")
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/memory-server/memory-server.toml"
    return f"{environ.get('XDG_CONFIG_HOME', '').strip() or home + '/.config'}/memory-server/memory-server.toml"
