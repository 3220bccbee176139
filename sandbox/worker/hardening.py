"""What the worker process gives up before it meets a trigger, layer by layer, and the proof that it did.

A layer that this system does not offer is reported, not hidden; `require_all_layers` turns the report into a refusal.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from typing import TypedDict

from sandbox.worker.layers.errors import LayerMissing
from sandbox.worker.layers.linux import die_with_parent, forbid_files, no_new_privileges
from sandbox.worker.layers.rlimits import limit_files, limit_memory
from sandbox.worker.layers.seccomp import call_filter
from sandbox.worker.layers.selftest import SelfTest


class LayerState(TypedDict):
    """One line of `trigger-sandbox doctor`."""

    holds: bool
    detail: str


def give_up(*, data_mb: int, parent: int, without: Collection[str] = ()) -> dict[str, LayerState]:
    """Gives up all that can be given up here; there is no way back. Says for each layer whether it holds.

    `without`: layers to leave out, as on a system that lacks them (for tests).
    """
    # In this order: a filter must not forbid what a later layer needs.
    layers: dict[str, Callable[[], str]] = {
        "parent": lambda: die_with_parent(parent),
        "files": limit_files,
        "memory": lambda: limit_memory(data_mb),
        "privileges": no_new_privileges,
        "landlock": forbid_files,
        "seccomp": _later(call_filter),
    }
    test = SelfTest()
    states = {name: _state(name, apply, without) for name, apply in layers.items()}
    # A refused write must be an error and not a signal, whatever limit refuses it.
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for attempt, refused in test.run().items():
        states[f"no {attempt}"] = {"holds": refused, "detail": "tried and refused" if refused else "tried: it works"}
    return states


def _later(make: Callable[[], Callable[[], str]]) -> Callable[[], str]:
    """A layer whose first half has to be done now: what is missing now is said when its turn comes."""
    try:
        return make()
    except LayerMissing as missing:
        reason = missing

    def say() -> str:
        raise reason

    return say


def _state(name: str, apply: Callable[[], str], without: Collection[str]) -> LayerState:
    if name in without:
        return {"holds": False, "detail": "left out on request"}
    try:
        return {"holds": True, "detail": apply()}
    except LayerMissing as missing:
        return {"holds": False, "detail": str(missing)}
