"""No module imports itself through others of its room: imports inside functions and for types count.

import-linter does not see circles inside a room, and one that is hidden inside a function is still a circle for whoever
reads it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("memory_server", "sandbox", "nlp", "languages")
Imports = dict[str, set[str]]
"""By the name of each module, those that it imports."""


def imports_below(root: Path) -> Imports:
    """Read which of the modules below `root` import which."""
    paths: dict[str, Path] = {}
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            paths[name.removesuffix(".__init__")] = path
    return {name: imported_by(path, paths) - {name} for name, path in paths.items()}


def imported_by(path: Path, known: dict[str, Path]) -> set[str]:
    """Collect the known modules that a file imports anywhere in it."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imported.add(submodule if submodule in known else node.module)
    return imported & known.keys()


def room_of(module: str) -> str:
    """Name the room of a module: the package and the folder below it."""
    return ".".join(module.split(".")[:2])


def circle_in(imports: Imports) -> list[str]:
    """Return the modules of one circle, the first of them at both ends; empty if there is none."""
    done: set[str] = set()
    for start in sorted(imports):
        circle = _circle_from(start, imports, done, [])
        if circle:
            return circle
    return []


def _circle_from(module: str, imports: Imports, done: set[str], path: list[str]) -> list[str]:
    if module in path:
        return [*path[path.index(module) :], module]
    if module in done:
        return []
    for imported in sorted(imports.get(module, ())):
        circle = _circle_from(imported, imports, done, [*path, module])
        if circle:
            return circle
    done.add(module)
    return []


def test_no_room_has_a_circle() -> None:
    imports = imports_below(ROOT)
    rooms = {room_of(module) for module in imports}
    assert len(rooms) > 20
    for room in sorted(rooms):
        inside = {
            module: {other for other in imported if room_of(other) == room}
            for module, imported in imports.items()
            if room_of(module) == room
        }
        assert circle_in(inside) == [], f"the room {room} has a circle"


@pytest.mark.parametrize(
    "line",
    [
        "from memory_server.room.first import A",
        "def late():\n    from memory_server.room import first",
        "if TYPE_CHECKING:\n    from memory_server.room.first import A",
        "import memory_server.room.first",
    ],
)
def test_a_circle_is_found_wherever_the_import_stands(tmp_path: Path, line: str) -> None:
    room = tmp_path / "memory_server" / "room"
    room.mkdir(parents=True)
    (room / "first.py").write_text("from memory_server.room.second import B\n", encoding="utf-8")
    (room / "second.py").write_text(line + "\n", encoding="utf-8")
    assert circle_in(imports_below(tmp_path)) == [
        "memory_server.room.first",
        "memory_server.room.second",
        "memory_server.room.first",
    ]
