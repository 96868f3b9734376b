"""The page of rules: an administrator adds, switches, changes and removes one; its years are below it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.acting import act_on_rules
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

RULES = f"/policy/{SLUG}/allocations/rules/"
COMMON = {"mode": "shadow", "unit": "core-h", "entries": "", "most_percent": "100", "most_entries": "50"}
AGING = {**COMMON, "kind": "aging", "name": "Aging", "interval_days": "90", "reason": "The board’s.", "step": "save"}
LEVELS = {
    **COMMON,
    "kind": "thresholds",
    "name": "Used up",
    "percent_0": "75",
    "notify_0": "on",
    "percent_1": "100",
    "shares_1": "0,5",
    "qos_1": "low",
    "grp_tres_mins_1": "cpu=0,gres/gpu=60",
    "reason": "The board’s.",
    "step": "save",
}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def declared() -> list[dict[str, Any]]:
    policy = Policy.objects.get(slug=SLUG)
    return settings_of(policy, policy.head_number).rules


def allocate(amount: float, starts_on: date, ends_on: date) -> None:
    tree = load_tree(Policy.objects.get(slug=SLUG))
    i = tree.index_of_path("/atlas")
    assert i is not None
    terms = AllocationTerms(starts_on=starts_on, ends_on=ends_on, amount=amount, reason="The board's.")
    create_allocation(policy_slug=SLUG, entry_uid=tree.uuid(i), terms=terms, at=AT, actor=COMMAND)


def test_a_rule_is_added_changed_switched_and_removed(admin: Client) -> None:
    first = read(admin.get(RULES))
    assert first.text("h1") == "No rule is on"
    assert len(first.all(".rule-kinds a")) == 6
    assert admin.get(RULES, {"kind": "aging"}).status_code == 200
    assert admin.post(RULES, AGING).status_code == 303
    (rule,) = declared()
    assert (rule["name"], rule["mode"], rule["aging"], rule["most"]) == (
        "Aging",
        "shadow",
        {"interval_days": 90},
        {"percent": 100.0, "entries": 50},
    )
    filled = read(admin.get(RULES, {"rule": "Aging"}))
    assert filled.one("#id_interval_days").attributes["value"] == "90"
    assert admin.post(RULES, {**AGING, "rule": "Aging", "interval_days": "30"}).status_code == 303
    assert declared()[0]["aging"] == {"interval_days": 30}
    assert admin.post(RULES, {"rule": "Aging", "step": "on"}).status_code == 303
    assert declared()[0]["mode"] == "on"
    assert "1 rule is on" in read(admin.get(RULES)).text("h1")
    assert admin.post(RULES, {"rule": "Aging", "step": "remove"}).status_code == 303
    assert declared() == []


def test_levels_are_typed_in_rows_and_come_back_as_typed(admin: Client) -> None:
    assert admin.post(RULES, LEVELS).status_code == 303
    assert declared()[0]["thresholds"]["levels"] == [
        {"percent": 75.0, "notify": True, "shares": None, "qos": None, "grp_tres_mins": None},
        {"percent": 100.0, "notify": False, "shares": 0.5, "qos": "low", "grp_tres_mins": {"cpu": 0, "gres/gpu": 60}},
    ]
    page = read(admin.get(RULES, {"rule": "Used up"}))
    typed = {"shares_1": "0.5", "qos_1": "low", "grp_tres_mins_1": "cpu=0,gres/gpu=60"}
    assert {name: page.one(f"#id_{name}").attributes.get("value") for name in typed} == typed


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({**AGING, "interval_days": "often"}, "interval_days"),
        ({**AGING, "interval_days": "0.02"}, "interval_days"),
        ({**AGING, "entries": "atlas"}, "entries"),
        ({**LEVELS, "percent_1": "75"}, "percent_1"),
        ({**LEVELS, "grp_tres_mins_1": "cpu=many"}, "grp_tres_mins_1"),
        ({**LEVELS, "qos_1": "a,b"}, "qos_1"),
        ({**AGING, "most_percent": "101"}, "most_percent"),
        ({**COMMON, "kind": "carry_over", "name": "C", "percent": "5", "cap": "-1", "days": "9", "reason": "r"}, "cap"),
    ],
)
def test_what_is_refused_is_marked_at_its_field(admin: Client, typed: dict[str, str], field: str) -> None:
    page = read(admin.post(RULES, {**typed, "step": "save"}), 422)
    assert page.one(f"#id_{field}").attributes.get("aria-invalid") == "true"
    assert declared() == []


def test_rules_that_fight_are_refused_with_both_names(admin: Client) -> None:
    admin.post(RULES, {**AGING, "mode": "on"})
    portions = {**COMMON, "kind": "portions", "name": "Portions", "mode": "on", "every": "month", "reason": "r"}
    text = read(admin.post(RULES, {**portions, "step": "save"}), 422).text("main")
    assert "'Aging'" in text
    assert "'Portions'" in text


def test_the_years_are_below_the_rules(admin: Client) -> None:
    today = AT.date()
    allocate(365_000, today - timedelta(days=100), today + timedelta(days=264))
    admin.post(RULES, {**AGING, "interval_days": "30"})
    page = read(admin.get(RULES))
    assert page.text("[aria-labelledby=past] tbody").count("/atlas") == 3
    assert page.text("[aria-labelledby=ahead] tbody").count("/atlas") >= 8
    assert RuleStep.objects.count() == 0


def test_steps_that_were_taken_lead_to_their_revision(admin: Client) -> None:
    today = AT.date()
    allocate(365_000, today - timedelta(days=100), today + timedelta(days=264))
    admin.post(RULES, {**AGING, "mode": "on"})
    act_on_rules(at=AT, zone=ZoneInfo("UTC"))
    number = Policy.objects.get(slug=SLUG).head_number
    page = read(admin.get(RULES))
    assert f"revision {number}" in page.text("[aria-labelledby=taken] tbody")
    links = [link.attributes["href"] or "" for link in page.all("[aria-labelledby=taken] td a")]
    (diff,) = [link for link in links if "diff" in link]
    assert diff.endswith(f"?to={number}")
    assert admin.get(diff).status_code == 200
