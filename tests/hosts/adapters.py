"""The adapters without their hosts: stubs of what they use of a host, and a memory in this process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from hosts.environments import DISTRIBUTION

from memory_server import App
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call


def module_at(path: Path, name: str) -> Any:
    """The module at this path, made again; `__init__.py` is a package."""
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client_module = module_at(DISTRIBUTION / "memory_client.py", "memory_client_of_hosts")


def memory_of(app: App, adapter: Any) -> Any:
    """A client of the kind that `adapter` uses, which asks `app` in this process; `asked` are its calls."""

    class InProcess(adapter.MemoryClient):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(rest=0.0)
            self.asked: list[tuple[str, Mapping[str, Any]]] = []

        async def call(
            self, tool: str, arguments: Mapping[str, Any], seconds: float = 0
        ) -> dict[str, Any]:
            self.asked.append((tool, arguments))
            try:
                return dict((await call(TOOLS[tool], app.call, arguments)).structured)
            except ToolFailed as error:
                raise adapter.MemoryFailed(str(error), "arguments") from error

    return InProcess()


class TextPart:
    """As AstrBot 4.14.6 has it."""

    def __init__(self, text: str) -> None:
        self.text = text


class TemporaryPart(TextPart):
    """As AstrBot 4.24.1 has it."""

    temporary = False

    def mark_as_temp(self) -> None:
        self.temporary = True


class Store:
    """AstrBot's preferences."""

    async def get_async(self, scope: str, scope_id: str, key: str, default: Any) -> Any:
        return default


class Star:
    values: dict[str, Any]

    def __init__(self, context: Any, config: Any) -> None:
        self.context = context
        self.values = {}

    async def put_kv_data(self, key: str, value: Any) -> None:
        self.values[key] = value

    async def get_kv_data(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)


def _decorator(*_: Any, **__: Any) -> Any:
    return lambda function: function


class Tool:
    """A tool of a plugin, as AstrBot makes it of `llm_tool`."""

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self.handler_module_path = module
        self.description = ""
        properties = {argument: {"type": "x"} for argument in ("query", "otherWords")}
        self.parameters = {"type": "object", "properties": properties}


class ToolSet:
    """The tools of a request."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = list(tools)

    def get_tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    get_func = get_tool
    """So it is called among the tools of all plugins."""

    def remove_tool(self, name: str) -> None:
        self.tools = [tool for tool in self.tools if tool.name != name]


@contextmanager
def astrbot_api(part: type = TextPart) -> Iterator[Any]:
    """The plugin's module, with stubs in place of AstrBot."""
    hooks = (
        "on_llm_request",
        "on_llm_response",
        "event_message_type",
        "after_message_sent",
        "command",
        "llm_tool",
    )
    names = {
        "astrbot.api": {
            "AstrBotConfig": dict,
            "sp": Store(),
            "logger": SimpleNamespace(warning=print),
        },
        "astrbot.api.event": {
            "AstrMessageEvent": object,
            "MessageEventResult": object,
            "filter": SimpleNamespace(
                EventMessageType=SimpleNamespace(GROUP_MESSAGE=1),
                **dict.fromkeys(hooks, _decorator),
            ),
        },
        "astrbot.api.provider": {"LLMResponse": object, "ProviderRequest": object},
        "astrbot.api.star": {"Context": object, "Star": Star},
        "astrbot.core.agent.message": {"TextPart": part},
    }
    modules = {
        "astrbot": ModuleType("astrbot"),
        "astrbot.core": ModuleType("c"),
        "astrbot.core.agent": ModuleType("a"),
    }
    for name, values in names.items():
        modules[name] = ModuleType(name)
        vars(modules[name]).update(values)
    sys.modules.update(modules)
    package = ModuleType("astrbot_plugin")
    package.__path__ = [str(DISTRIBUTION / "astrbot")]
    sys.modules["astrbot_plugin"] = package
    try:
        yield module_at(DISTRIBUTION / "astrbot" / "main.py", "astrbot_plugin.main")
    finally:
        for name in [
            loaded for loaded in sys.modules if loaded.startswith(("astrbot.", "astrbot_plugin"))
        ]:
            del sys.modules[name]
        sys.modules.pop("astrbot", None)


class Event:
    """A message in AstrBot. `group` empty: in private."""

    def __init__(
        self,
        text: str,
        sender: str = "10001",
        group: str = "",
        *,
        name: str = "小明",
        number: str = "1",
        admin: bool = False,
        to_bot: bool = True,
        origin: str | None = None,
    ) -> None:
        self.message_str = text
        self.role = "admin" if admin else "member"
        self._sender = sender
        self._group = group
        self._name = name
        self._extras = dict[str, Any]()
        self.message_obj = SimpleNamespace(message_id=number)
        self.is_at_or_wake_command = to_bot
        where = f"GroupMessage:{group}" if group else f"FriendMessage:{sender}"
        self.unified_msg_origin = origin or f"qq:{where}"

    def get_platform_id(self) -> str:
        return "qq"

    def get_sender_id(self) -> str:
        return self._sender

    def get_sender_name(self) -> str:
        return self._name

    def get_group_id(self) -> str:
        return self._group

    def get_session_id(self) -> str:
        return self._group or self._sender

    def get_self_id(self) -> str:
        return "90000"

    def is_private_chat(self) -> bool:
        return not self._group

    def is_admin(self) -> bool:
        return self.role == "admin"

    def set_extra(self, key: str, value: Any) -> None:
        self._extras[key] = value

    def get_extra(self, key: str, default: Any = None) -> Any:
        return self._extras.get(key, default)

    def plain_result(self, text: str) -> str:
        return text


def astrbot_context(persona: str = "[%None]", *tools: Tool) -> Any:
    """What AstrBot gives to a plugin, with the usual persona, and the `tools` of all plugins."""

    class Conversations:
        async def get_curr_conversation_id(self, origin: str) -> str | None:
            return None

    return SimpleNamespace(
        conversation_manager=Conversations(),
        get_llm_tool_manager=lambda: ToolSet(*tools),
        get_config=lambda umo: {"provider_settings": {"default_personality": persona}},
    )


@contextmanager
def hermes_provider() -> Iterator[Any]:
    """The provider's module, with a stub in place of Hermes."""
    modules = {
        "agent": ModuleType("agent"),
        "agent.memory_provider": ModuleType("agent.memory_provider"),
    }
    vars(modules["agent.memory_provider"])["MemoryProvider"] = object
    sys.modules.update(modules)
    try:
        yield module_at(DISTRIBUTION / "hermes" / "__init__.py", "hermes_memory_server")
    finally:
        for name in (*modules, "hermes_memory_server", "hermes_memory_server.memory_client"):
            sys.modules.pop(name, None)
