"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours; cheap to import.

What programs use is here: the sandbox and its verdicts, packs of triggers, chat files, and JavaScript as text.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.chats import chat, left_out
    from sandbox.chats.dates import instant
    from sandbox.chats.encoding import EncodingError, decode
    from sandbox.chats.message_forms import message_rows, read_message, role_of
    from sandbox.chats.messages import is_sillytavern, whole
    from sandbox.chats.plain import begins_with_role, may_be_chat
    from sandbox.conditions import (
        PlainPattern,
        SearchedTexts,
        SoughtKey,
        SpokenText,
        TooMuchText,
        named_text,
        pieces_of,
        speaker_names,
    )
    from sandbox.errors import (
        PatternError,
        SandboxBusy,
        SandboxClosed,
        SandboxError,
        SandboxUnavailable,
    )
    from sandbox.host.supervisor import TriggerRecord, TriggerSandbox
    from sandbox.javascript import literals
    from sandbox.javascript.literals import HOOK_CHARS, given_by_a_hook
    from sandbox.javascript.spelling import spelled_in_two_ways
    from sandbox.limits import SandboxLimits
    from sandbox.rules import (
        MOST_GROUP_CHARS,
        MOST_GROUPS,
        MOST_MESSAGES,
        MOST_NUMBER,
        RULE_FIELDS,
        group_names,
    )
    from sandbox.values import WRONG_VALUES, joined_values
    from sandbox.verdicts import (
        CheckReport,
        Failed,
        FailureKind,
        Fired,
        Operand,
        Problem,
        ProtectionLayer,
        Quiet,
        Reading,
        RunReport,
        Verdict,
    )
    from sandbox.workbench.files import PackMemory, pack_text, usable

__all__ = [
    "CheckReport",
    "Failed",
    "FailureKind",
    "Fired",
    "Operand",
    "Problem",
    "ProtectionLayer",
    "Quiet",
]
__all__ += ["Reading", "RunReport", "Verdict"]
_MODULES = dict.fromkeys(__all__, "verdicts")
"""In which module each name is."""
__all__ += ["SandboxLimits", "TriggerRecord", "TriggerSandbox"]
_MODULES |= {
    "SandboxLimits": "limits",
    "TriggerRecord": "host.supervisor",
    "TriggerSandbox": "host.supervisor",
}
__all__ += ["PatternError", "SandboxBusy", "SandboxClosed", "SandboxError", "SandboxUnavailable"]
_MODULES |= dict.fromkeys(__all__[-5:], "errors")
__all__ += ["PackMemory", "pack_text", "usable"]
_MODULES |= dict.fromkeys(__all__[-3:], "workbench.files")
__all__ += ["begins_with_role", "chat", "is_sillytavern", "left_out", "may_be_chat", "whole"]
_MODULES |= {"chat": "chats.chat", "left_out": "chats.left_out", "begins_with_role": "chats.plain"}
_MODULES |= {"may_be_chat": "chats.plain"}
_MODULES |= {"is_sillytavern": "chats.messages", "whole": "chats.messages"}
__all__ += ["MOST_GROUPS", "MOST_GROUP_CHARS", "MOST_MESSAGES", "MOST_NUMBER"]
__all__ += ["RULE_FIELDS", "group_names"]
_MODULES |= dict.fromkeys(__all__[-6:], "rules")
__all__ += ["message_rows", "read_message", "role_of"]
_MODULES |= dict.fromkeys(__all__[-3:], "chats.message_forms")
__all__ += ["WRONG_VALUES", "EncodingError", "decode", "instant", "joined_values"]
_MODULES |= {"EncodingError": "chats.encoding", "decode": "chats.encoding"}
_MODULES |= {"instant": "chats.dates", "joined_values": "values"}
_MODULES |= {"WRONG_VALUES": "values"}
__all__ += ["HOOK_CHARS", "given_by_a_hook"]
_MODULES |= dict.fromkeys(("HOOK_CHARS", "given_by_a_hook"), "javascript.literals")
__all__ += ["literals", "spelled_in_two_ways"]
_MODULES |= {"literals": "javascript.literals", "spelled_in_two_ways": "javascript.spelling"}
__all__ += ["PlainPattern", "SearchedTexts", "SoughtKey", "SpokenText", "TooMuchText"]
__all__ += ["named_text", "pieces_of", "speaker_names"]
_MODULES |= dict.fromkeys(__all__[-8:], "conditions")


def __getattr__(name: str) -> object:
    # Imported late: asyncio and hashlib take 60 ms, dataclasses 10, and `--help` does not need them.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"sandbox.{_MODULES[name]}")
    is_module = _MODULES[name].endswith(f".{name}")
    return module if is_module else getattr(module, name)
