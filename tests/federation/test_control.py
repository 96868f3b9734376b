"""Actions on mounts and subscriptions: each takes effect at the next fetch, and is logged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, DomainError, Invalid, NotFound
from apps.core.signing import SigningKey
from apps.federation import control
from apps.federation.fetch_requests import Kind
from apps.federation.fetch_schedule import request_due_fetches, request_fetch
from apps.federation.models import Mount, Subscription
from apps.pages.audit import text as audit_text
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.federation.fetches import counted, look_at
from tests.federation.other_side import P1, OtherFeed, OtherSide, projects
from tests.instants import AT
from tests.refusals import refused

HOUR = timedelta(hours=1)
H10, H11 = AT - 2 * HOUR, AT - HOUR
LATER = AT + timedelta(minutes=5)
NEW = SigningKey(bytes(range(1, 33)))
KINDS: list[Kind] = ["mount", "subscription"]


def do(deed: Callable[..., Any], remote: Mount | Subscription, **given: Any) -> Any:
    kind = "mount" if isinstance(remote, Mount) else "subscription"
    done = deed(kind=kind, remote_id=remote.pk, **{"reason": "Because.", "at": AT, "actor": COMMAND, **given})
    remote.refresh_from_db()
    return done


def remote_of(kind: Kind) -> Mount | Subscription:
    return Mount.objects.get() if kind == "mount" else Subscription.objects.get()


def last_event(verb: str) -> AuditEvent:
    event = AuditEvent.objects.filter(verb=f"federation.{verb}").order_by("-id").first()
    assert event is not None
    assert "X" in audit_text.sentence_of(event, what="X")
    return event


def shares_of(path: str) -> float:
    tree = load_tree(Policy.objects.get())
    at = tree.index_of_path(path)
    assert at is not None
    return float(tree.shares[at])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("subscription")
def test_a_paused_peer_is_not_fetched_until_resumed(kind: Kind) -> None:
    remote = remote_of(kind)
    do(control.pause, remote)
    assert remote.state == "paused"
    assert last_event("paused").reason == "Because."
    assert request_due_fetches(at=AT + HOUR) == 1
    run = work_run_now(request_fetch(remote, at=AT).pk)
    assert (run.state, run.error_code) == ("failed", "paused")
    with refused(Conflict, "paused"):
        do(control.fetch_now, remote)
    do(control.pause, remote)
    assert AuditEvent.objects.filter(verb="federation.paused").count() == 1
    do(control.resume, remote, at=LATER)
    assert (remote.state, remote.due_at) == ("active", LATER)
    assert last_event("resumed").details == {"from": "paused"}


@pytest.mark.usefixtures("subscription")
def test_frozen_mounts_are_fetched_and_applied_when_unfrozen(
    mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(control.freeze, mounted)
    vo.publish(projects(p1=51))
    assert look_at(mounted, monkeypatch, LATER).outcome == "frozen"
    assert shares_of("/vo-a-here/P-A1") == 50
    with refused(Conflict, "frozen"):
        do(control.resume, mounted)
    do(control.unfreeze, mounted, at=LATER)
    assert mounted.due_at == LATER
    assert look_at(mounted, monkeypatch, LATER).outcome == "applied"
    assert shares_of("/vo-a-here/P-A1") == 51
    assert last_event("unfrozen").details == {"from": "frozen"}


def test_frozen_feeds_are_fetched_and_ingested_when_unfrozen(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(control.freeze, subscription)
    feed.use({H11: {P1: 60}})
    assert look_at(subscription, monkeypatch, AT).outcome == "frozen"
    assert counted(subscription) == {}
    do(control.unfreeze, subscription)
    look_at(subscription, monkeypatch, AT)
    assert counted(subscription) == {(P1, H11): 60}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("subscription")
def test_a_requested_fetch_joins_a_pending_one(kind: Kind) -> None:
    remote = remote_of(kind)
    first, second = do(control.fetch_now, remote), do(control.fetch_now, remote)
    assert first.pk == second.pk
    assert Run.objects.filter(kind="federation_fetch", state="queued").count() == 1
    assert last_event("fetch_asked").details == {"run": first.pk}


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_key_blocks_until_it_is_compared_and_trusted(
    kind: Kind, subscription: Subscription, feed: OtherFeed, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = remote_of(kind)
    before = remote.fingerprint
    vo.key = feed.key = NEW
    vo.publish(projects(p1=51))
    feed.tell({H11: {P1: 60}})
    assert look_at(remote, monkeypatch, LATER).code == "unknown_key"
    assert remote.state == "blocked"
    with refused(Conflict, "blocked"):
        do(control.fetch_now, remote)
    with refused(Conflict, "same_key"):
        do(control.trust_key, remote, fingerprint=before)
    with refused(Invalid, field="fingerprint"):
        do(control.trust_key, remote, fingerprint="abc")
    with refused(Invalid, field="reason"):
        do(control.trust_key, remote, fingerprint=NEW.public.fingerprint, reason=" ")
    do(control.trust_key, remote, fingerprint=" ".join(NEW.public.groups), at=LATER)
    assert (remote.state, remote.fingerprint, remote.due_at) == ("active", NEW.public.fingerprint, LATER)
    assert last_event("key_trusted").details == {"from": before, "to": NEW.public.fingerprint}
    assert look_at(remote, monkeypatch, LATER).outcome == "applied"


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_without_a_change_blocks_again(
    kind: Kind, subscription: Subscription, feed: OtherFeed, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = remote_of(kind)
    vo.key = feed.key = NEW
    vo.publish()
    feed.tell({H11: {P1: 60}})
    look_at(remote, monkeypatch, LATER)
    do(control.resume, remote)
    assert look_at(remote, monkeypatch, LATER).code == "unknown_key"
    assert remote.state == "blocked"


def test_a_forked_history_is_reset_on_request(mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch) -> None:
    vo.publish(projects(p1=52), previous="ab" * 32)
    assert look_at(mounted, monkeypatch, LATER).code == "forked"
    with refused(Invalid, field="reason"):
        do(control.reset_history, mounted, reason="")
    do(control.reset_history, mounted, at=LATER)
    assert (mounted.state, mounted.version) == ("active", 0)
    assert last_event("begun_anew").details["version"] == 1
    assert shares_of("/vo-a-here/P-A1") == 50
    assert look_at(mounted, monkeypatch, LATER).outcome == "applied"
    assert (mounted.version, mounted.applied_version, shares_of("/vo-a-here/P-A1")) == (2, 2, 52)


def test_a_reset_history_with_an_older_version_respects_the_limits(
    mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    for p1 in (51, 52):
        vo.publish(projects(p1=p1))
        look_at(mounted, monkeypatch, LATER)
    vo.head, vo.digest = None, None
    vo.publish(projects(p1=10, p2=70))
    assert look_at(mounted, monkeypatch, LATER).code == "older_version"
    do(control.reset_history, mounted)
    assert look_at(mounted, monkeypatch, LATER).outcome == "held"
    assert shares_of("/vo-a-here/P-A1") == 52


@pytest.mark.fault("F27")
def test_a_site_restored_from_a_backup_resets_its_history(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        feed.tell({H10: {P1: 60 + n}})
        look_at(subscription, monkeypatch, AT)
    feed.tell({H10: {P1: 30}, H11: {P1: 60}}, number=1)
    assert look_at(subscription, monkeypatch, LATER).code == "older_version"
    assert counted(subscription) == {(P1, H10): 62}
    do(control.reset_history, subscription)
    assert look_at(subscription, monkeypatch, LATER).outcome == "applied"
    assert counted(subscription) == {(P1, H10): 30, (P1, H11): 60}
    assert subscription.number == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("subscription")
def test_settings_change_within_their_ranges_and_are_audited(kind: Kind) -> None:
    remote = remote_of(kind)
    do(control.change_settings, remote, settings={"every_s": 60, "stale_action": "local"}, at=LATER)
    assert (remote.every_s, remote.stale_action, remote.due_at) == (60, "local", LATER)
    details = last_event("settings_changed").details
    assert details == {
        "before": {"every_s": 300, "stale_action": "keep"},
        "after": {"every_s": 60, "stale_action": "local"},
    }
    do(control.change_settings, remote, settings={"every_s": 60})
    assert AuditEvent.objects.filter(verb="federation.settings_changed").count() == 1
    for wrong in ({"every_s": 1}, {"max_age_s": "long"}, {"most_bytes": 10**12}, {"state": "active"}):
        with pytest.raises(Invalid):
            do(control.change_settings, remote, settings=wrong)
    assert remote_of(kind).every_s == 60


@pytest.mark.usefixtures("subscription")
def test_mount_limits_do_not_apply_to_subscriptions() -> None:
    do(control.change_settings, remote_of("mount"), settings={"most_points": 1.5})
    assert Mount.objects.get().most_points == 1.5
    with refused(Invalid, field="most_points"):
        do(control.change_settings, remote_of("subscription"), settings={"most_points": 1.5})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("subscription")
def test_a_token_is_replaced_and_removed_without_being_disclosed(kind: Kind) -> None:
    remote = remote_of(kind)
    do(control.change_settings, remote, settings={}, token="fsw_their-token")
    assert remote.sealed_token
    assert last_event("settings_changed").details["token"] == "replaced"
    do(control.change_settings, remote, settings={}, token="")
    assert remote.sealed_token == ""
    assert last_event("settings_changed").details["token"] == "removed"


@pytest.mark.parametrize("cores", [0, -1, float("inf"), float("nan"), True, "many"])
def test_approved_capacity_is_a_number_of_cores(subscription: Subscription, cores: Any) -> None:
    with pytest.raises(Invalid):
        control.agree_capacity(subscription=subscription.pk, cores=cores, reason="r", at=AT, actor=COMMAND)
    assert Subscription.objects.get().capacity_cores == 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("subscription")
def test_other_users_see_and_change_nothing(kind: Kind) -> None:
    remote, anna = remote_of(kind), Actor(user=User.objects.create_user(username="anna"), via="page")
    before = type(remote).objects.values().get()
    more: dict[Any, dict[str, Any]] = {
        control.pause: {},
        control.resume: {},
        control.freeze: {},
        control.unfreeze: {},
        control.fetch_now: {},
        control.reset_history: {},
        control.change_settings: {"settings": {"every_s": 60}},
        control.trust_key: {"fingerprint": NEW.public.fingerprint},
    }
    for deed, given in more.items():
        with pytest.raises(NotFound):
            do(deed, remote, actor=anna, **given)
    with pytest.raises(DomainError):
        control.agree_capacity(subscription=remote.pk, cores=5, reason="r", at=AT, actor=anna)
    assert type(remote).objects.values().get() == before
    assert not Run.objects.filter(kind="federation_fetch", state="queued").exists()
