"""Notices of thresholds: one for each level that is reached, gone when hours are added."""

from __future__ import annotations

from datetime import timedelta

from apps.contrib.allocations.notice_kinds import RULE_LEVELS
from apps.contrib.notices.kind import Finding, PolicyPlace
from apps.policies.tree.stored import load_tree
from tests import priority_site
from tests.contrib.allocations.ruled_site import act, allocate, publish_rules, rule
from tests.priority_site import AS_OF, Site

_clock = priority_site._clock
make_site, site = priority_site.make_site, priority_site.site
LEVELS = {"levels": [{"percent": 75}, {"percent": 100, "shares": 1}]}
DAY = timedelta(days=1)


def findings(site: Site, *, days: float = 0) -> list[Finding]:
    at = AS_OF + days * DAY
    place = PolicyPlace(site.policy, load_tree(site.policy), RULE_LEVELS.defaults(), at, at.date())
    return list(RULE_LEVELS.find(place))


def test_a_level_is_a_notice_until_hours_are_added(site: Site) -> None:
    allocate(site, 70)
    publish_rules(site, rule("thresholds", LEVELS, name="Used up"))
    assert findings(site) == []
    act(site)
    (finding,) = findings(site)
    assert (finding.level, finding.facts["percent"], finding.facts["path"]) == ("info", 75, "/physics")
    sentence = RULE_LEVELS.describe(finding.facts)
    assert (sentence.key, sentence.values["rule"]) == ("rule_levels.reached", "Used up")
    assert findings(site, days=31) == []
    allocate(site, 200)
    act(site, AS_OF + DAY)
    assert findings(site, days=1) == []


def test_a_level_that_acts_says_so(site: Site) -> None:
    allocate(site, 50)
    publish_rules(site, rule("thresholds", LEVELS, name="Used up"))
    act(site)
    (finding,) = findings(site)
    assert finding.level == "warn"
    assert RULE_LEVELS.describe(finding.facts).key == "rule_levels.acted"
