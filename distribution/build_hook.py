"""Builds the catalogue into the wheel and into an editable installation, and writes the commit into what is shipped;
hatchling calls it."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """`memory-server --version` says the commit of a wheel by the file that this hook adds. An editable installation
    has no such file: its clone may be at another commit tomorrow, so git is asked there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the catalogues, and put the commit of the clone into the wheel, unless it is an editable one."""
        sys.path.insert(0, str(Path(self.root) / "distribution"))
        from catalogues import build

        build()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if version == "editable":
            return
        versions = _module(Path(self.root) / "memory_server" / "version.py")
        commit = versions.commit_of_clone(Path(self.root))
        if commit is None:
            return  # a source distribution has the file already, and a copy without git has none
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / versions.COMMIT_FILE
        file.write_text(f"{commit}\n", encoding="ascii")
        build_data["force_include"][str(file)] = f"memory_server/{versions.COMMIT_FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _module(file: Path) -> ModuleType:
    """Load the module in `file`, without importing the package around it, whose dependencies are not there."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
