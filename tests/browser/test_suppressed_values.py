"""Pages for a reader of sums: suppressed values say so, and why; none of them is a number."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.models import User
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from tests.browser.conftest import Open, at_widths
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid


@pytest.mark.deep
@at_widths
def test_suppressed_values_have_a_reason(grid: Grid, visit: Open, width: int) -> None:
    Policy.objects.filter(slug=SLUG).update(visibility=Policy.Visibility.PATH)
    Snapshot.objects.update(computed_at=grid.at - timedelta(days=1))  # the last of a day that is over
    store.forget()
    make_grant(
        User.objects.create_user("vera"),
        grid.uid("/"),
        "viewer",
        verbs=["view_aggregate"],
        at=grid.at,
        reason="sums",
    )
    window = visit(width=width)
    window.sign_in("vera")
    page = window.go(f"/policy/{SLUG}/")
    assert page.get_attribute("[data-testid=sums-only]", "data-state") == "shown"
    assert page.is_visible(f"#e-{grid.uid('/atlas')} [data-testid=not-shown]")
    assert "alice" not in page.inner_text("main")
    window.look()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    assert page.is_visible("#verdict ~ p [data-testid=why-not-shown]")
    window.look()
