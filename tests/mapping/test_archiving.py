"""What other rows depend on is archived: hidden everywhere, its history readable, and restored as it was."""

from __future__ import annotations

import io
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.utils.html import escape

from apps.accounts import audit_log
from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.errors import Archived
from apps.mapping import removal
from apps.policies.changesets.lifecycle import publish_due
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import apply_dates
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.priorities.recompute.staleness import recompute_stale
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.usage.arrays import load_usage
from apps.usage.models import Bucket, Overlap, Source
from apps.usage.selectors import watermarks
from apps.usage.services import NewSource, make_source
from apps.usage.sources.schedule import enqueue_due_collections
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, push, record

WHY: dict[str, Any] = {"reason": "A test tree", "at": AT, "actor": COMMAND}


@pytest.fixture
def site(computed_site: Site) -> Site:
    store.poll()
    return computed_site


@pytest.fixture
def admin(site: Site) -> Caller:
    return Caller(user=site.admin)


def test_an_archived_policy_is_unlisted_and_reported_as_archived(site: Site, admin: Caller) -> None:
    scheduler = Caller(token=site.token("priorities:read"))
    assert scheduler.get("policies/grid/priorities", {"account": "alice"}).status_code == 200
    done = admin.post("policies/grid/archive", {"reason": "A test tree"})
    assert (done.status_code, done.json()["slug"], done.json()["archived_at"][:10]) == (200, "grid", "2026-11-20")
    assert [row["slug"] for row in admin.get("policies").json()["results"]] == ["other"]
    store.poll()
    for path in ("priorities?account=alice", "tree", "document", "explain?account=alice"):
        status, code, _ = refused(admin.get(f"policies/grid/{path}"))
        assert (status, code) == (410, "archived"), path
    assert refused(scheduler.get("policies/grid/priorities", {"account": "alice"}))[:2] == (410, "archived")
    assert "grid" not in store.state().policies
    assert b'policy="grid"' not in admin.client.get("/metrics").content


def test_the_history_of_an_archived_policy_is_readable(site: Site, admin: Caller) -> None:
    uid = site.uid("/physics/bob")
    removal.archive_policy(slug="grid", **WHY)
    assert admin.get("policies/grid").json()["archived_at"] == "2026-11-20T12:00:00Z"
    assert [one["number"] for one in admin.get("policies/grid/revisions").json()["results"]] == [2, 1]
    assert admin.get("policies/grid/revisions/1/diff").status_code == 200
    assert admin.get("policies/grid/tree", {"at": "2"}).json()["path"] == "/"
    assert admin.get(f"policies/grid/entries/{uid}").json()["history"]
    page = admin.client.get("/policy/grid/history/")
    assert page.status_code == 200
    assert 'id="archived"' in page.content.decode()
    assert admin.client.get(f"/policy/grid/history/entry/{uid}/").status_code == 200
    assert admin.client.get("/policy/grid/history/diff/?from=1&to=2").status_code == 200
    old = admin.client.get("/policy/grid/")
    assert (old.status_code, "archived on 2026-11-20" in old.content.decode()) == (410, True)


def test_nothing_is_computed_or_changed_in_an_archived_policy(site: Site) -> None:
    add = {"op": "add", "parent": "/physics", "name": "dora", "kind": "user", "shares": 1}
    waiting = make_change_set(
        policy_slug="grid", new=NewChangeSet(base_revision=2, operations=[add]), at=AT, actor=COMMAND
    )
    asked = recompute_stale(at=AT.replace(hour=15))
    assert Run.objects.filter(pk__in=asked, subject="policy:grid").exists()
    removal.archive_policy(slug="grid", **WHY)
    assert not Run.objects.filter(subject="policy:grid", state=Run.State.QUEUED).exists()
    assert not Run.objects.filter(pk__in=recompute_stale(at=AT.replace(hour=16)), subject="policy:grid").exists()
    assert apply_dates(at=AT, zone=ZoneInfo("UTC")) == []
    with pytest.raises(Archived):
        make_change_set(policy_slug="grid", new=NewChangeSet(base_revision=2, operations=[add]), at=AT, actor=COMMAND)
    author = Caller(user=site.admin)
    answer = author.post(f"policies/grid/changesets/{waiting.pk}/publish", {"reason": "x"}, If_Match='"1"')
    assert refused(answer)[:2] == (410, "archived")


