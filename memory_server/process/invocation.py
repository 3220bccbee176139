"""What a command line and its environment ask for, and which shared process can do it.

Like `entrance.py`, it is what a user waits for at each prompt: it imports only what it needs.
"""

from __future__ import annotations

import os
import sys

from memory_server.command_table import COMMANDS, SETTING_FLAGS
from memory_server.process.protocol import (
    END_OF_PROGRAM,
    HOOK_SECONDS,
    PROTOCOL,
    CannotShare,
    absolute,
)
from memory_server.version import __version__

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from memory_server.command_table import SettingFlag

PER_SESSION_SETTINGS = (
    *[flag.setting for flag in SETTING_FLAGS.values() if flag.in_shared_process == "window"],
    "hooks",
)
"""Settings that may differ between windows of the same process."""
FOLDER_VARIABLES = (
    "CLAUDE_PROJECT_DIR",
    "WORKSPACE_FOLDER_PATHS",
    "CURSOR_PROJECT_DIR",
    "GEMINI_PROJECT_DIR",
)
"""Variables in which clients name the folder of the work (process/workspace.py)."""
PER_SESSION_VARIABLES = (
    *[f"MEMORY_SERVER_{name.upper()}" for name in PER_SESSION_SETTINGS],
    *FOLDER_VARIABLES,
)
_PLACES_IN_ENVIRONMENT = ("MEMORY_SERVER_DATA_DIR", "MEMORY_SERVER_CONFIG")
_OF_XDG = ("XDG_CONFIG", "XDG_DATA", "XDG_CACHE", "XDG_RUNTIME")
"""Others differ from window to window, such as `XDG_ACTIVATION_TOKEN`."""
_PREFIXES = ("MEMORY_SERVER_", "MCP_MEMORY_", "LC_", "PYTHON", "SSL", *_OF_XDG)
_NAMES = ("HOME", "LANG", "LANGUAGE", "TZ")
_ENDINGS = ("_PROXY", "_proxy", "_CA_BUNDLE")
"""Endings of variables that, with the variables of SSL, say how models are reached and which certificates count."""
_PACKAGES = ("memory_server", "sandbox", "nlp", "languages")
_OFF = ("0", "f", "n", "no", "off", "false")


