"""The one way a layer says that it cannot hold here."""

from __future__ import annotations


class LayerMissing(Exception):
    """This system does not offer the layer; the message says what is missing."""
