"""Builds keep the revision of the clone they were made from; one made from a source release keeps that one's."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RevisionHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        clone = Path(self.root)
        sys.path.insert(0, self.root)
        from apps.core.release import REVISION_FILE, read_revision

        kept = clone / REVISION_FILE
        revision = kept.read_text(encoding="ascii") if kept.exists() else f"{read_revision(clone)}\n"
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, REVISION_FILE)
        file.write_text(revision, encoding="ascii")
        place = REVISION_FILE if self.target_name == "sdist" else f"fairshare_web/shipped/{REVISION_FILE}"
        build_data["force_include"][str(file)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