def test_a_scheduled_change_waits_until_the_policy_is_restored(site: Site) -> None:
    add = {"op": "add", "parent": "/physics", "name": "dora", "kind": "user", "shares": 1}
    made = make_change_set(
        policy_slug="grid", new=NewChangeSet(base_revision=2, operations=[add]), at=AT, actor=COMMAND
    )
    later = AT.replace(hour=13)
    ChangeSet.objects.filter(pk=made.pk).update(
        state="approved", effective_at=later, decided_by=site.admin, decided_name="admin", reason="Later"
    )
    removal.archive_policy(slug="grid", **WHY)
    assert publish_due(at=later) == []
    assert ChangeSet.objects.get(pk=made.pk).state == "approved"
    removal.restore_policy(slug="grid", **WHY)
    assert [revision.number for revision in publish_due(at=later)] == [3]


def test_a_restored_policy_is_unchanged(site: Site, admin: Caller) -> None:
    before = admin.get("policies/grid/tree").json()
    for name in ("archive", "restore"):
        assert admin.post(f"policies/grid/{name}", {"reason": "x"}).status_code == 200
    store.poll()
    assert admin.get("policies/grid/tree").json()["children"] == before["children"]
    assert Run.objects.filter(subject="policy:grid", state=Run.State.QUEUED).exists()
    verbs = AuditEvent.objects.filter(policy_slug="grid", verb__in=("policy.archived", "policy.restored"))
    assert list(verbs.order_by("pk").values_list("verb", flat=True)) == ["policy.archived", "policy.restored"]


def test_archiving_and_its_audit_row_are_one_transaction(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_given: Any) -> None:
        raise OSError("the log is away")

    monkeypatch.setattr(audit_log, "record", fail)
    for archive, slug in ((removal.archive_policy, "grid"), (removal.archive_source, "cluster-a")):
        with pytest.raises(OSError, match="away"):
            archive(slug=slug, **WHY)
    assert Policy.objects.filter(slug="grid").exists()
    assert Source.objects.filter(slug="cluster-a").exists()


def _sums(site: Site) -> dict[str, float]:
    site.recompute()
    found = Caller(user=site.admin).get("policies/grid/tree", {"depth": 3}).json()
    return {each["name"]: each["usage_core_s"] for each in found["children"]}


def test_usage_of_an_archived_source_is_excluded_until_restored(site: Site, admin: Caller) -> None:
    before = _sums(site)
    assert before["physics"] > 0
    assert admin.post("usage/sources/cluster-a/archive", {"reason": "x"}).status_code == 200
    assert "cluster-a" not in watermarks()
    assert _sums(site) == {"physics": 0.0, "biology": 0.0}
    delivered = admin.get("usage/buckets").json()["results"]
    assert delivered == []
    assert admin.post("usage/sources/cluster-a/restore", {"reason": "x"}).status_code == 200
    assert _sums(site) == before


def test_an_archived_source_is_unlisted_and_rejects_input(site: Site, admin: Caller) -> None:
    removal.archive_source(slug="cluster-a", **WHY)
    assert admin.get("usage/sources").json()["results"] == []
    assert admin.get("usage/sources/cluster-a").json()["archived_at"] == "2026-11-20T12:00:00Z"
    assert admin.get("usage/buckets", {"source": "cluster-a"}).json()["results"]
    body = [record("9", "alice", "physics", 1, at=AT)]
    pushed = admin.post("usage/records?source=cluster-a", body)
    assert refused(pushed)[:2] == (410, "archived")
    with pytest.raises(Archived):
        push(site, body)
    for step in ("pause", "collect"):
        assert refused(admin.post(f"usage/sources/cluster-a/{step}"))[:2] == (410, "archived")
    Source.all_objects.filter(slug="cluster-a").update(
        kind="command", collecting={"command": ["sacct"]}, collect_due_at=AT
    )
    assert enqueue_due_collections(at=AT) == 0
    assert admin.client.get("/usage/sources/").content.decode().count("Cluster A") == 0
    page = admin.client.get("/usage/sources/cluster-a/").content.decode()
    assert 'id="archived"' in page
    assert "source=&quot;cluster-a&quot;" not in page
    assert b'source="cluster-a"' not in admin.client.get("/metrics").content


