"""Rules that are refused when they are declared, each with its place and the reason."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.models import RuleStep
from apps.core.errors import Conflict, Invalid
from apps.policies.changesets.change_sets import settings_of
from apps.policies.files.exports import export_policy
from apps.policies.services import change_settings, publish_document
from apps.policies.settings import PolicySettings
from tests import priority_site
from tests.contrib.allocations.ruled_site import act, allocate, publish_rules, rule, shares
from tests.priority_site import AS_OF, Site

_clock = priority_site._clock
make_site, site = priority_site.make_site, priority_site.site

LOWER = rule("thresholds", {"levels": [{"percent": 100, "shares": 1}]}, name="Lower")
FOLLOW = rule("last_when_used_up", {}, name="Follow")
AGING = rule("aging", {"interval_days": 90}, name="Aging")
GPU_H: dict[str, Any] = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}


def problems(*rules: dict[str, Any], **parts: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        PolicySettings.from_json({"rules": list(rules), **parts}, base=PolicySettings())
    return {problem.where: problem.message for problem in refused.value.fields}


@pytest.mark.parametrize(
    ("declared", "where", "reason"),
    [
        (
            rule("aging", {"interval_days": 0.02}),
            "rules[0].aging.interval_days",
            "whole number from 1",
        ),
        (rule("aging", {"interval_days": 0}), "rules[0].aging.interval_days", "whole number from 1"),
        (rule("portions", {"every": "hour"}), "rules[0].portions.every", "one of month, quarter"),
        (rule("portions", {"keeps": -1}), "rules[0].portions.keeps", "whole number from 0"),
        (rule("thresholds", {"levels": []}), "rules[0].thresholds.levels", "at least one level"),
        (
            rule("thresholds", {"levels": [{"percent": 90}, {"percent": 90}]}),
            "rules[0].thresholds.levels[1].percent",
            "above that of the level before",
        ),
        (
            rule("thresholds", {"levels": [{"percent": 90, "grp_tres_mins": {"cpu": -1}}]}),
            "rules[0].thresholds.levels[0].grp_tres_mins.cpu",
            "whole number from 0",
        ),
        (
            rule("thresholds", {"levels": [{"percent": 90, "qos": "low,high"}]}),
            "rules[0].thresholds.levels[0].qos",
            "name of a QOS",
        ),
        (
            rule("pull_back", {"table": [{"below_percent": 20, "removed_percent": 80}] * 2}),
            "rules[0].pull_back.table[1].below_percent",
            "below that of the row before",
        ),
        (
            rule("pull_back", {"plan": [50, 20], "table": [{"below_percent": 20, "removed_percent": 80}]}),
            "rules[0].pull_back.plan",
            "add up to 100; these are 70",
        ),
        (rule("carry_over", {"percent": 50}), "rules[0].carry_over.days", "whole number from 1"),
        (rule("carry_over", {"percent": 101, "days": 9}), "rules[0].carry_over.percent", "number from 0 to 100"),
        (rule("aging", {"interval_days": 9}, mode="maybe"), "rules[0].mode", "one of off, shadow, on"),
        (rule("aging", {"interval_days": 9}, entries=["physics"]), "rules[0].entries[0]", "a path such as"),
        (rule("aging", {"interval_days": 9}, entries=["/**/a"]), "rules[0].entries[0]", "a path such as"),
        (rule("aging", {"interval_days": 9}, unit="GPU-h"), "rules", "needs the unit 'GPU-h'"),
        ({"name": "x", "kind": "lottery"}, "rules[0].kind", "must be one of"),
        (AGING | {"portions": {}}, "rules[0].portions", "is unknown"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_at_its_field(declared: dict[str, Any], where: str, reason: str) -> None:
    assert reason in problems(declared)[f"settings.{where}"]


def test_two_rules_of_a_name_are_refused() -> None:
    assert "is repeated" in problems(AGING, AGING | {"name": "AGING"})["settings.rules[1].name"]


@pytest.mark.parametrize(
    ("one", "other", "thing"),
    [
        (LOWER, FOLLOW, "the shares"),
        (AGING, rule("portions", {}, name="Portions"), "the amount"),
        (LOWER | {"entries": ["/a/*"]}, FOLLOW | {"entries": ["/*/b"]}, "the shares"),
        (LOWER | {"entries": ["/a/**"]}, FOLLOW | {"entries": ["/a/b/c"]}, "the shares"),
    ],
)
def test_two_rules_that_fight_each_other_are_refused_and_named(
    one: dict[str, Any], other: dict[str, Any], thing: str
) -> None:
    message = problems(one, other)["settings.rules"]
    assert repr(one["name"]) in message
    assert repr(other["name"]) in message
    assert thing in message


@pytest.mark.parametrize(
    "other",
    [
        FOLLOW | {"mode": "shadow"},
        FOLLOW | {"mode": "off"},
        AGING,
        rule("thresholds", {"levels": [{"percent": 80}]}, name="Only notify"),
    ],
)
def test_rules_that_change_different_things_or_are_in_shadow_agree(other: dict[str, Any]) -> None:
    assert len(PolicySettings.from_json({"rules": [LOWER, other]}).rules) == 2


def test_rules_of_different_entries_agree() -> None:
    rules = [LOWER | {"entries": ["/a", "/b/*"]}, FOLLOW | {"entries": ["/c/**", "/b"]}]
    assert len(PolicySettings.from_json({"rules": rules}).rules) == 2


def test_a_unit_that_a_rule_needs_is_not_removed(site: Site) -> None:
    publish_rules(site, AGING | {"unit": "GPU-h"}, units=[GPU_H])
    with pytest.raises(Invalid, match="'Aging' needs the unit 'GPU-h'"):
        change_settings(policy_slug=site.slug, settings={"units": []}, reason="Gone.", at=AS_OF, actor=COMMAND)


def test_a_unit_that_an_allocation_has_is_not_removed(site: Site) -> None:
    publish_rules(site, units=[GPU_H])
    allocate(site, 5, unit="GPU-h")
    with pytest.raises(Conflict, match="are in GPU-h"):
        change_settings(policy_slug=site.slug, settings={"units": []}, reason="Gone.", at=AS_OF, actor=COMMAND)


def test_a_change_of_the_zone_makes_no_step_twice(site: Site) -> None:
    """Kiritimati is 26 hours ahead of Niue: the day goes back, and so does what was used by its end."""
    allocation = allocate(site, 100, starts_on=AS_OF.date() - timedelta(days=180))
    publish_rules(site, AGING)
    (step,) = act(site, AS_OF, ZoneInfo("Pacific/Kiritimati"))
    assert step.key == f"{allocation.uid}:2"
    assert act(site, AS_OF, ZoneInfo("Pacific/Niue")) == [] == act(site, AS_OF + timedelta(hours=1), ZoneInfo("UTC"))
    assert RuleStep.objects.count() == 1


def test_settings_without_rules_are_stored_as_before(site: Site) -> None:
    stored = settings_of(site.policy, site.policy.head_number).to_json()
    assert stored.keys().isdisjoint({"rules", "limits", "units"})


def test_a_first_rule_and_the_last_one_are_undone_with_their_revision(site: Site) -> None:
    from tests.contrib.allocations.ruled_site import undo

    publish_rules(site, LOWER)
    undo(site, site.policy.head_number)
    assert settings_of(site.policy, site.policy.head_number).rules == []
    publish_rules(site, LOWER)
    publish_rules(site)
    undo(site, site.policy.head_number)
    assert [each["name"] for each in settings_of(site.policy, site.policy.head_number).rules] == ["Lower"]
    assert shares(site) == 60


def test_rules_are_in_the_policy_document_and_come_back_from_it(site: Site) -> None:
    publish_rules(site, AGING, LOWER | {"entries": ["/physics"]})
    rules = settings_of(site.policy, site.policy.head_number).rules
    document = json.loads(export_policy(policy_slug=site.slug, format="json", at=AS_OF, actor=COMMAND).text())
    assert [each["name"] for each in document["settings"]["rules"]] == ["Aging", "Lower"]
    publish_rules(site)
    publish_document(policy_slug=site.slug, document=document, reason="As code.", at=AS_OF, actor=COMMAND)
    site.policy.refresh_from_db()
    assert settings_of(site.policy, site.policy.head_number).rules == rules


def test_a_document_may_use_a_unit_of_the_policy_without_declaring_it(site: Site) -> None:
    publish_rules(site, units=[GPU_H])
    site.publish(priority_site.PROJECTS, {"rules": [AGING | {"unit": "GPU-h"}]})
    assert settings_of(site.policy, site.policy.head_number).rules[0]["unit"] == "GPU-h"
    with pytest.raises(Invalid, match="needs the unit 'SU'"):
        site.publish(priority_site.PROJECTS, {"rules": [AGING | {"unit": "SU"}]})
