"""Say what a home holds, for an empty answer, and what a copy of it does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from languages import _
from memory_server.operations.ports import OpenMemory

SHOWN_NAMES = 10


async def whereabouts(view: OpenMemory) -> str:
    """Return a sentence with the conversations and the scopes that hold something; if none exist, with the tenants,
    or that nothing is stored."""
    names: list[str] = list(await view.memories.conversations.ids())
    overview = await view.knowledge.overview(layers=True)

    for scope_name, figures in overview.items():
        if figures.count:
            names.append(f"{scope_name} ({figures.count})")

    if names:
        return _("{place} holds {names}.", view.home.shown, shown_names(names))

    tenants = view.home.tenant_names()
    if tenants:
        tenants_text = shown_names(tenants)
        return _(
            "{place} holds only tenants ({names}); use --tenant NAME for one of them.",
            view.home.shown,
            tenants_text,
        )
    return _("nothing is stored in {place} yet.", view.home.place)


def shown_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    first_names = ", ".join(names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    if rest > 0:
        return _("{names} and {count} more", first_names, rest)
    return first_names


async def not_copied(view: OpenMemory, *, layers: bool) -> list[str]:
    """Return a sentence for what a copy of this memory does not hold: the layers, unless the copy takes them (`layers`),
    and the tenants; no sentence for what does not exist."""
    sentences: list[str] = []
    if not layers:
        overview = await view.knowledge.overview(layers=True)
        folders = [
            str(layer.folder.place)
            for layer in view.knowledge.layers.known
            if f"layers/{layer.name}" in overview
        ]
        if folders:
            folders_text = ", ".join(folders)
            sentences.append(
                _("Not included: the layers, which are separate files in {places}", folders_text)
            )

    tenants = view.home.tenant_names()
    if tenants:
        sentences.append(
            _(
                "Not included: the tenants {names}; use --tenant NAME for one of them",
                shown_names(tenants),
            )
        )
    return sentences
