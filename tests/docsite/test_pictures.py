"""The pictures of README and documentation are those that `make pictures` draws."""

from __future__ import annotations

import re
from pathlib import Path

from docsite.pictures import FOLDER, PICTURES, ROOT, THEMES

_SHOWN = re.compile(r"pictures/([\w-]+\.png)")


def _shown(path: Path) -> set[str]:
    return set(_SHOWN.findall(path.read_text(encoding="utf-8")))


def test_readme_shows_each_picture_in_both_themes() -> None:
    drawn = {picture.file(theme).name for picture in PICTURES for theme in THEMES}
    assert _shown(ROOT / "README.md") == drawn
    assert {path.name for path in FOLDER.glob("*.png")} == drawn


def test_the_documentation_shows_no_other_picture() -> None:
    drawn = {picture.file(theme).name for picture in PICTURES for theme in THEMES}
    assert set().union(*map(_shown, (ROOT / "docs").glob("*.md"))) <= drawn


def test_pictures_are_small() -> None:
    assert {path.name for path in FOLDER.glob("*.png") if path.stat().st_size > 200_000} == set()
