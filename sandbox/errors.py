"""What can go wrong with the sandbox itself. A trigger that fails is a verdict, not an error of this file."""

from __future__ import annotations

from languages import MessageError


class SandboxError(MessageError):
    """The root."""


class PatternError(SandboxError):
    """A user's search expression is invalid, empty or too slow; the message says why in one sentence."""


class SandboxClosed(SandboxError):
    """Used after aclose()."""


class SandboxBusy(SandboxError):
    """`SandboxLimits.max_waiting` searches are waiting for a worker; try again later."""


class SandboxUnavailable(SandboxError):
    """No worker process can be started here, or a demanded layer is missing; the message says which."""


class ProtocolError(Exception):
    """A frame between parent and worker is malformed. Never leaves this package."""


class LayerMissing(MessageError):
    """This system does not offer a layer of protection. Never leaves the worker."""
