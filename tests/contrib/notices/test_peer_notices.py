"""A peer's failure opens a notice for its managers, which says what to do, and closes automatically."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.cli.federation_status import status_lines
from apps.contrib.notices import selectors
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.pages import presenters as notice_lines
from apps.contrib.notices.sentences import stale_peer
from apps.core.signing import SigningKey
from apps.federation import control
from apps.federation.models import Mount, Subscription
from apps.policies.models import Policy
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree
from tests.federation.fetches import look_at
from tests.federation.other_side import P1, OtherFeed, OtherSide, projects
from tests.grants import make_grant
from tests.instants import AT

H11 = AT - timedelta(hours=1)
DAY_LATER = AT + timedelta(days=1, hours=2)


@pytest.fixture
def pia(policy: Policy) -> Actor:
    """A manager who may mount anywhere in the policy."""
    person = User.objects.create_user(username="pia")
    root = load_tree(policy).uuid(0)
    make_grant(person, root, policy=policy, verbs=["mount"])
    return Actor(user=person, via="page")


def open_texts(actor: Actor, kind: str, at: object = AT) -> list[str]:
    evaluate(at=at)  # type: ignore[arg-type]
    lines = selectors.list_open_notices(actor, at)  # type: ignore[arg-type]
    return sorted(line.sentence.text for line in lines if line.kind.name == kind)


@pytest.mark.parametrize(
    ("action", "done"),
    [
        pytest.param("keep", "Its last data stays active.", marks=pytest.mark.deep),
        pytest.param("freeze", "It is frozen until you unfreeze it.", marks=pytest.mark.deep),
        ("local", "Until contact returns, only local usage counts there."),
    ],
)
def test_an_unreachable_peer_opens_a_notice_with_its_action(
    subscription: Subscription, mounted: Mount, pia: Actor, action: str, done: str
) -> None:
    Subscription.objects.update(stale_action=action)
    Mount.objects.update(good_at=DAY_LATER)
    assert open_texts(pia, "stale_peer") == []
    assert open_texts(pia, "stale_peer", DAY_LATER) == [
        f"site-b.example, vo-a has been unreachable for 26 hours. {done}"
    ]
    line = next(one for one in selectors.list_open_notices(pia, DAY_LATER) if one.kind.name == "stale_peer")
    assert line.notice.level == ("warn" if action == "keep" else "bad")
    Subscription.objects.update(good_at=DAY_LATER)
    assert open_texts(pia, "stale_peer", DAY_LATER) == []


@pytest.mark.parametrize("what", ["mount", "subscription"])
def test_a_blocked_peer_has_a_notice_until_its_key_is_trusted(
    subscription: Subscription,
    mounted: Mount,
    vo: OtherSide,
    feed: OtherFeed,
    pia: Actor,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote: Mount | Subscription = mounted if what == "mount" else subscription
    vo.key = feed.key = SigningKey(bytes(32))
    vo.publish()
    feed.tell({H11: {P1: 60}})
    look_at(remote, monkeypatch, AT)
    text = f"{remote} signs with an untrusted key: it isn’t fetched until an administrator decides."
    assert open_texts(pia, "stale_peer") == [text]
    line = next(one for one in selectors.list_open_notices(pia, AT) if one.kind.name == "stale_peer")
    if what == "mount":
        assert notice_lines.url_of(line) == f"/federation/mounts/{remote.pk}/"
    fingerprint = SigningKey(bytes(32)).public.fingerprint
    control.trust_key(
        kind="mount" if what == "mount" else "subscription",
        remote_id=remote.pk,
        fingerprint=fingerprint,
        reason="Compared on the phone.",
        at=AT,
        actor=COMMAND,
    )
    assert open_texts(pia, "stale_peer") == []


def test_a_rejected_document_is_logged_once_and_named_until_a_valid_one_arrives(
    mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = load_tree(mounted.policy).digest
    vo.publish([*projects(), Node(UUID(int=0x900), P1, "an\u200bna", "user", is_group=False)])
    for _ in range(2):
        assert look_at(mounted, monkeypatch, AT).code == "bad_name"
    named = "/P-A1/an[U+200B]na has a name that contains U+200B, which is invisible; leave it out. "
    assert mounted.error.startswith(named)
    assert load_tree(Policy.objects.get()).digest == before, "the last good one stays"
    assert named in "".join(status_lines([mounted], [], AT))
    logged = [record.getMessage() for record in caplog.records if record.name == "apps.federation.fetch_requests"]
    assert len(logged) == 1, "the same refusal is logged once"
    assert named in logged[0]
    vo.publish()
    look_at(mounted, monkeypatch, AT)
    assert mounted.error == ""


@pytest.mark.usefixtures("subscription")
def test_other_users_get_no_notice(pia: Actor) -> None:
    nobody = Actor(user=User.objects.create_user(username="nobody"), via="page")
    Mount.objects.update(good_at=DAY_LATER)
    for state in ("active", "blocked"):
        Subscription.objects.update(state=state)
        assert len(open_texts(pia, "stale_peer", DAY_LATER)) == 1
        assert open_texts(nobody, "stale_peer", DAY_LATER) == []


def test_a_forked_history_and_an_unknown_key_have_different_notices() -> None:
    what = "vo-a.example, vo-a"
    texts = [stale_peer({"what": what, "blocked_for": code}).text for code in ("forked", "unknown_key", "")]
    assert all(what in text for text in texts)
    assert len(set(texts)) == 3
