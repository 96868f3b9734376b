"""Staticfiles finder that serves plotly.js from the installed wheel, so that the repository needs no copy of it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

BUNDLE = "vendor/plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds `vendor/plotly.min.js`; no other file of the package is served."""

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        """Return the path of the bundle, as a list with `find_all`."""
        if path != BUNDLE:
            return []
        place = str(_folder() / Path(BUNDLE).name)
        return [place] if find_all else place

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        """Yield the bundle, which `collectstatic` copies below `vendor/`."""
        storage = FileSystemStorage(location=str(_folder()))
        storage.prefix = str(Path(BUNDLE).parent)  # type: ignore[attr-defined]  # as FileSystemFinder does
        yield Path(BUNDLE).name, storage


def _folder() -> Path:
    """Locate the package without importing it, which would cost time and memory."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:  # pragma: no cover - a required dependency
        raise FileNotFoundError("The package plotly isn't installed.")
    return Path(spec.origin).parent / "package_data"
