"""What is mounted follows its authority within limits, and nothing that it sends does any harm."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.core.signing import BadDocument, SigningKey, sign_successor
from apps.federation.fetch_requests import no_document
from apps.federation.fetch_schedule import request_due_fetches, request_fetch
from apps.federation.models import Fetch, Mount
from apps.federation.mounts.services import clean_settings, get_mount, list_mounts, preview, unmount
from apps.federation.publishing import drop_publication, make_publication
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, P1, P3, OtherSide, projects
from tests.federation.worlds import add_entry, mount_side
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused

HOUR = timedelta(hours=1)


@pytest.fixture
def mount(policy: Policy, side: OtherSide, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Mount:
    settings.FAIRSHARE_ISSUER = "site.example"
    add_entry("vo-a-here")
    return mount_side(side)


def fetched(mount: Mount, monkeypatch: pytest.MonkeyPatch, at: Any = AT) -> Fetch:
    """One run by the worker's own road, at an instant."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    run = work_run_now(request_fetch(mount, at=at).pk)
    assert run.state == Run.State.SUCCEEDED, run.error
    mount.refresh_from_db()
    found = Fetch.objects.filter(mount=mount).order_by("-id").first()
    assert found is not None
    return found


def tree_now() -> TreeColumns:
    return load_tree(Policy.objects.get(slug="grid"))


def shares_of(path: str) -> float:
    tree = tree_now()
    at = tree.index_of_path(path)
    assert at is not None, path
    return float(tree.shares[at])


