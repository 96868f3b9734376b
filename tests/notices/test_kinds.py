"""Each kind of notice: when it opens, when it doesn't, what it says and to whom."""

from __future__ import annotations

import threading
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils.formats import date_format

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token, revoke_token
from apps.analytics.operators.records import FigureQuery
from apps.analytics.operators.selectors import check_tree
from apps.notices import selectors
from apps.notices.evaluation import evaluate
from apps.notices.kinds import kinds
from apps.notices.kinds.base import Sentence
from apps.notices.models import Notice
from apps.policies.allocations.services import AllocationTerms, create_allocation
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestTerms, request_shares
from apps.policies.services import change_settings, make_change_set, propose_change_set, publish_change_set
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.usage.models import Import, Source
from tests.api.small_site import Site, build_site, push, record
from tests.instants import AT

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


def publish_operations(site: Site, operations: list[dict[str, Any]]) -> None:
    made = make_change_set(policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=SYSTEM)
    publish_change_set(id=made.pk, version=1, at=AT, actor=SYSTEM)
    site.policy.refresh_from_db()


def test_expiring_shares_and_boosts_are_reported_to_managers(computed: Site) -> None:
    soon, later = (TODAY + 5 * DAY).isoformat(), (TODAY + 40 * DAY).isoformat()
    publish_operations(
        computed,
        [
            {"op": "set_dates", "entry": "/physics/bob", "dates": {"ends_on": soon, "at_end": 1}},
            {"op": "set_dates", "entry": "/physics/alice", "dates": {"ends_on": soon, "at_end": "archive"}},
            {"op": "set_dates", "entry": "/biology/carol", "dates": {"ends_on": later, "at_end": "zero"}},
        ],
    )
    evaluate(at=AT)
    boost = ("ending_shares.boost", "/physics/bob", "25 Nov 2026")
    assert says(
        open_sentences(computed.pia, "ending_shares"), boost, ("ending_shares.ends", "/physics/alice", "25 Nov 2026")
    )
    assert open_sentences(computed.ben, "ending_shares") == open_sentences(computed.alice, "ending_shares") == []
    evaluate(at=AT + 20 * DAY)
    ends = ("ending_shares.ends", "/biology/carol", "30 Dec 2026")
    assert says(open_sentences(computed.ben, "ending_shares", AT + 20 * DAY), ends)


def test_expired_kept_shares_stay_reported(computed: Site) -> None:
    dates = {"ends_on": (TODAY + DAY).isoformat(), "at_end": "keep"}
    publish_operations(computed, [{"op": "set_dates", "entry": "/physics/bob", "dates": dates}])
    evaluate(at=AT + 60 * DAY)
    kept = ("ending_shares.kept", "/physics/bob", "21 Nov 2026")
    assert says(open_sentences(computed.pia, "ending_shares", AT + 60 * DAY), kept)


def test_expiring_allocations_without_renewal(computed: Site) -> None:
    def give(starts_on: date, ends_on: date) -> None:
        create_allocation(
            policy_slug="grid",
            entry_uid=computed.uid("/physics"),
            terms=AllocationTerms(starts_on=starts_on, ends_on=ends_on, core_h=1500, reason="r"),
            at=AT,
            actor=SYSTEM,
        )

    give(TODAY, TODAY + 10 * DAY)
    evaluate(at=AT)
    for person in (computed.pia, computed.alice):
        ends = ("ending_allocations.ends", "1,500", "/physics", "30 Nov 2026")
        assert says(open_sentences(person, "ending_allocations"), ends)
    assert open_sentences(computed.ben, "ending_allocations") == []
    give(TODAY + 11 * DAY, TODAY + 300 * DAY)
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


def run_of(kind: str, subject: str, state: str, at: datetime = AT, **more: Any) -> Run:
    return Run.objects.create(
        kind=kind, subject=subject, state=state, due_at=at, created_at=at, finished_at=at, error="No such file.", **more
    )


def test_repeatedly_failing_collections(computed: Site) -> None:
    Source.objects.update(kind="directory", collect_error="The folder is gone.")
    for _n in range(2):
        run_of("usage_collect", "source:cluster-a", "failed")
    evaluate(at=AT)
    assert open_sentences(computed.admin, "failing_collection") == []
    run_of("usage_collect", "source:cluster-a", "failed")
    evaluate(at=AT)
    failing = ("failing_collection", "3", "Cluster A", "The folder is gone.")
    assert says(open_sentences(computed.admin, "failing_collection"), failing)
    assert open_sentences(computed.pia, "failing_collection") == []
    run_of("usage_collect", "source:cluster-a", "succeeded")
    evaluate(at=AT)
    assert open_sentences(computed.admin, "failing_collection") == []


def test_a_damaged_snapshot_is_reported_until_the_next_one(computed: Site) -> None:
    evaluate(at=AT)
    assert open_sentences(computed.admin, "damaged_snapshot") == []
    newest = Snapshot.objects.order_by("-pk")[0]
    data = bytes(newest.data)
    Snapshot.objects.filter(pk=newest.pk).update(data=b"x" + data)
    evaluate(at=AT)
    assert says(
        open_sentences(computed.admin, "damaged_snapshot"), ("damaged_snapshot", str(newest.pk), computed.policy.name)
    )
    assert open_sentences(computed.pia, "damaged_snapshot") == []
    Snapshot.objects.filter(pk=newest.pk).update(data=data)
    evaluate(at=AT)
    assert open_sentences(computed.admin, "damaged_snapshot") == []


