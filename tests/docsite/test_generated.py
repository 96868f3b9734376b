"""The generated parts of docs/ are what the code gives now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from docsite import curves, settings
from docsite.pages import files
from docsite.setting_texts import SECTIONS


def test_generated_pages_and_drawings_are_up_to_date() -> None:
    old = [str(path.relative_to(REPOSITORY)) for path, text in files() if _stored(path) != text]
    assert old == [], "run `make docs-parts`"


def test_every_variable_of_the_settings_has_a_meaning() -> None:
    described = [name for texts in SECTIONS.values() for name in texts]
    assert sorted(described) == sorted(settings.read_variables())


@pytest.mark.parametrize(
    ("name", "values", "default"),
    [
        ("FAIRSHARE_PORT", "1 to 65535", "`8000`"),
        ("FAIRSHARE_UPLOAD_BYTES", "0 or more", "`2147483648`"),
        ("FAIRSHARE_EMAIL", "`off`, `console`, `smtp`", "`off`"),
        ("FAIRSHARE_LDAP_START_TLS", "yes or no", "yes"),
        ("FAIRSHARE_ISSUER", "", "none"),
    ],
)
def test_documented_bounds_and_defaults_equal_the_settings(name: str, values: str, default: str) -> None:
    variable = settings.read_variables()[name]
    assert (variable.values, variable.default) == (values, default)


def test_a_curve_goes_through_the_balance_at_the_target() -> None:
    relative = next(text for path, text in curves.drawings() if path == "operators/relative.svg")
    points = re.search(r'points="([^"]+)"', relative)
    assert points
    x = curves.LEFT + curves.TARGET * (curves.WIDTH - curves.LEFT - curves.RIGHT)
    y = curves.TOP + 0.5 * (curves.HEIGHT - curves.TOP - curves.BOTTOM)
    assert f"{x:.1f},{y:.1f}" in points[1].split()


def test_drawings_are_small_and_have_no_script() -> None:
    drawn = dict(curves.drawings())
    assert len(drawn) >= 18
    assert max(map(len, drawn.values())) < 4_000
    assert not any("<script" in text or "href" in text for text in drawn.values())


def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
