"""What the pages load is what was vendored, and nothing in it needs a looser policy than ours."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
STATIC = REPOSITORY / "static"
TEMPLATES = REPOSITORY / "templates"
INLINE = (r"\sstyle=", r"<style", r"<script(?![^>]*\bsrc=)", r"\son[a-z]+=", r"hx-on", r"data:image", r"js:")
LOCKS = [STATIC / "vendor" / "vendor.lock", REPOSITORY / "tests" / "browser" / "vendor" / "vendor.lock"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.parent.name))
def test_vendored_scripts_have_the_recorded_checksums(lock: Path) -> None:
    rows = [line.split() for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    recorded = {name: digest for digest, name, *_ in rows}
    present = {path.name for path in lock.parent.glob("*.js")}
    assert set(recorded) == present
    for name, digest in recorded.items():
        assert hashlib.sha256((lock.parent / name).read_bytes()).hexdigest() == digest, name


def test_every_icon_of_a_template_is_in_the_sprite() -> None:
    known = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text(encoding="utf-8")))
    named = {
        match
        for path in TEMPLATES.rglob("*.html")
        for match in re.findall(r'{% (?:icon|empty) "([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert named, "no icons found in any template"
    assert named <= known, named - known


def test_no_template_has_inline_style_script_or_handlers() -> None:
    found = []
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for pattern in INLINE:
            found += [f"{path.name}: {match}" for match in re.findall(pattern, text)]
    assert not found


def test_no_template_disables_escaping() -> None:
    pages = [(path, path.read_text(encoding="utf-8")) for path in TEMPLATES.rglob("*.html")]
    bad = [str(path) for path, text in pages if re.search(r"\|\s*safe\b|{% autoescape off", text)]
    assert not bad


def test_styles_embed_no_images() -> None:
    """img-src is 'self' alone: an embedded image would be blocked."""
    sheets = [*(STATIC / "css").glob("*.css"), *(REPOSITORY / "apps").rglob("static/css/*.css")]
    assert {"base.css", "notices.css"} <= {path.name for path in sheets}
    assert not [path.name for path in sheets if "data:" in path.read_text(encoding="utf-8")]


def test_pages_load_styles_and_scripts_of_the_core_and_of_their_own_plug_in() -> None:
    """Of another plug-in's files a site without it has none."""
    foreign = []
    for path in TEMPLATES.rglob("*.html"):
        plugin = path.relative_to(TEMPLATES).parts[1] if path.is_relative_to(TEMPLATES / "contrib") else ""
        for name in re.findall(r"{% static '((?:css|js)/[^']+)' %}", path.read_text(encoding="utf-8")):
            places = (STATIC, *([REPOSITORY / "apps/contrib" / plugin / "static"] if plugin else []))
            foreign += [] if any((place / name).is_file() for place in places) else [f"{path.name}: {name}"]
    assert foreign == []


def test_figures_are_held_to_the_schema_of_the_plotly_that_is_served() -> None:
    of_schema = Path(str(files("plotly") / "package_data/plotly.min.js"))
    bundles = [STATIC / "vendor/plotly-basic.min.js", of_schema]
    heads = [bundle.read_text(encoding="utf-8")[:200] for bundle in bundles]
    versions = {match[1] for head in heads if (match := re.search(r"plotly\.js .*?v([\d.]+)", head))}
    assert len(versions) == 1, versions
    assert f"plotly.js-basic-dist-min@{versions.pop()}" in LOCKS[0].read_text(encoding="utf-8")
