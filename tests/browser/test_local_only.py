"""That this site's usage alone counts, in a real browser: both themes, wide and narrow, with scripts and without."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.actor import SYSTEM
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.priorities.local_only import fall_back
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from tests.browser.conftest import Open, at_widths
from tests.browser.test_my_priority import shoot
from tests.pages.grid import SLUG, Grid

REASON = "another-site.example, atlas: Not confirmed since 2026-11-19 10:00 UTC."


@pytest.fixture
def alone(grid: Grid) -> Grid:
    """Below atlas global usage counts, and the last contact with any peer was more than a day ago."""
    at, policy = clock.now(), Policy.objects.get(slug=SLUG)
    shared = {"op": "set_scope", "entry": "/atlas", "scope": "global"}
    publish_operations(policy_slug=SLUG, operations=[shared], reason="Shared.", at=at, actor=SYSTEM)
    fall_back(policy, grid.uid("/atlas"), reason=REASON, at=at - timedelta(hours=30))
    grid.recompute()
    work_run_now(enqueue_series_build(policy, at=at).pk)
    return grid


@pytest.mark.deep
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
@at_widths
def test_every_page_with_the_fallback_message_fits_and_is_accessible(
    alone: Grid, visit: Open, width: int, scripts: bool
) -> None:
    window = visit(width=width, scripts=scripts)
    window.sign_in("admin")
    entry = f"/policy/{SLUG}/n/{alone.uid('/atlas')}/atlas/"
    pages = {
        "overview": "/",
        "tree": f"/policy/{SLUG}/",
        "icicle": f"/policy/{SLUG}/icicle/",
        "entry": entry,
        "group": f"/policy/{SLUG}/group/{alone.uid('/atlas')}/",
        "convergence": f"/policy/{SLUG}/convergence/",
        "level-convergence": f"/policy/{SLUG}/convergence/?level={alone.uid('/atlas')}",
        "entry-convergence": f"/policy/{SLUG}/n/{alone.uid('/atlas/alice')}/alice/convergence/",
    }
    for name, path in pages.items():
        page = window.go(path)
        assert REASON in page.inner_text("main"), path
        window.look()
        shoot(window, f"local-only-{name}-{width}")
    # Above the fallback usage of peers doesn't count anyway: atlas is compared with its siblings as ever.
    assert REASON not in window.go(f"{entry}convergence/").inner_text("main")
    window.sign_in("alice")
    assert REASON in window.go("/me/priority/").inner_text("ol.lv")
    window.look()
    shoot(window, f"local-only-me-{width}")
