"""A file of allocations in a browser: pasted, previewed, corrected and imported, without scripts."""

from __future__ import annotations

import pytest

from apps.policies.models import Allocation
from tests.browser.conftest import Open
from tests.pages.grid import SLUG, Grid

FILE = f"/policy/{SLUG}/allocations/file/"
YEAR = "2026-01-01,2026-12-31"


@pytest.mark.deep
def test_a_pasted_table_is_corrected_and_imported_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(FILE)
    page.fill("#id_text", f"entry,amount,starts_on,ends_on\n/atlas,5000,{YEAR}\n/atlas/nobody,70,{YEAR}\n")
    page.fill("#id_reason", "Call of spring")
    page.click("button[value=preview]")
    assert "line 3, entry" in page.inner_text("[data-testid=problems]")
    assert page.locator("button[value=import]").count() == 0
    page.fill("#id_text", f"entry,amount,starts_on,ends_on\n/atlas,5000,{YEAR}\n/atlas/alice,70,{YEAR}\n")
    page.click("button[value=preview]")
    assert page.locator("tr[data-action=add]").count() == 2
    assert not Allocation.objects.exists()
    page.click("button[value=import]")
    assert {(row.amount, row.reason) for row in Allocation.objects.all()} == {
        (5000.0, "Call of spring"),
        (70.0, "Call of spring"),
    }
