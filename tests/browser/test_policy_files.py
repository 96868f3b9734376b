"""A manager imports a table: previewed, corrected, published; and exports a policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import SLUG, Grid

FILES = f"/policy/{SLUG}/files/"
TABLE = "path,shares\n/atlas,90\n/cms/dave,3\n"


@pytest.mark.deep
def test_a_table_is_corrected_previewed_and_published_without_scripts(grid: Grid, visit: Open, tmp_path: Path) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(FILES)
    table = tmp_path / "table.csv"
    for text in ("path,shares\n/atlas,x\n/cms/dave,-3\n", TABLE):
        table.write_text(text)
        page.set_input_files("#id_file", table)
        expect(page.locator("input[value=keep]")).to_be_checked()  # a part of the policy archives nothing by itself
        page.click("#policy-file button[type=submit]")
        if text != TABLE:
            assert "/atlas: shares" in page.inner_text("#policy-file [data-testid=wrong-places]")
    assert re.findall(r"\d+", page.inner_text("h1")) == ["2", "3"], "shares changed, target changed indirectly"
    page.fill("#id_reason", "As agreed.")
    page.click("button[name=step][value=publish]")
    assert page.url.endswith(f"/policy/{SLUG}/")
    assert "3" in page.inner_text("#problem .success")


@in_windows_of_all
def test_the_pages_of_files_are_accessible_and_fit(
    grid: Grid, visit: Open, tmp_path: Path, theme: str, width: int
) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(FILES)
    assert window.axe() == []
    assert window.overflow() <= 0
    table = tmp_path / "table.csv"
    for text in ("path,shares\n/atlas,x\n/cms/dave,-3\n", TABLE):
        table.write_text(text)
        page.set_input_files("#id_file", table)
        page.check("input[value=keep]")
        page.click("#policy-file button[type=submit]")
        page.wait_for_selector("#wrong" if text != TABLE else "#decision")
        assert window.axe() == []
        assert window.overflow() <= 0
