"""What the worker process gives up before it meets a trigger, layer by layer, and the proof that it did.

A layer that this system does not offer is reported, not hidden; `require_all_layers` turns the report into a refusal.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from typing import TypedDict

from sandbox.errors import LayerMissing
from sandbox.worker.layers.kernel import die_with_parent, forbid_files, limit_files, limit_memory, no_new_privileges
from sandbox.worker.layers.seccomp import allow_calls
from sandbox.worker.layers.selftest import attempts, is_refused


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
        "seccomp": allow_calls,
    }
    tried = attempts()
    states = {name: _state(name, apply, without) for name, apply in layers.items()}
    # A refused write must be an error and not a signal, whatever limit refuses it.
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for name, attempt in tried.items():
        refused = is_refused(attempt)
        states[f"no {name}"] = {"holds": refused, "detail": "tried and refused" if refused else "tried: it works"}
    return states


def _state(name: str, apply: Callable[[], str], without: Collection[str]) -> LayerState:
    if name in without:
        return {"holds": False, "detail": "left out on request"}
    try:
        return {"holds": True, "detail": apply()}
    except LayerMissing as missing:
        return {"holds": False, "detail": str(missing)}