def test_a_failed_import_is_reported_until_the_file_succeeds(computed: Site) -> None:
    def handed_in(state: str) -> None:
        Import.objects.create(
            source=Source.objects.get(),
            run=run_of("usage_import", "source:cluster-a", state),
            format="swf",
            file_name="a.swf",
            n_bytes=1,
            sha256="aa",
            owner=computed.pia,
            created_at=AT,
        )

    handed_in("failed")
    evaluate(at=AT)
    for person in (computed.admin, computed.pia):
        assert says(open_sentences(person, "failed_import"), ("failed_import", "a.swf", "Cluster A", "No such file."))
    assert open_sentences(computed.ben, "failed_import") == []
    assert "owner" not in selectors.list_open_notices(page(computed.pia), AT)[0].sentence.values
    handed_in("succeeded")
    evaluate(at=AT)
    assert open_sentences(computed.pia, "failed_import") == []


def test_a_source_that_never_sent_is_reported_and_a_paused_one_is_not(computed: Site) -> None:
    Source.objects.update(expected_every_s=3600, last_received_at=None, created_at=AT - 3 * DAY)
    evaluate(at=AT)
    assert says(open_sentences(computed.admin, "late_source"), ("late_source.never", "Cluster A", "3 days"))
    Source.objects.update(is_paused=True)
    evaluate(at=AT)
    assert open_sentences(computed.admin, "late_source") == []


def test_every_kind_describes_itself() -> None:
    for name, kind in kinds().items():
        assert kind.name == name
        assert str(kind.title)
        assert str(kind.about) != str(kind.title)
        assert kind.watches in ("policy", "source", "site")
        assert {term.name for term in kind.terms} == set(kind.defaults())
        assert all(term.lowest <= term.default <= term.highest for term in kind.terms)
    assert isinstance(
        kinds()["drift"].describe({"path": "/a", "days": 8, "deviation": -0.1, "is_starved": True}), Sentence
    )


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


def test_a_coarse_resolution_is_reported_until_it_is_finer(computed: Site) -> None:
    def rank_by(resolution: int) -> None:
        settings = {"algorithm": {"name": "aequus", "operator": "absolute", "resolution": resolution}}
        change_settings(policy_slug="grid", settings=settings, reason="r", base_revision=None, at=AT, actor=SYSTEM)
        computed.recompute()
        store.poll()
        evaluate(at=AT)

    evaluate(at=AT)
    assert open_sentences(computed.admin, "coarse_resolution") == []
    rank_by(3)
    (sentence,) = open_sentences(computed.admin, "coarse_resolution")
    facts = sentence.values
    query = FigureQuery(operator="absolute", resolution=3)
    found = check_tree(policy_slug="grid", query=query, actor=SYSTEM)
    assert (facts["n"], facts["of"], facts["bits"]) == (found.n_misplaced, found.n_leaves, found.same_ranks_bits)
    assert f"{found.n_misplaced} of {found.n_leaves}" in sentence.text
    assert open_sentences(computed.pia, "coarse_resolution") == []
    rank_by(2**20)
    assert open_sentences(computed.admin, "coarse_resolution") == []


def test_an_expiring_token_is_reported_14_days_ahead(computed: Site) -> None:
    def make(name: str, scope: str, days: int, at: datetime) -> Token:
        return make_token(
            NewToken(name=name, scopes=[scope], user=computed.pia, days=days), at=at, actor=page(computed.admin)
        )[0]

    own = make("laptop", "self:read", 90, AT - 76 * DAY)
    make("cluster", "priorities:read", 90, AT - 76 * DAY)
    make("later", "self:read", 90, AT - 75 * DAY)
    make("short", "self:read", 14, AT)
    evaluate(at=AT)
    day = date_format(AT + 14 * DAY, "j M Y")
    both = (("ending_tokens.ends", "cluster", "pia", day), ("ending_tokens.ends", "laptop", "pia", day))
    assert says(open_sentences(computed.pia, "ending_tokens"), *both)
    assert says(open_sentences(computed.admin, "ending_tokens"), both[0])
    assert open_sentences(computed.ben, "ending_tokens") == []
    assert open_sentences(computed.pia, "ending_tokens", AT)[0].values["ends_on"] == (AT + 14 * DAY).date().isoformat()
    evaluate(at=AT + 20 * DAY)
    over = open_sentences(computed.pia, "ending_tokens", AT + 20 * DAY)
    assert {one.key for one in over if one.values["name"] in ("laptop", "cluster")} == {"ending_tokens.over"}
    revoke_token(token_id=own.pk, at=AT + 20 * DAY, actor=page(computed.pia))
    evaluate(at=AT + 20 * DAY)
    assert "laptop" not in {one.values["name"] for one in open_sentences(computed.pia, "ending_tokens", AT + 20 * DAY)}
    evaluate(at=AT + 60 * DAY)
    assert open_sentences(computed.pia, "ending_tokens", AT + 60 * DAY) == []
