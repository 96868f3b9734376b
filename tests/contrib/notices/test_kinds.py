"""Each kind of notice: when it opens, when it doesn't, what it says and to whom."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import User
from apps.contrib.notices import selectors
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.kind import Sentence
from apps.contrib.notices.kinds import KINDS
from apps.contrib.notices.models import Notice
from apps.contrib.notices.rules import NEW, set_rule
from apps.mapping.claims import cancel_claim, claim_account
from apps.mapping.models import Claim
from apps.policies.models import Allocation, ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestTerms, decline_request, grant_request, request_shares
from apps.policies.services import make_change_set, propose_change_set, publish_change_set
from apps.usage.models import Bucket, Source
from tests.contrib.notices.notices_site import give_core_hours
from tests.instants import AT
from tests.small_site import Site, build_site, push, record

DAY = timedelta(days=1)
TODAY = AT.date()


def page(user: User) -> Actor:
    return Actor(user=user, via="page")


def open_sentences(user: User, kind: str, at: datetime = AT) -> list[Sentence]:
    lines = selectors.list_open_notices(page(user), at)
    return sorted((line.sentence for line in lines if line.kind.name == kind), key=lambda one: (one.key, one.text))


def says(found: list[Sentence], *expected: tuple[str, ...]) -> bool:
    """Sentences by their keys, each with the names, numbers and days that it shows."""
    assert [one.key for one in found] == [key for key, *_parts in expected]
    for one, (_key, *parts) in zip(found, expected, strict=True):
        assert [part for part in parts if part not in one.text] == [], one.text
    return True


def test_expiring_allocations_without_renewal(computed: Site) -> None:
    give_core_hours(computed, ends_on=TODAY + 10 * DAY)
    evaluate(at=AT)
    for person in (computed.pia, computed.alice):
        ends = ("ending_allocations.ends", "1,500", "/physics", "30 Nov 2026")
        assert says(open_sentences(person, "ending_allocations"), ends)
    assert open_sentences(computed.ben, "ending_allocations") == []
    give_core_hours(computed, starts_on=TODAY + 11 * DAY, ends_on=TODAY + 300 * DAY)
    evaluate(at=AT)
    assert open_sentences(computed.pia, "ending_allocations") == []


def test_pending_requests_and_reviews_are_reported_to_deciders(computed: Site) -> None:
    pia = page(computed.pia)
    request_shares(
        policy_slug="grid",
        entry_uid=computed.uid("/physics"),
        terms=RequestTerms(shares=75),
        reason="r",
        at=AT,
        actor=pia,
    )
    shares = {"op": "set_shares", "entry": "/physics/bob", "shares": 3}
    made = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[shares], reason="r"), at=AT, actor=page(computed.admin)
    )
    propose_change_set(id=made.pk, version=made.version, at=AT, actor=page(computed.admin))
    evaluate(at=AT + 2 * DAY)
    assert not Notice.objects.filter(kind="waiting_decisions").exists()
    at = AT + 4 * DAY
    evaluate(at=at)
    requests = [one for one in open_sentences(computed.admin, "waiting_decisions", at) if one.values["is_request"]]
    assert says(requests, ("waiting_decisions.request", "pia", "4"))
    assert says(open_sentences(computed.pia, "waiting_decisions", at), ("waiting_decisions.review", "admin", "4"))
    assert (
        open_sentences(computed.ben, "waiting_decisions", at)
        == open_sentences(computed.nobody, "waiting_decisions", at)
        == []
    )
    ChangeSet.objects.update(state="withdrawn")
    evaluate(at=at)
    assert not Notice.objects.filter(kind="waiting_decisions", closed_at=None).exists()


def test_unmapped_usage_above_the_limit(site: Site) -> None:
    push(site, [record("9", "stranger", "nowhere", 5, at=AT)])
    site.recompute()
    evaluate(at=AT)
    assert says(open_sentences(site.admin, "unmapped_usage"), ("unmapped_usage", "33.3 %", "Grid", "1"))
    assert open_sentences(site.admin, "unmapped_usage")[0].values["n"] == 1
    assert open_sentences(site.pia, "unmapped_usage") == open_sentences(site.nobody, "unmapped_usage") == []


def test_little_unmapped_usage_is_not_reported(computed: Site) -> None:
    evaluate(at=AT)
    assert open_sentences(computed.admin, "unmapped_usage") == []


def test_a_source_that_never_sent_is_reported_and_a_paused_one_is_not(computed: Site) -> None:
    Source.objects.update(expected_every_s=3600, last_received_at=None, created_at=AT - 3 * DAY)
    evaluate(at=AT)
    assert says(open_sentences(computed.admin, "late_source"), ("late_source.never", "Cluster A", "3 days"))
    Source.objects.update(is_paused=True)
    evaluate(at=AT)
    assert open_sentences(computed.admin, "late_source") == []


def test_a_source_without_a_collection_that_worked_is_late_with_its_error(computed: Site) -> None:
    Source.objects.update(
        kind="directory",
        collect_every_s=3600,
        last_received_at=None,
        collected_at=None,
        collect_error="No such folder.",
    )
    evaluate(at=AT)
    late = ("late_source.uncollected", "Cluster A", "No such folder.")
    assert says(open_sentences(computed.admin, "late_source"), late)
    assert Notice.objects.get(kind="late_source").level == "bad"
    assert open_sentences(computed.pia, "late_source") == []


def used_core_h(site: Site) -> float:
    """All that physics has used: the hours of the records."""
    return float(Bucket.objects.filter(account__group_name="physics").aggregate(s=Sum("cpu_s"))["s"]) / 3600


def test_an_allocation_is_over_budget_above_what_was_delivered_since_its_first_day(computed: Site) -> None:
    used = used_core_h(computed)
    assert used > 0
    give_core_hours(computed, starts_on=TODAY - 300 * DAY, ends_on=TODAY + 40 * DAY, core_h=used)
    evaluate(at=AT)
    assert open_sentences(computed.admin, "over_budget") == [], "all of it is not more than it"
    Allocation.objects.update(amount=used * 0.99)
    evaluate(at=AT)
    for person in (computed.admin, computed.pia):
        assert says(open_sentences(person, "over_budget"), ("over_budget", "/physics", "30 Dec 2026"))
    facts = Notice.objects.get(kind="over_budget").facts
    assert (facts["used"], facts["amount"]) == (round(used, 2), used * 0.99)
    assert open_sentences(computed.ben, "over_budget") == open_sentences(computed.nobody, "over_budget") == []
    set_rule(
        kind="over_budget",
        policy=computed.policy,
        is_on=True,
        terms={"percent": 102},
        version=NEW,
        at=AT,
        actor=SYSTEM,
    )
    evaluate(at=AT)
    assert open_sentences(computed.admin, "over_budget") == []


@pytest.mark.parametrize("shares", [75.0, 65.0, None])
def test_the_answer_to_a_request_is_for_its_author_alone(computed: Site, shares: float | None) -> None:
    """Granted as asked, granted with other shares, declined."""
    pia, admin = page(computed.pia), page(computed.admin)
    asked = request_shares(
        policy_slug="grid", entry_uid=computed.uid("/physics"), terms=RequestTerms(shares=75), reason="r", at=AT,
        actor=pia,
    )  # fmt: skip
    evaluate(at=AT)
    assert open_sentences(computed.pia, "request_decided") == []
    row: dict[str, Any] = {"id": asked.pk, "version": asked.version, "text": "so", "at": AT, "actor": admin}
    if shares is None:
        decline_request(**row)
    else:
        grant_request(**row, shares=None if shares == 75 else shares)
    evaluate(at=AT)
    outcome = {75.0: "granted", 65.0: "granted_other", None: "declined"}[shares]
    found = open_sentences(computed.pia, "request_decided")
    assert says(found, (f"request_decided.{outcome}", "/physics"))
    assert "user" not in found[0].values
    assert open_sentences(computed.admin, "request_decided") == open_sentences(computed.alice, "request_decided") == []
    evaluate(at=AT + 15 * DAY)
    assert open_sentences(computed.pia, "request_decided", AT + 15 * DAY) == []


def test_changed_shares_are_reported_below_the_group_and_not_to_the_publisher(computed: Site) -> None:
    evaluate(at=AT)
    assert not Notice.objects.filter(kind="shares_changed").exists(), "new entries don't count"
    rename = {"op": "rename", "entry": "/biology/carol", "name": "caroline"}
    shares = {"op": "set_shares", "entry": "/physics/bob", "shares": 7}
    made = make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[shares, rename], reason="r"),
        at=AT,
        actor=SYSTEM,
    )
    publish_change_set(id=made.pk, version=1, at=AT, actor=SYSTEM)
    evaluate(at=AT)
    (notice,) = Notice.objects.filter(kind="shares_changed")
    assert (notice.facts["path"], notice.facts["revision"]) == ("/physics", computed.policy.head_number + 1)
    found = open_sentences(computed.alice, "shares_changed")
    assert says(found, ("shares_changed", "/physics", "20 Nov 2026"))
    assert "author" not in found[0].values
    for person in (computed.ben, computed.nobody, computed.pia, computed.admin):
        assert open_sentences(person, "shares_changed") == [], "no account and no role below"
    notice.facts["author"] = computed.alice.pk
    notice.save()
    assert open_sentences(computed.alice, "shares_changed") == []
    evaluate(at=AT + 15 * DAY)
    assert not Notice.objects.filter(kind="shares_changed", closed_at=None).exists()


def test_a_claimed_account_waits_for_those_who_map_its_entry(computed: Site) -> None:
    claim_account(namespace="a", user_name="bob", at=AT, actor=page(computed.nobody))
    evaluate(at=AT)
    for person in (computed.admin, computed.pia):
        assert says(open_sentences(person, "account_claimed"), ("account_claimed", "nobody", "bob", "/physics/bob"))
    assert open_sentences(computed.ben, "account_claimed") == open_sentences(computed.nobody, "account_claimed") == []
    cancel_claim(claim_id=Claim.objects.get().pk, at=AT, actor=page(computed.nobody))
    evaluate(at=AT)
    assert open_sentences(computed.admin, "account_claimed") == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_explains_itself(kind: Any) -> None:
    assert str(kind.title)
    assert str(kind.about) != str(kind.title)
    assert kind.watches in ("policy", "source", "site")
    assert {term.name for term in kind.terms} == set(kind.defaults())
    assert all(term.lowest <= term.default <= term.highest for term in kind.terms)


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_workers_open_one_notice() -> None:
    build_site(AT)
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    both = threading.Barrier(2)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            both.wait(10)
            evaluate(at=AT)
        except BaseException as error:
            problems.append(error)
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert problems == []
    assert Notice.objects.filter(kind="late_source").count() == 1
