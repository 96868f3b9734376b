"""Rules of allocations in a browser: the page fits and is accessible in each state; a rule is added with keys alone."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from apps.contrib.allocations.rules.acting import act_on_rules
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from tests.browser.conftest import Open, Visit, at_widths
from tests.contrib.allocations.pages.test_rules import RULES, allocate
from tests.contrib.allocations.ruled_site import rule
from tests.instants import AT
from tests.pages.grid import SLUG, Grid

SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")
LEVELS = {"levels": [{"percent": 75}, {"percent": 90, "shares": 2}, {"percent": 100, "qos": "low"}]}


def shoot(window: Visit, name: str) -> None:
    """For looking at: FAIRSHARE_SHOTS names a folder."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        window.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def publish(*rules: dict[str, object]) -> None:
    from apps.accounts.actor import COMMAND
    from apps.policies.services import change_settings

    change_settings(policy_slug=SLUG, settings={"rules": list(rules)}, reason="Rules.", at=AT, actor=COMMAND)


@pytest.mark.deep
@at_widths
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_and_is_accessible_in_each_state(grid: Grid, visit: Open, width: int, theme: str) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    window.go(RULES)
    window.look()
    shoot(window, f"rules-none-{width}-{theme}")
    allocate(36_500, AT.date() - timedelta(days=100), AT.date() + timedelta(days=264))
    aging = rule("aging", {"interval_days": 30}, name="Aging")
    follow = rule("last_when_used_up", {"every": "quarter"}, name="Monthly shares", mode="shadow", entries=["/gone"])
    publish(aging, rule("thresholds", LEVELS, name="Used up", mode="shadow"), follow)
    act_on_rules(at=AT, zone=ZoneInfo("UTC"))
    window.go(RULES)
    window.look()
    shoot(window, f"rules-{width}-{theme}")
    for kind in ("thresholds", "pull_back"):
        window.go(f"{RULES}?kind={kind}")
        window.look()
        shoot(window, f"rules-{kind}-{width}-{theme}")


def test_a_rule_is_added_with_keys_alone(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(RULES)
    page.locator(".rule-kinds a", has_text="Aging").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**kind=aging*")
    for field, text in (("name", "Aging"), ("interval_days", "90"), ("reason", "Use it or lose it.")):
        page.locator(f"#id_{field}").focus()
        page.keyboard.type(text)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("th", has_text="Aging").wait_for()
    policy = Policy.objects.get(slug=SLUG)
    assert [each["name"] for each in settings_of(policy, policy.head_number).rules] == ["Aging"]
