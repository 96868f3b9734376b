"""The quality of sources in both themes and widths, with a finding of every kind."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.accounts.models import Account
from apps.core import clock
from apps.usage.models import Overlap, Source, SourceDay, TooLateRecord
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.browser.conftest import Open, in_windows
from tests.pages.grid import Grid

HOUR = timedelta(hours=1)


@pytest.fixture
def odd(grid: Grid) -> Source:
    """A source with something of every kind of trouble."""
    at = clock.now()
    source = make_source(NewSource(slug="odd", name="Odd cluster", expected_every_s=3600), at=at, actor=COMMAND)
    for revision, cpus in ((0, 4.0), (1, 8.0)):
        rows = [
            RecordRow(
                f"{n}",
                "stranger",
                "physics",
                submit_at=at - n * HOUR,
                start_at=at - n * HOUR,
                end_at=at - n * HOUR + HOUR / 2,
                cpus=cpus,
                revision=revision if n % 50 == 0 else 0,
            )
            for n in range(8, 400)
            if n % 11
        ]
        ingest_batch(source=source, rows=rows, at=at)
    SourceDay.objects.filter(source=source).delete()
    SourceDay.objects.create(
        source=source,
        received_on=at.date(),
        n_new=357,
        n_duplicate=1200,
        n_late=31,
        n_too_late=1,
        n_rejected=90,
        n_ahead=2,
    )
    TooLateRecord.objects.create(
        source=source,
        received_at=at - HOUR,
        job="7001",
        submit_at=at - 9000 * HOUR,
        end_at=at - 8999 * HOUR,
        state="finished",
        account=Account.objects.filter(user_name="stranger").get(),
        cpu_s=7.2e6,
    )
    other = Source.objects.exclude(pk=source.pk).earliest("pk")
    Overlap.objects.create(
        site="abisko", kept=other, held=source, from_at=at - 50 * HOUR, to_at=at - 40 * HOUR, found_at=at
    )
    return source


@pytest.mark.deep
@in_windows
def test_every_data_issue_is_accessible(odd: Source, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("admin")
    page = window.go("/usage/sources/")
    expect(page.locator("[data-testid=verdict]")).to_have_attribute("data-state", "look")
    expect(page.locator("#changed")).to_be_visible()
    assert window.overflow() <= 0
    assert window.axe() == []


@pytest.mark.deep
def test_the_period_is_chosen_with_the_keyboard_and_without_scripts(odd: Source, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in("admin")
    page = window.go("/usage/sources/")
    page.locator("a[href='?days=7']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/usage/sources/?days=7")
    expect(page.locator("a[href='?days=7']")).to_have_attribute("aria-current", "true")
    page.locator("section[aria-labelledby=changed] a[download]").wait_for()
