"""Looking back with the slider, by keys alone, to a day of which no snapshot is kept."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from django.core.management import call_command
from django.db.models import F
from playwright.sync_api import expect

from apps.mapping.models import MappingVersion
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid

PATHS = ("/atlas", "/biomed", "/cms")


def test_the_slider_shows_a_day_without_snapshot_as_recomputed(grid: Grid, visit: Open) -> None:
    MappingVersion.objects.update(at=F("at") - timedelta(days=3))  # rules were there before usage
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/")
    page.get_by_role("button", name="Look back").press("Enter")
    slider = page.locator("#look-back-on")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert "computed" in (slider.get_attribute("aria-valuetext") or "")
    page.wait_for_url(re.compile(r"[?&]at="))  # it moves there automatically
    expect(page.get_by_test_id("time-bar-numbers")).to_have_attribute("data-key", "reconstructed")
    shown = {path: page.locator(f"#e-{grid.uid(path)} .c-actual").inner_text() for path in PATHS}
    (at,) = parse_qs(urlsplit(page.url).query)["at"]

    assert not Snapshot.objects.filter(as_of=at).exists()
    call_command("recompute", SLUG, "--as-of", at, "--wait", stdout=io.StringIO())
    kept = store.load_stored(SLUG, Snapshot.objects.get(as_of=at).pk)
    for path in PATHS:
        i = kept.tree.index_of_path(path)
        assert i is not None
        assert f"{kept.values.actual[i] * 100:.1f}" in shown[path], (path, shown)
    assert len({float(re.sub(r"[^\d.]", "", text.split("%")[0])) for text in shown.values()}) > 1

    page.locator("#look-back-on").focus()
    page.keyboard.press("End")
    expect(page.get_by_test_id("time-bar")).to_have_count(0)