@pytest.mark.paper("4.5", "4.21")
def test_the_first_document_lands_below_the_mount(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert (shares_of("/vo-a-here"), shares_of("/vo-a-here/P-A1"), shares_of("/vo-a-here/P-A3")) == (30, 50, 20)
    assert (mount.version, mount.applied_version, mount.error) == (1, 1, "")
    revision = Revision.objects.order_by("-number")[0]
    assert revision.change_set.origin == "mount"
    assert all(part in revision.reason for part in ("1", "vo-a", "vo-a.example"))
    assert tree_now().mount[tree_now().index_of_path("/vo-a-here") or 0].issuer == "vo-a.example"


def test_an_unchanged_document_costs_one_conditional_request(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(mount, monkeypatch)
    head, n_asked = Policy.objects.get(slug="grid").head_number, len(side.asked)
    assert fetched(mount, monkeypatch, AT + HOUR).outcome == "same"
    assert len(side.asked) == n_asked + 1
    assert "if-none-match" in side.asked[-1]
    assert Fetch.objects.order_by("-id")[0].n_bytes == 0
    side.knows_etags = False
    assert fetched(mount, monkeypatch, AT + 2 * HOUR).outcome == "same"
    assert Policy.objects.get(slug="grid").head_number == head


@pytest.mark.paper("4.22")
def test_a_mount_is_fetched_again_after_its_interval(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(mount, monkeypatch)
    assert mount.due_at is not None
    interval = mount.due_at - AT
    assert 0.9 * mount.every_s <= interval.total_seconds() <= mount.every_s
    assert request_due_fetches(at=AT + 0.9 * interval) == 0
    assert request_due_fetches(at=AT + interval) == 1
    run = Run.objects.get(kind="federation_fetch", state="queued")
    assert run.arguments == {"mount": mount.pk}


@pytest.mark.paper("4.22")
def test_a_change_within_the_limits_is_applied_automatically(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(mount, monkeypatch)
    side.publish(projects(p1=52, p2=28))
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert shares_of("/vo-a-here/P-A2") == 28
    assert tree_now().index_of_uid(P1) == tree_now().index_of_path("/vo-a-here/P-A1")


@pytest.mark.paper("4.2")
def test_a_change_beyond_the_limits_is_held_for_review(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(mount, monkeypatch)
    side.publish(projects(p1=20, p2=60))
    found = fetched(mount, monkeypatch)
    assert found.outcome == "held"
    assert "30.0" in found.message, "points"
    assert shares_of("/vo-a-here/P-A1") == 50
    held = mount.held
    assert held is not None
    assert held.state == "proposed"
    assert fetched(mount, monkeypatch, AT + HOUR).outcome == "held"
    assert ChangeSet.objects.filter(origin="mount", state="proposed").count() == 1
    publish_change_set(id=held.pk, version=held.version, at=AT + HOUR, actor=COMMAND)
    assert shares_of("/vo-a-here/P-A1") == 20
    fetched(mount, monkeypatch, AT + 2 * HOUR)
    assert (mount.applied_version, mount.held) == (2, None)


def test_a_held_change_is_rebased_and_dropped_when_superseded(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(mount, monkeypatch)
    side.publish(projects(p1=20, p2=60))
    fetched(mount, monkeypatch)
    first = mount.held
    operation = {"op": "set_shares", "entry": "/VO-B", "shares": 71}
    publish_operations(policy_slug="grid", operations=[operation], reason="B.", at=AT, actor=COMMAND)
    fetched(mount, monkeypatch)
    assert first is not None
    assert mount.held is not None
    assert mount.held.pk != first.pk
    first.refresh_from_db()
    assert first.state == "withdrawn"
    side.publish(projects())
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert Mount.objects.get().held is None
    assert not ChangeSet.objects.filter(origin="mount", state="proposed").exists()


def test_a_change_of_many_entries_is_held(mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch) -> None:
    Mount.objects.update(most_entries=3)
    assert fetched(mount, monkeypatch).outcome == "held"
    assert tree_now().index_of_path("/vo-a-here/P-A1") is None


@pytest.mark.parametrize(
    ("code", "is_blocked"),
    [
        ("forked", True),
        ("older_version", False),
        ("unknown_key", True),
        ("bad_signature", False),
        ("expired", False),
        ("issued_ahead", False),
        ("other_publication", False),
        ("mount_loop", False),
        ("bad_document", False),
        ("foreign_uid", False),
        ("bad_status", False),
        ("answer_too_large", False),
    ],
)
def test_an_invalid_document_keeps_the_last_valid_version(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch, code: str, is_blocked: bool
) -> None:
    old = side.serves
    side.publish()
    fetched(mount, monkeypatch)
    at = AT
    if code == "older_version":
        side.serves = old
    elif code == "forked":
        side.publish(previous="ab" * 32)
    elif code == "unknown_key":
        side.key = SigningKey(bytes(32))
        side.publish()
    elif code == "bad_signature":
        side.serves = side.publish().replace(b"P-A2", b"P-X2")
    elif code == "expired":
        at = AT + timedelta(days=8)
    elif code == "issued_ahead":
        side.publish(issued_at=AT + HOUR)
    elif code == "other_publication":
        side.publish(publication="vo-z")
    elif code == "mount_loop":
        make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", at=AT, actor=COMMAND)
        side.publish(issuers=("site.example",))
    elif code == "bad_document":
        side.serves = b"<html>"
    elif code == "foreign_uid":
        stranger = tree_now()
        uid = stranger.uuid(stranger.index_of_path("/VO-B") or 0)
        side.publish([replace(projects()[0], uid=uid)])
    elif code == "bad_status":
        side.status, side.knows_etags = 500, False
    elif code == "answer_too_large":
        Mount.objects.update(most_bytes=500)
        side.knows_etags = False
    before, trusted = tree_now(), (mount.version, mount.digest, mount.fingerprint)
    found = fetched(mount, monkeypatch, at)
    assert (found.outcome, found.code) == ("unreachable" if code == "bad_status" else "refused", code)
    assert tree_now().same_as(before)
    assert (mount.version, mount.digest, mount.fingerprint) == trusted
    assert mount.error
    assert (mount.state == "blocked") is is_blocked
    assert mount.due_at is not None
    assert mount.due_at > at
    assert request_due_fetches(at=at + timedelta(days=30)) == (0 if is_blocked else 1)


def test_a_listed_site_that_publishes_nothing_blocks_no_document(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", at=AT, actor=COMMAND)
    side.publish(issuers=("liar.example", "site.example"))
    assert fetched(mount, monkeypatch).code == "mount_loop"
    drop_publication(name="vo-b", reason="Nobody reads it.", at=AT, actor=COMMAND)
    assert fetched(mount, monkeypatch).outcome == "applied"
    make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", at=AT, actor=COMMAND)
    side.publish(projects(p1=51), issuers=("liar.example", "site.example"))
    assert fetched(mount, monkeypatch).code == "mount_loop"


@pytest.mark.fault("F22")
def test_an_unreachable_peer_is_retried_with_backoff_up_to_five_minutes(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    fetched(mount, monkeypatch)
    Mount.objects.update(url="http://127.0.0.1:1/x", every_s=60)
    settings.FAIRSHARE_OUTBOUND_ALLOW = ["127.0.0.1:1"]
    waits = []
    for _ in range(4):
        assert fetched(mount, monkeypatch).outcome == "unreachable"
        assert mount.due_at is not None
        waits.append((mount.due_at - AT).total_seconds())
    for wait, most in zip(waits, [120, 240, 300, 300], strict=True):
        assert 0.95 * most <= wait <= most
    assert mount.good_at == AT
    assert shares_of("/vo-a-here/P-A1") == 50


def test_a_key_handover_is_followed_and_audited(mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(mount, monkeypatch)
    new = SigningKey(bytes(range(1, 33)))
    side.key, side.chain = new, [sign_successor(KEY, new.public)]
    side.publish()
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert mount.fingerprint == new.public.fingerprint
    assert AuditEvent.objects.filter(verb="federation.key_followed").count() == 1


def test_a_frozen_mount_is_fetched_but_not_applied_and_a_paused_one_not_fetched(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(mount, monkeypatch)
    Mount.objects.update(state="frozen")
    side.publish(projects(p1=51))
    assert fetched(mount, monkeypatch).outcome == "frozen"
    assert (mount.version, mount.applied_version, shares_of("/vo-a-here/P-A1")) == (2, 1, 50)
    Mount.objects.update(state="active")
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert shares_of("/vo-a-here/P-A1") == 51
    Mount.objects.update(state="paused", due_at=AT)
    assert request_due_fetches(at=AT + HOUR) == 0


@pytest.mark.fault("F23")
def test_the_chosen_action_applies_after_the_maximum_age(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(mount, monkeypatch)
    request_due_fetches(at=AT + timedelta(days=2))
    assert Mount.objects.get().state == "active"
    Mount.objects.update(stale_action="freeze")
    request_due_fetches(at=AT + timedelta(hours=23))
    assert Mount.objects.get().state == "active"
    request_due_fetches(at=AT + timedelta(days=2))
    assert Mount.objects.get().state == "frozen"
    assert AuditEvent.objects.filter(verb="federation.frozen").count() == 1


def test_an_entry_archived_at_the_peer_is_restored_with_its_uid(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mount.objects.update(most_points=100)
    fetched(mount, monkeypatch)
    side.publish([node for node in projects() if node.uid != P3])
    fetched(mount, monkeypatch)
    assert tree_now().index_of_uid(P3) is None
    side.publish()
    assert fetched(mount, monkeypatch).outcome == "applied"
    assert tree_now().index_of_uid(P3) is not None


def test_a_uid_used_elsewhere_in_this_policy_is_rejected(
    mount: Mount, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_now()
    uid = tree.uuid(tree.index_of_path("/VO-A/P-A2") or 0)
    operation = {"op": "archive", "entry": "/VO-A"}
    publish_operations(policy_slug="grid", operations=[operation], reason="Over.", at=AT, actor=COMMAND)
    side.publish([replace(projects()[1], uid=uid)])
    assert fetched(mount, monkeypatch).code == "foreign_uid"


@pytest.mark.paper("4.2")
def test_unmounting_keeps_the_entries_as_local(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(mount, monkeypatch)
    unmount(mount_id=mount.pk, reason="They left.", at=AT, actor=COMMAND)
    assert not Mount.objects.exists()
    operation = {"op": "set_shares", "entry": "/vo-a-here/P-A1", "shares": 1}
    publish_operations(policy_slug="grid", operations=[operation], reason="Ours.", at=AT, actor=COMMAND)
    assert shares_of("/vo-a-here/P-A1") == 1


def test_only_holders_of_the_mount_right_above_see_and_create_mounts(
    mount: Mount, policy: Policy, side: OtherSide
) -> None:
    anna = Actor(user=User.objects.create_user(username="anna"), via="page")
    assert list_mounts(actor=anna, at=AT) == []
    with pytest.raises(NotFound):
        get_mount(mount_id=mount.pk, actor=anna, at=AT)
    with pytest.raises(NotFound):
        preview(url=side.url, policy_slug="grid", at=AT, actor=anna)
    with pytest.raises((NotAllowed, NotFound)):
        unmount(mount_id=mount.pk, reason="x", at=AT, actor=anna)
    root = tree_now().uuid(0)
    make_grant(anna.user, root, policy=policy, verbs=["mount", "publish"])
    assert [one.pk for one in list_mounts(actor=anna, at=AT)] == [mount.pk]
    with refused(Conflict, "mounted"):
        mount_side(side, "/VO-B", actor=anna)
    fingerprint = " ".join(KEY.public.groups).upper()
    made = mount_side(side, "/VO-B", issuer="vo-b.example", publication="vo-b", fingerprint=fingerprint, actor=anna)
    assert made.fingerprint == KEY.public.fingerprint


def test_a_preview_shows_the_key_and_stores_nothing(policy: Policy, side: OtherSide) -> None:
    found = preview(url=side.url, policy_slug="grid", at=AT, actor=COMMAND)
    assert (found.key, found.n_entries, found.n_levels) == (KEY.public, 5, 2)
    assert found.document.head.issuer == "vo-a.example"
    side.serves = b"<html>"
    with pytest.raises(BadDocument):
        preview(url=side.url, policy_slug="grid", at=AT, actor=COMMAND)
    assert not Mount.objects.exists()


def test_the_command_fetches_now_and_prints_the_result(
    mount: Mount,
    side: OtherSide,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    call_command("federation", "fetch")
    call_command("federation", "status")
    row = re.compile(rf"^(mount )?{mount.pk} ", flags=re.MULTILINE)
    assert row.sub(r"\1N ", capsys.readouterr().out) == snapshot
    side.serves = b"<html>"
    with pytest.raises(CommandError) as failure:
        call_command("federation", "fetch", "--mount", str(mount.pk))
    done = row.sub(r"\1N ", capsys.readouterr().out)
    assert (done, str(failure.value)) == snapshot
    assert Fetch.objects.latest("pk").outcome == "refused"
    n_looks = Fetch.objects.count()
    with pytest.raises(CommandError):
        call_command("federation", "fetch", "--mount", "0")
    assert Fetch.objects.count() == n_looks


@pytest.mark.parametrize(
    "settings",
    [
        {"every_s": 1},
        {"every_s": "300"},
        {"most_points": float("nan")},
        {"most_entries": 1.5},
        {"speed": 1},
        {"stale_action": "panic"},
        {"most_levels": True},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        clean_settings(settings)


@pytest.mark.parametrize(("status", "hints"), [(404, True), (403, True), (500, False)])
def test_a_missing_document_error_suggests_that_a_token_is_needed(status: int, hints: bool) -> None:
    assert ("token" in no_document(status)) == hints
    assert str(status) in no_document(status)