def test_hours_held_for_an_archived_source_count(site: Site) -> None:
    other = make_source(NewSource(slug="again", name="Again", namespace="a", site="s1"), at=AT, actor=COMMAND)
    kept = Source.objects.get(slug="cluster-a")
    for bucket in list(Bucket.objects.filter(source=kept)):
        bucket.source = other
        bucket.save(force_insert=True)
    Overlap.objects.create(
        site="s1", kept=kept, held=other, from_at=AT.replace(hour=0), to_at=AT, found_at=AT, state="held"
    )
    assert load_usage(sources=[other.pk], from_at=None, to_at=AT).cpu_s.sum() == 0
    mark = watermarks()["again"]
    removal.archive_source(slug="cluster-a", **WHY)
    assert load_usage(sources=[other.pk], from_at=None, to_at=AT).cpu_s.sum() > 0
    assert watermarks()["again"] > mark


def test_page_rest_and_command_give_the_same_preview(site: Site, admin: Caller) -> None:
    for kind, slug, api, url in (
        ("policy", "grid", "policies/grid", "/policy/grid/remove/"),
        ("source", "cluster-a", "usage/sources/cluster-a", "/usage/sources/cluster-a/remove/"),
    ):
        body = admin.get(f"{api}/removal").json()
        assert (body["kind"], body["action"]) == (kind, "archive")
        out = io.StringIO()
        call_command("archive", kind, slug, "--dry-run", stdout=out)
        page = admin.client.get(url).content.decode()
        for effect in body["effects"]:
            assert effect in out.getvalue()
            assert escape(effect) in page
        for each in body["dependents"]:
            assert f"depends on it: {each['what']}: {each['n']:,}" in out.getvalue()
            assert each["what"] in page
    assert Policy.objects.filter(slug="grid").exists()
    assert Source.objects.filter(slug="cluster-a").exists()


def test_the_page_archives_restores_and_removes(site: Site, admin: Caller) -> None:
    url = "/usage/sources/cluster-a/remove/"
    refusal = admin.client.post(url, {"action": "archive", "reason": " "})
    assert refusal.status_code == 422
    stale = admin.client.post(url, {"action": "remove", "reason": "x"})
    assert (stale.status_code, "changed this first" in stale.content.decode()) == (409, True)
    assert admin.client.post(url, {"action": "archive", "reason": "x"}).status_code == 303
    assert not Source.objects.filter(slug="cluster-a").exists()
    assert ">Restore<" in admin.client.get(url).content.decode()
    back = admin.client.post(url, {"action": "restore", "reason": "x"})
    assert (back.status_code, back["Location"]) == (303, "/usage/sources/cluster-a/")
    make_source(NewSource(slug="clutser", name="Clutser"), at=AT, actor=COMMAND)
    gone = admin.client.post("/usage/sources/clutser/remove/", {"action": "remove", "reason": "x"})
    assert (gone.status_code, gone["Location"]) == (303, "/usage/sources/")
    assert not Source.all_objects.filter(slug="clutser").exists()


def test_the_command_archives_and_restores(site: Site) -> None:
    out = io.StringIO()
    call_command("archive", "policy", "grid", "--reason", "A test tree", stdout=out)
    assert not Policy.objects.filter(slug="grid").exists()
    call_command("archive", "policy", "grid", "--reason", "It was needed", "--restore", stdout=out)
    assert Policy.objects.filter(slug="grid").exists()
    assert out.getvalue() == "Archived the policy grid.\nRestored the policy grid.\n"
