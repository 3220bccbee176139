"""Which lines of a transcript of Claude Code its user took back. Pure.

A transcript only grows: what was rewound stays in it. Each line names the line before it (`parentUuid`), and after
`/rewind` the next prompt names an earlier line, so that two prompts follow the same line. Newer versions also write a
line `last-prompt` with `explicit` and the line to which the user went back (`leafUuid`). Seen in the programs of
2.1.100 and 2.1.332.

Lines branch for other reasons too: an error of the API, tools that run at the same time, a loader that took the wrong
line, a compaction. So a branch counts as taken back only if it begins with a prompt and is over before its
replacement begins. Where that is in doubt, the lines are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from memory_server.interchange.transcripts import LineContent, is_error, reading_of, role_of
from memory_server.kernel.values import dataclass, frozen

Row = Mapping[str, Any]


@frozen
class TakenBackBranch:
    """Lines that the user took back, in the order of the file. `replaced_by`: the prompt that came in their place, or
    None if nothing was said since."""

    rows: tuple[Row, ...]
    replaced_by: Row | None


@frozen
class Branches:
    """The lines of a transcript that hold, and the lines that were taken back."""

    live: tuple[Row, ...]
    taken_back: tuple[TakenBackBranch, ...] = ()


def branches_of(rows: Sequence[Row]) -> Branches:
    """Separate the lines of a transcript; all of them hold if they do not form a tree."""
    tree = _Tree.of(rows)
    if tree is None:
        return Branches(tuple(rows))

    branches: list[TakenBackBranch] = []
    positions_taken: set[int] = set()
    for head, replaced_by in sorted(_heads_taken_back(tree)):
        positions = tree.below(head)
        if positions_taken.isdisjoint(positions):
            branch_rows = tuple(rows[position] for position in sorted(positions))
            replacing_row = None if replaced_by < 0 else rows[replaced_by]
            branches.append(TakenBackBranch(branch_rows, replacing_row))
            positions_taken.update(positions)
    live = tuple(row for position, row in enumerate(rows) if position not in positions_taken)
    return Branches(live, tuple(branches))


@dataclass(slots=True)
class _Tree:
    """The lines by their positions in the file. `roots`: the lines that say that nothing is before them.
    `last_spoken`: the last place at which something is said in the branch from a line on, or -1."""

    rows: Sequence[Row]
    positions: dict[str, int] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    children: dict[int, list[int]] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    last_spoken: dict[int, int] = field(default_factory=dict)
    _readings: dict[int, LineContent] = field(default_factory=dict)
    _prompts: dict[int, int | None] = field(default_factory=dict)

    @staticmethod
    def of(rows: Sequence[Row]) -> _Tree | None:
        """Build the tree of the lines. Return None if two lines have the same id and different parents, or they go in
        a circle."""
        tree = _Tree(rows)
        for position, row in enumerate(rows):
            uuid = row.get("uuid")
            if not isinstance(uuid, str):
                continue
            first = tree.positions.setdefault(uuid, position)
            if rows[first].get("parentUuid") != row.get("parentUuid"):
                return None

        for position in tree.positions.values():
            row = rows[position]
            # After a compaction the first line has no parent, and says which line was the last one before.
            parent_id = row.get("parentUuid") or row.get("logicalParentUuid")
            parent = tree.positions.get(str(parent_id))
            if parent is not None:
                tree.parents[position] = parent
                tree.children.setdefault(parent, []).append(position)
            elif parent_id is None:
                tree.roots.append(position)

        # Children before their parents, so that each line knows what is said after it.
        ends = [position for position in tree.positions.values() if position not in tree.parents]
        in_order = tree.below(*ends)
        for position in reversed(in_order):
            is_spoken = role_of(rows[position]) in _SPEAKERS
            later = [tree.last_spoken[child] for child in tree.children.get(position, ())]
            tree.last_spoken[position] = max(position if is_spoken else _NOTHING, *later, _NOTHING)

        return None if len(in_order) < len(tree.positions) else tree

    def below(self, *positions: int) -> list[int]:
        """Return the positions of these lines and of all that follow them, each after its parent."""
        positions_below = list(positions)
        for position in positions_below:
            positions_below += self.children.get(position, ())
        return positions_below

    def root_of(self, position: int) -> int:
        while position in self.parents:
            position = self.parents[position]
        return position

    def reading(self, position: int) -> LineContent:
        if position not in self._readings:
            self._readings[position] = reading_of(self.rows[position])
        return self._readings[position]

    def prompt_at_head(self, head: int) -> int | None:
        """Return the position of the prompt with which the branch from `head` on begins, or None if it begins
        otherwise. What the client writes around a prompt may come before it."""
        waiting = [head]
        while waiting:
            position = waiting.pop()
            if position not in self._prompts:
                reading = self.reading(position)
                is_prompt = bool(reading.prompts and reading.messages)
                self._prompts[position] = position if is_prompt else None
                if not is_prompt and self._is_around_a_prompt(position):
                    waiting += reversed(self.children.get(position, []))
            prompt = self._prompts[position]
            if prompt is not None:
                while position != head:  # each line on the way begins with the same prompt
                    position = self.parents[position]
                    self._prompts[position] = prompt
                return prompt

        return None

    def _is_around_a_prompt(self, position: int) -> bool:
        """Tell whether a line is what the client writes around a prompt, and not a summary of a compaction."""
        row = self.rows[position]
        if role_of(row) == "user":
            return self.reading(position).prompts and not row.get("isCompactSummary")
        return row.get("type") in _AROUND_A_PROMPT and row.get("subtype") != "compact_boundary"

    def is_a_failed_request(self, head: int) -> bool:
        """Tell whether the branch has an error of the API and no answer: then the client, and not the user, branched."""
        positions = self.below(head)
        has_error = any(is_error(self.rows[position]) for position in positions)
        return has_error and not any(map(self._answers, positions))

    def _answers(self, position: int) -> bool:
        if role_of(self.rows[position]) != "assistant":
            return False
        return bool(self.reading(position).messages)


_AROUND_A_PROMPT = ("system", "attachment", "progress")
_SPEAKERS = ("user", "assistant")
_NOTHING = -1


def _heads_taken_back(tree: _Tree) -> Iterator[tuple[int, int]]:
    """Yield the first line of each branch that was taken back, and the prompt that replaces it, or -1."""
    for siblings in tree.children.values():
        if len(siblings) > 1:
            yield from _replaced(tree, siblings)
    if _is_newest_root_the_last(tree):
        yield from _replaced(tree, tree.roots)
    left_at: dict[int, int] = {}
    for position, row in enumerate(tree.rows):
        leaf = tree.positions.get(str(row.get("leafUuid")))
        if row.get("type") == "last-prompt" and row.get("explicit") and leaf is not None:
            left_at[leaf] = position
    for leaf, position in left_at.items():
        yield from _left(tree, tree.children.get(leaf, ()), position)


def _replaced(tree: _Tree, heads: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield, of branches at the same place, the first line of each that is over because a newer
    prompt was said there, with that prompt. A failed request is not replaced."""
    prompts: dict[int, int] = {}
    for head in heads:
        prompt = tree.prompt_at_head(head)
        if prompt is not None:
            prompts[prompt] = head
    if not prompts:
        return
    newest = max(prompts)
    for prompt, head in prompts.items():
        is_over = prompt != newest and tree.last_spoken[head] < newest
        if is_over and not tree.is_a_failed_request(head):
            yield head, newest


def _left(tree: _Tree, heads: Sequence[int], position: int) -> Iterator[tuple[int, int]]:
    """Yield the branches that the user left at this position of the file."""
    for head in heads:
        if tree.prompt_at_head(head) is None or tree.last_spoken[head] >= position:
            continue
        if not tree.is_a_failed_request(head):
            yield head, _NOTHING


def _is_newest_root_the_last(tree: _Tree) -> bool:
    """Tell whether the client says that the conversation goes on from the newest of several beginnings: the user went
    back to before the first prompt."""
    if len(tree.roots) < 2:
        return False
    for row in reversed(tree.rows):
        leaf = tree.positions.get(str(row.get("leafUuid")))
        if row.get("type") == "last-prompt" and leaf is not None:
            return tree.root_of(leaf) == max(tree.roots)
    return False
