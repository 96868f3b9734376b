"""Sign-in by OpenID Connect in a real browser: there and back, under the strict content policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import expect

from apps.accounts.models import User
from tests.browser.conftest import Open, in_windows
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.sign_in.issuer_process import CLIENT_ID, CLIENT_SECRET, EVA, run_issuer, write_person


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    yield from run_issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(autouse=True)
def _issuer(process: tuple[Path, str], settings: Any) -> None:
    folder, settings.FAIRSHARE_OIDC_ISSUER = process
    settings.FAIRSHARE_OIDC_NAME = "SWAMID"
    settings.FAIRSHARE_OIDC_CLIENT_ID, settings.FAIRSHARE_OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
    write_person(folder, EVA)


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_user_signs_in_at_the_issuer_and_returns(grid: Grid, visit: Open, scripts: bool) -> None:
    window = visit(scripts=scripts)
    page = window.go("/me/priority/")
    page.locator("form[action='/sign-in/oidc/'] button", has_text="SWAMID").click()
    page.wait_for_url("**/me/priority/")
    expect(page.locator(".topbar")).to_contain_text("Eva Kling")


@pytest.mark.deep
def test_after_the_session_ended_a_window_of_the_issuer_signs_in_and_the_action_goes_on(
    grid: Grid, visit: Open
) -> None:
    window = visit()
    page = window.go("/me/priority/")
    page.locator("form[action='/sign-in/oidc/'] button").click()
    page.wait_for_url("**/me/priority/")
    make_grant(User.objects.get(username="eva"), grid.uid("/"), "manager")
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/?panel=shares")
    page.fill("#shares", "25 %")
    page.fill("#reason", "Kept")
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.click("#publish")
    with page.expect_popup() as opened:
        page.locator("#sign-in-again form[action='/sign-in/oidc/'] button", has_text="SWAMID").click()
    expect(page.locator("#problem .success")).to_contain_text("3")
    expect(page.locator("#changed li").first).to_contain_text("Kept")
    assert opened.value.is_closed()


@pytest.mark.deep
@in_windows
def test_the_page_is_accessible_and_fits(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    page = window.go("/sign-in/")
    expect(page.locator("form[action='/sign-in/oidc/'] button", has_text="SWAMID")).to_be_visible()
    expect(page.locator("form .btn.primary")).to_have_count(1)
    assert window.axe() == []
    assert window.overflow() <= 0
