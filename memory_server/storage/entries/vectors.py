"""Vectors of texts, as rows beside the entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memory_server.kernel.scopes import KEY_BYTES, Scope, vector_key

if TYPE_CHECKING:
    from memory_server.storage.entries.database import Database


def known_vectors(
    connection: Database, embeds: str, scope: Scope, texts: Sequence[str]
) -> dict[str, bytes]:
    """Return the known vectors by their texts."""
    query = "SELECT vector FROM vectors WHERE key = ?"
    vectors: dict[str, bytes] = {}
    for text in texts:
        row = connection.execute(query, (vector_key(embeds, scope, text),)).fetchone()
        if row is not None:
            vectors[text] = row[0]
    return vectors


def without_vector(connection: Database, embeds: str, limit: int) -> list[tuple[Scope, str]]:
    """List texts of memories of users without a vector, newest first. Before that, set the keys of another model and
    the keys that a process without a model left out, and remove vectors of another length than the newest."""
    live = "e.archived_ms IS NULL AND s.space = 'sessions'"
    of_other_model = (
        "SELECT e.id, s.space, s.owner, e.body FROM entries e JOIN scopes s ON s.id = e.scope "
        f"WHERE {live} AND (e.vector_key IS NULL OR substr(e.vector_key, 1, 4) != ?)"
    )
    model_mark = vector_key(embeds)
    keys = []
    for entry_id, space, owner, body in connection.execute(
        of_other_model, (model_mark,)
    ).fetchall():
        keys.append((vector_key(embeds, Scope(space, owner), body), entry_id))

    connection.executemany("UPDATE entries SET vector_key = ? WHERE id = ?", keys)
    _forget_other_lengths(connection, model_mark)
    missing = (
        "SELECT s.space, s.owner, e.body FROM entries e JOIN scopes s ON s.id = e.scope "
        "WHERE e.id IN (SELECT max(e.id) FROM entries e JOIN scopes s ON s.id = e.scope "
        f"LEFT JOIN vectors v ON v.key = e.vector_key WHERE {live} AND v.key IS NULL GROUP BY e.vector_key) "
        "ORDER BY e.id DESC LIMIT ?"
    )
    return [
        (Scope(space, owner), body) for space, owner, body in connection.execute(missing, (limit,))
    ]


def _forget_other_lengths(connection: Database, mark: bytes) -> None:
    """Remove the vectors of a model that have another length than the newest."""
    of_model = "substr(key, 1, 4) = :mark AND length(vector) > 0"
    newest = f"SELECT length(vector) FROM vectors WHERE {of_model} ORDER BY used_ms DESC LIMIT 1"
    connection.execute(
        f"DELETE FROM vectors WHERE {of_model} AND length(vector) != ({newest})", {"mark": mark}
    )


def forget_vectors(
    connection: Database, embeds: str, live: Iterable[tuple[Scope, str]], before_ms: int
) -> None:
    """Remove the vectors of conversations that were made before that time and are of no live text, and vectors of
    another length than the newest."""
    _forget_other_lengths(connection, vector_key(embeds))
    older = "SELECT key FROM vectors WHERE length(key) = ? AND used_ms < ?"
    rows = connection.execute(older, (KEY_BYTES["conversations"], before_ms)).fetchall()
    old_keys = {bytes(row[0]) for row in rows}
    live_keys = {vector_key(embeds, scope, text) for scope, text in live}
    connection.executemany(
        "DELETE FROM vectors WHERE key = ?", [(key,) for key in old_keys - live_keys]
    )
