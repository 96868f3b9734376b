"""Pages of notices and statements in both themes and three widths, with the mouse, the keyboard and without scripts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Delivery, Notice
from apps.contrib.notices.places import Place
from apps.contrib.notices.rules import NEW, set_rule
from apps.contrib.notices.webhooks import make_webhook
from apps.core import clock
from apps.policies.models import Policy
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from tests.browser.conftest import THEMES, Open, at_widths
from tests.browser.hands import BY_HAND, HANDS
from tests.pages.grid import SLUG, Grid

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def notified(grid: Grid) -> Grid:
    """Something of every level, a rule of the policy, a webhook with a log, and a series of yesterday."""
    at, policy = clock.now(), Policy.objects.get(slug=SLUG)
    Source.objects.update(expected_every_s=60, last_received_at=at - 30 * HOUR)
    User.objects.update(email="someone@example.org")
    today = at.date()
    for path, days in (("/atlas", 3), ("/biomed", 14)):
        terms = AllocationTerms(starts_on=today, ends_on=today + days * DAY, amount=1_000_000, reason="test")
        create_allocation(policy_slug=SLUG, entry_uid=grid.uid(path), terms=terms, at=at, actor=COMMAND)
    evaluate(at=at)
    facts = {"path": "/atlas", "core_h": 9000.0, "used_core_h": 9800.0, "ends_on": "2026-12-31"}
    Notice.objects.create(
        kind="over_budget",
        key="d",
        level="bad",
        facts=facts,
        policy=policy,
        entry_uid=grid.uid("/atlas"),
        opened_at=at,
        news_at=at,
        changed_at=at,
    )
    set_rule(kind="over_budget", policy=policy, is_on=False, terms={}, version=NEW, at=at, actor=COMMAND)
    webhook, _ = make_webhook(
        name="Operators’ chat",
        url="https://hooks.example.org/in",
        place=Place(),
        kinds=[],
        at=at,
        actor=Actor(user=grid.admin, via="page"),
    )
    for state, status, error in (("sent", 204, ""), ("failed", 503, "It answered with status 503.")):
        Delivery.objects.create(
            webhook=webhook,
            event="test",
            news_at=at,
            due_at=at,
            created_at=at,
            state=state,
            status=status,
            error=error,
            attempts=1,
        )
    work_run_now(enqueue_series_build(policy, at=at).pk)
    assert set(Notice.objects.values_list("level", flat=True)) == set(Notice.Level.values)
    return grid


def pages(grid: Grid) -> list[str]:
    from apps.contrib.notices.models import Rule, Webhook

    own = Rule.objects.get(policy__slug=SLUG).pk
    return [
        "/notices/",
        "/notices/?state=closed",
        "/notices/rules/",
        f"/notices/rules/{own}/",
        "/notices/rules/new/",
        "/notices/mail/",
        "/notices/webhooks/",
        "/notices/webhooks/new/",
        f"/notices/webhooks/{Webhook.objects.get().pk}/",
        f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/statements/",
        f"/policy/{SLUG}/n/{grid.uid('/')}/swegrid/statements/",
    ]


@pytest.mark.deep
@pytest.mark.timeout(600)
@at_widths
def test_every_page_is_accessible_in_both_themes(notified: Grid, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in()
    for path in pages(notified):
        window.go(path)
        expect(window.page.locator("main h1")).to_be_visible()
        window.look()


@pytest.mark.deep
def test_every_page_is_complete_without_scripts(notified: Grid, visit: Open) -> None:
    window = visit(width=390, scripts=False)
    window.sign_in()
    for path in pages(notified):
        window.go(path)
        expect(window.page.locator("main h1")).to_be_visible()
        window.look()


@pytest.mark.deep
@pytest.mark.parametrize("hand", BY_HAND)
def test_a_notice_is_read_and_snoozed(notified: Grid, visit: Open, hand: str) -> None:
    ending = Notice.objects.filter(kind="ending_allocations").earliest("pk")
    window, use = visit(theme=THEMES[1]), HANDS[hand]
    window.sign_in()
    page = window.go("/notices/")
    use.press(page, f"#read-{ending.pk}")
    expect(page.locator(f"#notice-{ending.pk}.unread")).to_have_count(0)
    use.press(page, f"#notice-{ending.pk} form:last-child button")
    expect(page.locator(f"#notice-{ending.pk}")).to_have_count(0)
    page.select_option("#state", "snoozed")
    expect(page.locator(f"#notice-{ending.pk}")).to_be_visible()


@pytest.mark.deep
def test_without_scripts_the_filter_and_the_marks_work(notified: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go("/notices/")
    page.select_option("#kind", "over_budget")
    page.click("form.filters button")
    expect(page.locator("#notices li")).to_have_count(1)
    page.click("#notices li button >> nth=0")
    expect(page.locator("#notices li.unread")).to_have_count(0)
