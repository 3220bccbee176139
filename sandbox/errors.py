"""What can go wrong with the sandbox itself. A trigger that fails is a verdict, not one of these errors.

SandboxError
├── PatternError        a user's search expression is invalid, empty or too slow
├── SandboxClosed       used after aclose()
├── SandboxBusy         too many searches are waiting already
└── SandboxUnavailable  no worker process can be started here, or a demanded layer is missing
ProtocolError           a frame between parent and worker is malformed (never leaves this package)
LayerMissing            this system does not offer a layer of protection (never leaves the worker)
"""

from __future__ import annotations


class SandboxError(Exception):
    """The root."""


class PatternError(SandboxError):
    """The expression cannot be used; the message says why in one sentence."""


class SandboxClosed(SandboxError):
    """The sandbox was closed."""


class SandboxBusy(SandboxError):
    """`Limits.max_waiting` searches are waiting for a worker; try again later."""


class SandboxUnavailable(SandboxError):
    """No worker can be started; the message says why."""


class ProtocolError(Exception):
    """The bytes are not a frame of this version."""


class LayerMissing(Exception):
    """This system does not offer the layer; the message says what is missing."""
