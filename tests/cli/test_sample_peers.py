"""The two authorities that the sample follows: real documents, the same at every call, renewed for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.cli.sample import peers
from apps.cli.sample.grid import MOUNTED, Grid, work_at
from apps.core.signing import BadDocument, open_document
from apps.federation import own_publishers
from apps.federation.conditions import Condition
from apps.federation.documents.wire import PolicyLimits, read_policy
from apps.federation.documents.wire_usage import UsageDocument, read_usage
from apps.federation.fetch_schedule import KIND, request_due_fetches
from apps.federation.grid.peers import list_peers
from apps.federation.models import Fetch, Mount, Subscription
from apps.federation.publishing import own_name
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.usage.models import Bucket
from tests.instants import AT

BEGINS = peers.begins_at(AT)


def answered(url: str, at: datetime) -> bytes:
    answer = own_publishers.local_answer(url, at=at)
    assert answer is not None
    assert answer.status == 200
    return answer.body


def usage_since(number: int, at: datetime) -> UsageDocument:
    key = peers.key_of(peers.SITE_ISSUER).public.fingerprint
    return read_usage(open_document(answered(f"{peers.usage_url(BEGINS)}?since={number}", at), trusted={key}).document)


def test_sample_documents_are_signed_and_deterministic() -> None:
    for url, issuer in ((peers.policy_url(BEGINS), peers.VO_ISSUER), (peers.usage_url(BEGINS), peers.SITE_ISSUER)):
        data = answered(url, AT)
        assert answered(url, AT) == data
        assert open_document(data, trusted={peers.key_of(issuer).public.fingerprint}).document["issuer"] == issuer
        with pytest.raises(BadDocument):
            open_document(data, trusted={peers.key_of("another.example").public.fingerprint})


def test_the_sample_policy_has_grid_members_and_linked_versions() -> None:
    key = peers.key_of(peers.VO_ISSUER).public.fingerprint
    digest = None
    for day in range(0, 100, 3):
        opened = open_document(answered(peers.policy_url(BEGINS), BEGINS + timedelta(days=day)), trusted={key})
        document = read_policy(opened.document, PolicyLimits())
        assert document.head.previous == digest
        assert document.head.expires_at > BEGINS + timedelta(days=day + 3), "renewed before it expires"
        digest = opened.digest
    assert {name for name in document.tree.name[1:]} >= {one.user for one in Grid().members if one.vo == MOUNTED}


def test_later_hours_change_no_earlier_one() -> None:
    before, whole = usage_since(0, AT), usage_since(0, AT + timedelta(days=2))
    added = usage_since(before.head.number, AT + timedelta(days=2))
    assert added.head.number == whole.head.number == before.head.number + 48
    assert np.array_equal(np.concatenate([before.hours, added.hours]), whole.hours)
    assert np.array_equal(np.concatenate([before.amounts, added.amounts]), whole.amounts)
    cores = np.bincount(whole.row_hour - whole.hours[0], weights=whole.amounts[:, 0]) / 3600
    assert 0 < cores.max() <= peers.SITE_CORES, "never more than the site has"


def test_only_reserved_host_names_are_answered() -> None:
    assert own_publishers.local_answer("https://vo.example.org/neutrinos.fairshare", at=AT) is None
    assert own_publishers.local_answer("https://[::1", at=AT) is None
    with pytest.raises(ValueError, match="example"):
        own_publishers.register("example.org", lambda _url, _at: b"")
    wrong = own_publishers.local_answer(f"https://{peers.VO_ISSUER}/other", at=AT)
    assert wrong is not None
    assert (wrong.status, wrong.body) == (404, b"")


@pytest.mark.django_db
def test_an_installation_without_an_issuer_name_gets_that_of_the_sample(sample_grid: None) -> None:
    assert own_name() == peers.OWN_NAME


@pytest.mark.django_db
def test_sample_mounts_and_subscriptions_are_active(sample_grid: None) -> None:
    mount, row = Mount.objects.get(), Subscription.objects.select_related("source").get()
    tree = load_tree(Policy.objects.get())
    at = tree.index_of_uid(mount.entry_uid)
    assert at is not None
    below = {tree.uuid(int(i)) for i in np.flatnonzero(tree.subtree_mask(at))}
    assert mount.applied_version == mount.version > 1
    assert {peers.uid_of(f"{MOUNTED}/simulation")} < below
    used = Bucket.objects.filter(source=row.source)
    assert used.exists()
    assert {name for name in used.values_list("account__user_name", flat=True)} <= {str(uid) for uid in below}


@pytest.mark.django_db
@pytest.mark.parametrize("days", [1, 45])
def test_sample_peers_stay_fresh_without_a_network(
    sample_grid: None, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents are renewed; nothing fails, nothing waits, and each is fresh."""
    later = AT + timedelta(days=days)
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    assert request_due_fetches(at=later) == 2
    while run := Run.objects.filter(kind=KIND, state=Run.State.QUEUED).first():  # one may take the next along
        work_at(run.pk, later)
    assert {look.code for look in Fetch.objects.all()} == {""}
    assert set(Fetch.objects.filter(at=later).values_list("outcome", flat=True)) <= {"same", "applied"}
    assert {peer.condition for peer in list_peers(at=later, actor=COMMAND)} == {Condition.FRESH}


def test_instants_in_addresses_are_parsed() -> None:
    assert peers.policy_url(datetime(2026, 8, 20, 12, tzinfo=UTC)).endswith("/2026-08-20T12:00:00Z/neutrinos.fairshare")
