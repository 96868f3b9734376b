"""Convergence of days from before an entry: marked, never idle; and measured against today's policy, labelled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import TooLarge
from apps.policies.models import Grant, Policy
from apps.policies.services import publish_document
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now
from apps.series import stored_series
from apps.series.convergence.periods import Period
from apps.series.convergence.records import ChildrenQuery, Convergence
from apps.series.convergence.selectors import get_convergence
from apps.series.convergence.share_methods import ShareMethod
from apps.series.runs import enqueue_series_build
from tests.grants import make_grant
from tests.priority_site import AS_OF, NO_AGING, Site, children

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
TODAY = AS_OF.date()
PERIOD = Period(TODAY - 3 * DAY, TODAY - DAY)
OWN = children(own={"": 55, "carol": 1})
VO = {"name": "vo", "kind": "vo", "shares": 45}
MOUNTED = [{**VO, "children": children(p1={"": 1, "ann": 1, "bert": 1})}, *OWN]


def publish(site: Site, entries: list[dict[str, Any]], at: Any) -> None:
    document = {"policy": site.slug, "settings": NO_AGING, "root": {"name": site.slug, "children": entries}}
    publish_document(policy_slug=site.slug, document=document, reason="test", at=at, actor=COMMAND)
    site.policy.refresh_from_db()


@pytest.fixture
def mounted(make_site: Callable[..., Site]) -> Site:
    """The road of docs/federation.md: an entry of ours, three days of usage, then what is mounted below it."""
    made = make_site(at=AS_OF - 3 * DAY)
    publish(made, [VO, *OWN], AS_OF - 3 * DAY)
    publish(made, MOUNTED, AS_OF - DAY / 4)
    made.map(made.rule("/vo/p1", suffix="/{user}", group_pattern="p1"), made.rule())
    for ago_d in range(4):
        made.job("ann", "p1", 2, ago_h=2 + 24 * ago_d)
        made.job("bert", "p1", 4, ago_h=2 + 24 * ago_d)
        made.job("carol", "own", 4, ago_h=2 + 24 * ago_d)
    assert work_run_now(enqueue_series_build(made.policy, at=AS_OF).pk).state == "succeeded"
    return made


def look(site: Site, path: str = "/", actor: Actor = COMMAND, **asked: Any) -> Convergence:
    tree = load_tree(site.policy)
    at = tree.index_of_path(path)
    assert at is not None
    method = asked.pop("method", ShareMethod("raw"))
    query = ChildrenQuery(period=PERIOD, method=method, **asked)
    return get_convergence(query, policy_slug="grid", actor=actor, uid=tree.uuid(at))


def row(found: Convergence, name: str) -> int:
    return [member.name for member in found.members].index(name)


@pytest.mark.paper("4.58", "4.59")
def test_usage_of_mounted_members_counts_at_the_mount_from_the_first_day(mounted: Site) -> None:
    found = look(mounted)
    vo = row(found, "vo")
    assert found.actual[vo].tolist() == pytest.approx([0.6] * 3)
    assert found.states[vo].tolist() == ["over"] * 3
    assert not found.idle.any()


def test_days_before_an_entry_existed_are_marked(mounted: Site) -> None:
    found = look(mounted, "/vo")
    assert [member.name for member in found.members] == ["p1"]
    assert found.states[0].tolist() == ["before_entry"] * 3
    assert not found.idle.any()
    assert [one.key for one in found.verdict] == ["before_entries"]
    assert [one.key for one in look(mounted, "/vo/p1", itself=True).verdict] == ["one_before_entry"]


def test_the_verdict_counts_entries_created_later(mounted: Site) -> None:
    publish(mounted, [*MOUNTED, *children(new={"": 5, "dan": 1})], AS_OF - DAY / 5)
    found = look(mounted)
    assert found.states[row(found, "new")].tolist() == ["before_entry"] * 3
    assert ("before_some_entries", 3) in [(one.key, one.values.get("n")) for one in found.verdict]


def test_days_can_be_compared_with_the_current_policy(mounted: Site) -> None:
    found = look(mounted, "/vo", against_today=True)
    assert found.measured_against == mounted.policy.head_number
    assert found.actual.tolist() == [[1.0] * 3]
    p1 = look(mounted, "/vo/p1", against_today=True, method=ShareMethod())
    assert p1.actual[row(p1, "ann")].tolist() == pytest.approx([1 / 3] * 3)
    assert not p1.before_entry.any()
    assert look(mounted).measured_against is None


def test_viewers_of_totals_get_no_days_against_the_current_policy(mounted: Site) -> None:
    """The difference from the days as they were may be one person's."""
    Policy.objects.update(visibility="path")
    sums = User.objects.create_user("sums", "sums@example.org", "a long pass phrase")
    make_grant(
        sums,
        load_tree(mounted.policy).uuid(0),
        "viewer",
        policy=mounted.policy,
        verbs=[Grant.Verb.VIEW_AGGREGATE],
        at=AS_OF,
    )
    found = look(mounted, actor=Actor(user=sums, via="page"), against_today=True)
    assert sorted(member.name for member in found.members) == ["own", "vo"]
    assert found.visible.tolist() == [[False] * 3] * 2


def test_too_many_days_or_hours_are_refused(mounted: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_SERIES_DAYS", "MOST_SERIES_BUCKETS"):
        with monkeypatch.context() as patched:
            patched.setattr(stored_series, name, 2)
            with pytest.raises(TooLarge) as refused:
                look(mounted, against_today=True)
            assert refused.value.code == "too_many_days"


def test_rest_and_page_mark_such_days_and_offer_the_current_policy(
    mounted: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    rest = "/api/v1/policies/grid/convergence"
    then = client.get(rest, {"entry": "/vo"}).json()
    assert then["results"][0]["state"] == ["before_entry"] * 3
    assert (then["measured_against"], then["results"][0]["actual"]) == (None, [None] * 3)
    today = client.get(rest, {"entry": "/vo", "measure": "today", "view": "raw"}).json()
    assert (today["measured_against"], today["results"][0]["actual"]) == (3, [1.0] * 3)
    assert client.get(rest, {"measure": "tomorrow"}).status_code == 400
    path, level = "/policy/grid/convergence/", {"level": then["entry"]}
    page = client.get(path, level).content.decode()
    assert 'data-testid="before-entry"' in page
    assert f'href="?level={then["entry"]}&amp;measure=today"' in page
    today_page = client.get(path, level | {"measure": "today"}).content.decode()
    assert 'data-testid="against-today" data-value="3"' in today_page
    monkeypatch.setattr(stored_series, "MOST_SERIES_DAYS", 2)
    refused = client.get(path, level | {"measure": "today"})
    assert refused.status_code == 422
    assert 'data-testid="cannot-be-shown" data-value="measure"' in refused.content.decode()
