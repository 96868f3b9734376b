"""Usage that peers report by entry, in a tree: scopes, approaches, fallbacks, and reserved names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from django.test import Client

from apps.accounts.account_ids import account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.entry_accounts import ENTRY_NAMESPACE, entry_account, uid_of_account
from apps.accounts.models import Account, AuditEvent, User
from apps.core.errors import Conflict, Invalid
from apps.explain.account_path import explain
from apps.mapping import attachments as attaching
from apps.mapping import claims
from apps.mapping.changes import Assign, make_change
from apps.mapping.rules import resolver as mapping
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import get_mapping_page
from apps.mapping.services import set_rules
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only import fall_back, load_fallbacks, recover
from apps.priorities.models import UnmappedAccounts
from apps.priorities.pseudonyms import pseudonymise_idle
from apps.priorities.recompute.fingerprint import read_fingerprint
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.serving.lookup import AccountQuery
from apps.series.builder import Builder
from apps.series.days import days_of, site_zone
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.peer_sums import HourSums, RunningJobs, make_peer_source, replace_running, replace_sums
from apps.usage.services import NewImport, NewSource, PushedRecords, make_source, push_records, start_import
from apps.usage.sources import services as sources
from tests.pages.page import read
from tests.priority_site import AS_OF, NO_AGING, Site

GRIDWIDE = {"algorithm": {"name": "gridwide"}, **NO_AGING}
OTHER = {"R1": "R2", "R2": "R1"}
HOUR = int((AS_OF - timedelta(hours=2)).timestamp()) // 3600

pytestmark = pytest.mark.django_db


@pytest.fixture
def paper(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "gridwide" / "gridwide.json").read_text())["scope"]
    return found


@pytest.fixture
def peer() -> Source:
    return new_peer("peer")


def new_peer(slug: str) -> Source:
    return make_peer_source(slug=slug, name=slug, origin=f"{slug}.example", site=slug, at=AS_OF, actor=COMMAND)


def tell(source: Source, used: Mapping[UUID, float], *, hour: int = HOUR) -> None:
    """Core-hours of one hour."""
    ids = account_ids([entry_account(uid) for uid in used], at=AS_OF)
    amounts = np.zeros((len(used), 6))
    amounts[:, 0] = [hours * 3600 for hours in used.values()]
    accounts = np.array([ids[entry_account(uid)] for uid in used], np.int64)
    sums = HourSums(np.full(len(used), hour, np.int64), accounts, amounts)
    replace_sums(source, hours=np.array([hour], np.int64), rows=sums, at=AS_OF)


def run_at_peer(source: Source, uid: UUID, *, cpus: float, since_h: float, requested_h: float | None) -> None:
    ids = account_ids([entry_account(uid)], at=AS_OF)
    start_us = np.array([int((AS_OF - timedelta(hours=since_h)).timestamp() * 1e6)], np.int64)
    asked = np.array([np.nan if requested_h is None else requested_h * 3600])
    none, accounts = np.zeros(1), np.array([ids[entry_account(uid)]])
    running = RunningJobs(accounts, start_us, np.array([cpus]), none, none, none, none, asked)
    replace_running(source, running, at=AS_OF)


def uid_at(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    at = tree.index_of_path(path)
    assert at is not None
    return tree.uuid(at)


@pytest.fixture
def grid(make_site: Callable[..., Site], paper: dict[str, Any]) -> Callable[..., Site]:
    """The paper's policy at one of its sites: its own usage from records, the other's reported by uid."""

    def build(here: str, **settings: Any) -> Site:
        site = make_site(slug="grid", site=here)
        site.publish(_children(paper["policy_shares"], ""), {**GRIDWIDE, **settings})
        tree = load_tree(site.policy)
        leaves = {tree.name[i]: tree.uuid(i) for i in range(1, len(tree)) if tree.n_children[i] == 0}
        site.map(*(Rule(kind="exact", target_uid=uid, user_pattern=name, suffix="") for name, uid in leaves.items()))
        for name, hours in paper["usage_by_resource"][here].items():
            if hours:
                _job(site.source, name, float(hours))
        there = paper["usage_by_resource"][OTHER[here]]
        tell(new_peer(OTHER[here]), {leaves[name]: float(hours) for name, hours in there.items()})
        return site

    return build


def _children(shares: dict[str, dict[str, float]], name: str) -> list[dict[str, Any]]:
    found = []
    for child, n in shares.get(name, {}).items():
        entry: dict[str, Any] = {"name": child, "shares": n}
        if child in shares:
            entry |= {"children": _children(shares, child)}
            entry |= {"scope": "global"} if not name else {}
        found.append(entry)
    return found


def _job(source: Source, user: str, cpus: float, **more: Any) -> None:
    given = {
        "job": f"{source.slug}-{user}",
        "user": user,
        "state": "finished",
        "cpus": cpus,
        "start_at": AS_OF - timedelta(hours=2),
        "end_at": AS_OF - timedelta(hours=1),
        **more,
    }
    ingest_batch(source=source, rows=[RecordRow(**given)], at=AS_OF)


def deviations(site: Site, leaf: str) -> list[float]:
    snapshot = store.newest(site.slug)
    tree = snapshot.tree
    at = next(i for i in range(len(tree)) if tree.name[i] == leaf)
    return [float(snapshot.values.priority[i]) for i in (*tree.ancestors(at)[1:], at)]


@pytest.mark.parametrize("here", ["R1", "R2"])
@pytest.mark.paper("4.1", "4.11")
def test_each_site_gets_the_papers_numbers_with_peer_usage_by_uid(
    grid: Callable[..., Site], paper: dict[str, Any], here: str
) -> None:
    site = grid(here)
    site.recompute()
    for leaf, wanted in paper["deviations"][here].items():
        assert deviations(site, leaf) == pytest.approx(wanted, abs=1e-8), leaf


@pytest.mark.parametrize("here", ["R1", "R2"])
def test_a_fallback_compares_its_subtree_by_local_usage_until_it_ends(
    grid: Callable[..., Site], paper: dict[str, Any], here: str
) -> None:
    site = grid(here)
    for path in ("/VO-A", "/VO-B"):
        assert fall_back(site.policy, uid_at(site, path), reason="not heard since noon", at=AS_OF)
    site.recompute()
    for leaf, wanted in paper["deviations_all_local"][here].items():
        assert deviations(site, leaf) == pytest.approx(wanted, abs=1e-8), leaf
    for path in ("/VO-A", "/VO-B"):
        assert recover(site.policy, uid_at(site, path), at=AS_OF)
    site.recompute()
    for leaf, wanted in paper["deviations"][here].items():
        assert deviations(site, leaf) == pytest.approx(wanted, abs=1e-8), leaf


def test_a_fallback_of_one_entry_does_not_change_its_siblings(grid: Callable[..., Site], paper: dict[str, Any]) -> None:
    site = grid("R1")
    fall_back(site.policy, uid_at(site, "/VO-A"), reason="not heard", at=AS_OF)
    site.recompute()
    assert deviations(site, "P-A1") == pytest.approx(paper["deviations_all_local"]["R1"]["P-A1"], abs=1e-8)
    assert deviations(site, "U-B11") == pytest.approx(paper["deviations"]["R1"]["U-B11"], abs=1e-8)


@pytest.mark.paper("4.43", "4.51")
def test_with_running_jobs_of_a_peer_predictive_equals_one_instance_that_has_all_records(
    make_site: Callable[..., Site], peer: Source
) -> None:
    """Aged, so that the elapsed part counts hour by hour."""
    settings = {
        "approach": {"local": "predictive", "global": "predictive"},
        "window": {"length_s": None, "aging": "exponential", "half_life_s": 7_200},
    }
    tree = [{"name": "vo", "scope": "global", "children": [{"name": n, "shares": 1} for n in ("alice", "bob")]}]
    one, two = make_site(slug="one", site="one"), make_site(slug="two", site="two")
    for site in (one, two):
        site.publish(tree, settings)
        rules = [
            Rule(kind="exact", target_uid=uid_at(site, f"/vo/{who}"), namespace="c1", user_pattern=who, suffix="")
            for who in ("alice", "bob")
        ]
        site.map(*rules)
    start = AS_OF - timedelta(hours=2.5)
    # Here: bob's, in both policies alike. There: alice's, of which one policy has records and the other sums.
    _job(one.source, "bob", 5.0)
    theirs = make_source(
        NewSource(slug="theirs", name="theirs", namespace="only-one", origin="x"), at=AS_OF, actor=COMMAND
    )
    one.map(
        Rule(kind="exact", target_uid=uid_at(one, "/vo/alice"), namespace="only-one", user_pattern="alice"),
        Rule(kind="exact", target_uid=uid_at(one, "/vo/bob"), namespace="c1", user_pattern="bob"),
    )
    _job(theirs, "alice", 7.0)
    _job(theirs, "alice", 3.0, job="long", state="running", start_at=start, end_at=None, requested_s=6 * 3600.0)
    tell(peer, {uid_at(two, "/vo/alice"): 7.0})
    run_at_peer(peer, uid_at(two, "/vo/alice"), cpus=3.0, since_h=2.5, requested_h=6.0)
    one.recompute()
    two.recompute()
    for name in ("alice", "bob"):
        assert deviations(one, name) == deviations(two, name), name
    usage = [store.newest(site.slug).values.usage for site in (one, two)]
    assert usage[0].tolist() == usage[1].tolist()
    assert usage[0].max() > 0


def test_usage_of_an_unknown_entry_is_unmapped_until_it_exists(make_site: Callable[..., Site], peer: Source) -> None:
    site = make_site()
    site.publish([{"name": "vo", "scope": "global", "children": [{"name": "a", "shares": 1}]}])
    site.map(Rule(kind="default", target_uid=uid_at(site, "/vo/a"), suffix=""))
    stranger = uuid4()
    tell(peer, {stranger: 3.0, uid_at(site, "/vo/a"): 1.0})
    site.recompute()
    values = store.newest(site.slug).values
    tree = store.newest(site.slug).tree
    at = tree.index_of_path("/vo/a")
    assert values.usage[at] == 3600.0  # not even a rule for all the rest leads the other one there
    row = UnmappedAccounts.objects.get()
    account = Account.objects.get(pk__in=row.account_ids)
    assert (uid_of_account(AccountKey(account.namespace, account.user_name)), row.usage) == (stranger, 10_800)


def test_a_fallback_is_audited_once_triggers_a_recompute_and_changes_the_fingerprint(
    grid: Callable[..., Site],
) -> None:
    site = grid("R1")
    uid = uid_at(site, "/VO-A")
    before = read_fingerprint(site.policy, as_of=AS_OF)
    assert "fallbacks" not in before.to_json()
    assert fall_back(site.policy, uid, reason="not heard", at=AS_OF)
    during = read_fingerprint(site.policy, as_of=AS_OF)
    assert during.digest != before.digest
    assert not fall_back(site.policy, uid, reason="still not", at=AS_OF + timedelta(hours=1))
    assert read_fingerprint(site.policy, as_of=AS_OF).digest == during.digest
    assert load_fallbacks(site.policy) == (uid,)
    assert read_fingerprint(site.policy, as_of=AS_OF - timedelta(hours=1)).to_json().get("fallbacks") is None
    assert recover(site.policy, uid, at=AS_OF)
    assert not recover(site.policy, uid, at=AS_OF)
    assert read_fingerprint(site.policy, as_of=AS_OF).digest == before.digest
    verbs = AuditEvent.objects.filter(verb__startswith="fallback").order_by("id").values_list("verb", "entry_uid")
    assert list(verbs) == [("fallback.begun", uid), ("fallback.ended", uid)]


def test_the_path_shows_where_and_why_only_local_usage_counts(grid: Callable[..., Site]) -> None:
    site = grid("R1")
    fall_back(site.policy, uid_at(site, "/VO-B"), reason="R2 was not heard for a day.", at=AS_OF)
    site.recompute()

    def local_only_steps(account: str) -> list[bool]:
        found = explain(policy_slug=site.slug, account=account, actor=COMMAND)["results"][0]["steps"]
        return [any(one["key"] == "walk.local_only" for one in step["sentences"]) for step in found]

    assert local_only_steps("U-B11") == [False, True, True]
    assert local_only_steps("P-A1") == [False, False]
    steps = explain(policy_slug=site.slug, account="U-B11", actor=COMMAND)["results"][0]["steps"]
    last = steps[1]["sentences"][-1]
    assert (last["key"], last["values"]["reason"]) == ("walk.local_only", "R2 was not heard for a day.")
    assert steps[1]["sentence"].endswith(last["text"])
    assert "Fri 20 Nov 2026, 12:00" in last["text"]
    assert "R2 was not heard for a day." in last["text"]


def test_days_during_a_fallback_are_built_from_local_usage(grid: Callable[..., Site]) -> None:
    site = grid("R1")

    def peers_used() -> float:
        """Usage of all below VO-A on the day of the usage, as its children are compared."""
        zone = site_zone()
        days = days_of(AS_OF.date(), AS_OF.date() + timedelta(days=1), zone)
        built = next(iter(Builder(site.policy, days).build(days)))
        tree = built.context.tree
        at = tree.index_of_path("/VO-A/P-A1")
        return float(built.values.columns["peers_used"][at]) / 3600

    assert peers_used() == 50
    fall_back(site.policy, uid_at(site, "/VO-A"), reason="not heard", at=AS_OF)
    assert peers_used() == 40
    recover(site.policy, uid_at(site, "/VO-A"), at=AS_OF)
    fall_back(site.policy, uid_at(site, "/VO-A"), reason="not heard", at=AS_OF + timedelta(days=2))
    assert peers_used() == 50


def test_accounts_of_entries_have_one_spelling() -> None:
    uid = uuid4()
    assert uid_of_account(entry_account(uid)) == uid
    for key in (
        AccountKey("c1", str(uid)),
        AccountKey(ENTRY_NAMESPACE, str(uid).upper()),
        AccountKey(ENTRY_NAMESPACE, "alice"),
        AccountKey(ENTRY_NAMESPACE, str(uid), "group"),
    ):
        assert uid_of_account(key) is None


def test_reserved_namespaces_and_peer_sources_cannot_be_created_manually() -> None:
    for namespace in (ENTRY_NAMESPACE, "@other", " @entries"):
        with pytest.raises(Invalid):
            make_source(NewSource(slug="x", name="x", namespace=namespace), at=AS_OF, actor=COMMAND)
        with pytest.raises(Invalid):
            sources.set_up_source(slug="x", new_settings={"name": "x", "namespace": namespace}, at=AS_OF, actor=COMMAND)
    with pytest.raises(Invalid):
        sources.set_up_source(slug="x", new_settings={"name": "x", "kind": "peer"}, at=AS_OF, actor=COMMAND)
    made = make_source(NewSource(slug="x", name="x"), at=AS_OF, actor=COMMAND)
    for change in ({"namespace": ENTRY_NAMESPACE}, {"kind": "peer"}):
        with pytest.raises(Invalid):
            sources.change_source(slug="x", tag=sources.tag_of(made), new_settings=change, at=AS_OF, actor=COMMAND)


def test_a_peer_source_cannot_be_changed_manually(peer: Source) -> None:
    tag = sources.tag_of(peer)
    given: dict[str, Any] = {"slug": "peer", "at": AS_OF, "actor": COMMAND}
    upload = NewImport(source_slug="peer", format="auto", file=BytesIO(b"x"), file_name="x")
    pushed = PushedRecords(source_slug="peer", body_stream=BytesIO(b"[]"), content_type="application/json")
    for attempt in (
        lambda: sources.change_source(tag=tag, new_settings={"name": "mine"}, **given),
        lambda: sources.pause_source(**given),
        lambda: sources.resume_source(**given),
        lambda: sources.collect_now(**given),
        lambda: start_import(upload, at=AS_OF, actor=COMMAND),
        lambda: start_import(replace(upload, makes_source=True), at=AS_OF, actor=COMMAND),
        lambda: push_records(pushed, at=AS_OF, actor=COMMAND),
    ):
        with pytest.raises(Conflict) as refused:
            attempt()
        assert refused.value.code == "peer_source"


def test_peer_usage_cannot_be_mapped_by_rules_attachments_or_claims(
    make_site: Callable[..., Site], peer: Source
) -> None:
    site = make_site()
    site.publish([{"name": "vo", "scope": "global", "children": [{"name": n, "shares": 1} for n in ("a", "b")]}])
    a, b = uid_at(site, "/vo/a"), uid_at(site, "/vo/b")
    tell(peer, {a: 1.0})
    for rule in (
        Rule(kind="exact", namespace=ENTRY_NAMESPACE, user_pattern=str(a), target_uid=b),
        Rule(kind="default", namespace="@other", target_uid=b),
    ):
        with pytest.raises(Invalid):
            set_rules(policy_slug=site.slug, rules=[rule], at=AS_OF, actor=COMMAND)
    site.map(Rule(kind="glob", user_pattern="*", target_uid=b, suffix=""))
    with pytest.raises(Invalid):
        attaching.attach_account(
            policy_slug=site.slug, entry_uid=b, account=entry_account(a), reason="mine", at=AS_OF, actor=COMMAND
        )
    taken = Account.objects.get(namespace=ENTRY_NAMESPACE)
    with pytest.raises(Invalid):
        make_change(
            policy_slug=site.slug, edit=Assign({taken.pk: b}), reason="mine", version=None, at=AS_OF, actor=COMMAND
        )
    somebody = User.objects.create_user("somebody", password=None)
    with pytest.raises(Invalid):
        claims.claim_account(
            namespace=ENTRY_NAMESPACE, user_name=str(a), at=AS_OF, actor=Actor(user=somebody, via="page")
        )
    site.recompute()
    snapshot = store.newest(site.slug)
    usage = {snapshot.tree.name[i]: float(snapshot.values.usage[i]) for i in range(1, len(snapshot.tree))}
    assert (usage["a"], usage["b"]) == (3600.0, 0.0)


def test_peer_accounts_are_not_looked_up_listed_suggested_or_pseudonymised(
    make_site: Callable[..., Site], peer: Source
) -> None:
    site = make_site()
    site.publish([{"name": "vo", "scope": "global", "children": [{"name": "a", "shares": 1}]}])
    a = uid_at(site, "/vo/a")
    site.map(Rule(kind="exact", user_pattern="alice", target_uid=a, suffix=""))
    tell(peer, {a: 1.0, uuid4(): 2.0})
    site.recompute()
    snapshot = store.newest(site.slug)
    assert [one["entry"] for one in snapshot.lookup([AccountQuery(str(a), namespace=ENTRY_NAMESPACE)])] == [None]
    assert [one["entry"] for one in snapshot.lookup([str(a)])] == [None]
    assert [line["account"] for line in every_leaf(snapshot)] == [None]
    page = get_mapping_page(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    assert (page.unmapped, page.n_unmapped, page.n_attached, page.total_core_s) == ([], 0, 0, 0)
    assert (page.n_waiting, page.waiting_core_s) == (1, 7200.0)
    hidden = pseudonymise_idle(idle_days=30, reason="gone", at=AS_OF + timedelta(days=400), actor=COMMAND)
    assert hidden.n_accounts == 0
    assert Account.objects.filter(namespace=ENTRY_NAMESPACE, is_pseudonym=False).count() == 2


def test_a_reserved_namespace_maps_to_the_entry_of_the_uid_or_nothing(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    site.publish([{"name": "vo", "children": [{"name": "a"}]}, {"name": "rest", "kind": "reserve"}])
    tree = load_tree(site.policy)
    resolver = mapping.Resolver((Rule(kind="default", target_uid=uid_at(site, "/vo/a")),), tree)
    assert resolver.decide(entry_account(uid_at(site, "/vo"))) == (mapping.Match(tree.index_of_path("/vo") or 0), None)
    for key in (
        entry_account(tree.uuid(0)),
        entry_account(uid_at(site, "/rest")),
        entry_account(uuid4()),
        AccountKey("@other", "x"),
        AccountKey(ENTRY_NAMESPACE, "alice"),
    ):
        assert resolver.decide(key) == (mapping.NOWHERE, None)


def test_page_and_rest_of_a_peer_source_offer_no_actions(peer: Source, client: Client) -> None:
    tell(peer, {uuid4(): 1.0})
    client.force_login(User.objects.create_superuser("root", password=None))
    make_source(NewSource(slug="ours", name="ours"), at=AS_OF, actor=COMMAND)
    offers = ("/usage/import/?source={}", "/usage/sources/{}/settings/")
    theirs, ours = (set(read(client.get(f"/usage/sources/{slug}/")).values("href")) for slug in ("peer", "ours"))
    assert [each.format("ours") in ours for each in offers] == [True, True]
    assert [each.format("peer") in theirs for each in offers] == [False, False]
    page = read(client.get("/usage/sources/peer/"))
    assert page.item("source-kind").attributes["data-value"] == "peer"
    assert not page.has("#collect, #collecting form, main form")
    assert client.get("/usage/sources/peer/settings/").status_code == 409
    assert client.get("/usage/sources/").status_code == 200
    form = client.get("/usage/import/?source=peer")
    assert form.status_code == 200
    assert 'value="peer"' not in form.content.decode()
    body = client.get("/api/v1/usage/sources/peer").json()
    assert (body["kind"], body["origin"], body["collecting"]) == ("peer", "peer.example", {})
    made = client.post(
        "/api/v1/usage/sources", {"slug": "x", "name": "x", "kind": "peer"}, content_type="application/json"
    )
    assert (made.status_code, made.json()["fields"][0]["where"]) == (400, "kind")
    assert not Source.objects.filter(slug="x").exists()


def test_the_accounts_page_reports_usage_of_unknown_entries(
    make_site: Callable[..., Site], peer: Source, client: Client
) -> None:
    site = make_site()
    site.publish([{"name": "vo", "children": [{"name": "a", "shares": 1}]}])
    tell(peer, {uuid4(): 2.0})
    client.force_login(User.objects.create_superuser("root", password=None))
    page = read(client.get(f"/policy/{site.slug}/mappings/"))
    assert "2.0" in re.findall(r"\d[\d.]*", page.text("#hidden-entries"))
