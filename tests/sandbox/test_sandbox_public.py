"""The public names of the package, and that its values cannot be changed."""

from __future__ import annotations

import dataclasses
import typing

import pytest

import sandbox


def test_the_public_names_are_these() -> None:
    assert sorted(sandbox.__all__) == [
        "CheckReport",
        "EncodingError",
        "Failed",
        "FailureKind",
        "Fired",
        "HOOK_CHARS",
        "MOST_GROUPS",
        "MOST_GROUP_CHARS",
        "MOST_MESSAGES",
        "MOST_NUMBER",
        "Operand",
        "PackMemory",
        "PatternError",
        "PlainPattern",
        "Problem",
        "ProtectionLayer",
        "Quiet",
        "RULE_FIELDS",
        "Reading",
        "RunReport",
        "SandboxBusy",
        "SandboxClosed",
        "SandboxError",
        "SandboxLimits",
        "SandboxUnavailable",
        "SearchedTexts",
        "SoughtKey",
        "SpokenText",
        "TooMuchText",
        "TriggerRecord",
        "TriggerSandbox",
        "Verdict",
        "WRONG_VALUES",
        "begins_with_role",
        "chat",
        "decode",
        "given_by_a_hook",
        "group_names",
        "instant",
        "is_sillytavern",
        "joined_values",
        "left_out",
        "literals",
        "may_be_chat",
        "message_rows",
        "named_text",
        "pack_text",
        "pieces_of",
        "read_message",
        "role_of",
        "speaker_names",
        "spelled_in_two_ways",
        "usable",
        "whole",
    ]
    for name in sandbox.__all__:
        assert getattr(sandbox, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        sandbox.nothing_like_it  # noqa: B018


def test_values_are_frozen_and_slotted() -> None:
    for kind in (
        sandbox.SandboxLimits,
        sandbox.Fired,
        sandbox.Quiet,
        sandbox.Failed,
        sandbox.Problem,
        sandbox.CheckReport,
    ):
        assert dataclasses.is_dataclass(kind)
        assert "__slots__" in vars(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sandbox.Fired(1).elapsed_us = 2  # type: ignore[misc]


def test_the_kinds_of_failure_are_these() -> None:
    assert typing.get_args(sandbox.FailureKind) == (
        "syntax",
        "reference",
        "thrown",
        "timeout",
        "out_of_memory",
        "killed",
        "not_evaluated",
    )


def test_errors_have_one_root() -> None:
    for error in (
        sandbox.PatternError,
        sandbox.SandboxBusy,
        sandbox.SandboxClosed,
        sandbox.SandboxUnavailable,
    ):
        assert issubclass(error, sandbox.SandboxError)