class Invocation:
    """The command line and the environment of a command. Raise CannotShare if the command is not for the shared
    process, or cannot be understood here.

    `arguments` and `environ` have absolute paths; `flags` are the flags that make another process. `starts`: the shared
    process is to be started. `reads_input`: `recall` and `remember` with words do not read standard input, nor do the
    commands that only look.
    """

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Read the arguments and the environment, and make their paths absolute. Raises CannotShare
        if a shared process cannot do what they ask for, or is switched off."""
        self.arguments = list(arguments)
        self.environ = dict(environ)
        self.flags: list[str] = []
        self.command = COMMANDS["serve"]
        self.has_words = False
        self.starts = False
        self._names_command = False

        index = 0
        while index < len(self.arguments):
            index = self._take(index)

        self.reads_input = self.command.shared in ("window", "hook")
        if self.command.shared == "turn":
            self.reads_input = not self.has_words

        # The shared process has another working directory, so its paths must be absolute.
        for name in _PLACES_IN_ENVIRONMENT:
            if self.environ.get(name):
                self.environ[name] = absolute(self.environ[name])

        if self.environ.get("MEMORY_SERVER_DAEMON__ENABLED", "").lower() in _OFF:
            raise CannotShare

    def _take(self, index: int) -> int:
        """Read the argument at `index`; return the index of the next argument. Raises CannotShare
        if a shared process cannot do what it asks for."""
        word = self.arguments[index]
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            setting = SETTING_FLAGS.get(name)
            if setting is not None and setting.in_shared_process != "none":
                if not equals:
                    value = self._take_value(index + 1)
                self._set_setting(index, setting, value)
                return index + 1

        if word == "-c":
            return index + 2

        if word == "--start" and self.command.shared == "turn":
            self.starts = True
        elif word == "--read-only":
            self.flags.append(word)
        elif self._names_command and (not word.startswith("-") or word == "--"):
            self.has_words = True
        elif not word.startswith("-"):
            self._set_command(word)
        elif word in self.command.value_options:
            return index + 2
        # What is not known here might mean another process, so this process does the work.
        elif (
            self.command.shared == "window"
            or word in ("-h", "--help", "--no-daemon")
            or word.startswith("--te")
        ):
            raise CannotShare

        return index + 1

    def _take_value(self, index: int) -> str:
        """Remove and return the argument at `index`, the value of the flag before it. Raises CannotShare without one."""
        if index == len(self.arguments):
            raise CannotShare
        return self.arguments.pop(index)

    def _set_setting(self, index: int, setting: SettingFlag, value: str) -> None:
        """Put the flag of a setting with its value at `index`, and also into `flags` if a shared process has one value
        of it."""
        if setting.is_path and value:
            value = absolute(value)
        flag = f"--{setting.name}={value}"
        self.arguments[index] = flag
        if setting.in_shared_process == "one value":
            self.flags.append(flag)

    def _set_command(self, word: str) -> None:
        """Take the word for the command. Raise CannotShare if it is unknown, or never runs in the shared process."""
        command = COMMANDS.get(word)
        if command is None or command.shared == "no":
            raise CannotShare
        self.command = command
        self._names_command = True

    def key(self) -> str:
        """Return the key of the shared process: all that must be equal for two commands to share a process. It has the
        facts of the program, then, after `END_OF_PROGRAM`, the facts of the user. Raise CannotShare if the settings
        file turns the shared process off."""
        file = self._config_file()
        stamp = ""
        settings = b""

        try:
            status = os.stat(file)
            stamp = f"{status.st_size} {status.st_mtime_ns}"
            with open(file, "rb") as opened_file:
                settings = opened_file.read()
        except OSError:
            pass

        if _turns_off(settings):
            raise CannotShare

        root = program_root()
        parts = [
            PROTOCOL,
            __version__,
            root,
            _code_stamp(root),
            sys.executable,
            END_OF_PROGRAM,
            file,
            stamp,
            *sorted(self.flags),
        ]

        # A model's key and the way to it are part of the key: a window must not use another window's key.
        key_variables = self._keys_of_models(settings)
        for name, value in sorted(self.environ.items()):
            if name in PER_SESSION_VARIABLES:
                continue
            if (
                name.startswith(_PREFIXES)
                or name.endswith(_ENDINGS)
                or name in _NAMES
                or name in key_variables
            ):
                parts.append(f"{name}={value}")

        return "\n".join(parts)

    def _config_file(self) -> str:
        """Return the path of the settings file, which the last flag `--config` names."""
        for flag in reversed(self.flags):
            if flag.startswith("--config="):
                return flag.removeprefix("--config=")
        return self.environ.get("MEMORY_SERVER_CONFIG") or default_config_file(self.environ)

    def _keys_of_models(self, settings: bytes) -> list[str]:
        """Return the variables that `key_env` may name: variables whose names are quoted in the settings, which need
        not be parsed for it."""
        lines = [settings.decode("utf-8", "replace")]
        for name, value in self.environ.items():
            if name.startswith("MEMORY_SERVER_"):
                lines.append(f'{name} = "{value}" {value}')
        text = "\n".join(lines)
        if "key_env" not in text.lower():
            return []
        return [name for name in self.environ if f'"{name}"' in text or f"'{name}'" in text]

    def timeout_seconds(self) -> float:
        """Return how long a hook waits for its answer, in seconds."""
        words: list[str] = []
        for argument in self.arguments:
            words += argument.split("=", 1)
        try:
            return float(words[words.index("--seconds") + 1])
        except (ValueError, IndexError):
            return HOOK_SECONDS


def _turns_off(settings: bytes) -> bool:
    """Tell whether a settings file has `daemon.enabled = false`. Raise ValueError if it is no TOML."""
    if b"daemon" not in settings:
        return False
    import tomllib

    daemon = tomllib.loads(settings.decode("utf-8-sig")).get("daemon")
    return isinstance(daemon, dict) and daemon.get("enabled") is False


def program_root() -> str:
    """Return the folder of the program's packages."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def installed_packages_first() -> None:
    """Let Python look into the folders of PYTHONPATH last, so that a foreign package there, such as another `mcp` or
    `jieba`, does not replace the package that was installed with this program. If the program itself comes from
    PYTHONPATH, nothing is changed."""
    python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    foreign_folders = {os.path.abspath(folder) for folder in python_path if folder}
    if not foreign_folders or program_root() in foreign_folders:
        return
    last_entries = [entry for entry in sys.path if os.path.abspath(entry) in foreign_folders]
    first_entries = [entry for entry in sys.path if entry not in last_entries]
    sys.path[:] = first_entries + last_entries


def _code_stamp(root: str) -> str:
    """Return the sum of the times of all files of the program. It changes with an update, even if the version stays the
    same. There are a few hundred files, which takes a millisecond. Raise OSError if the program is just being
    replaced."""
    sum_of_times = 0
    folders = [f"{root}/{name}" for name in _PACKAGES]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":  # made by whatever is imported first
                        folders.append(entry.path)
                elif not entry.name.startswith("."):  # what editors leave beside a file
                    sum_of_times += entry.stat(follow_symlinks=False).st_mtime_ns
    return str(sum_of_times)


def ensure_home(environ: MutableMapping[str, str]) -> None:
    """Set HOME if it is not the path of a folder: to the home in the user's entry in passwd, otherwise to `/`, as
    Docker does. A container may run as a user that has neither (OpenShift)."""
    if os.name != "posix" or environ.get("HOME", "").startswith("/"):
        return
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = ""
    environ["HOME"] = home if home.startswith("/") else "/"


def default_config_file(environ: Mapping[str, str]) -> str:
    """Return where platformdirs puts the settings file, without importing it."""
    home = environ.get("HOME", "")
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/memory-server/memory-server.toml"
    config_folder = environ.get("XDG_CONFIG_HOME", "").strip() or f"{home}/.config"
    return f"{config_folder}/memory-server/memory-server.toml"
