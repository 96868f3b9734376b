"""A change that is refused leaves a row in the audit log, however deep in other transactions it was refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.audit_log import log_refusals
from apps.accounts.models import AuditEvent
from apps.core.errors import NotAllowed
from apps.core.postgresql import after_transaction
from apps.policies import services
from apps.policies.models import Grant, Policy
from apps.policies.operations.apply import KINDS
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.columns import TreeColumns
from tests.instants import AT
from tests.policies.published import GRID

OPERATIONS: dict[str, dict[str, Any]] = {
    "set_shares": {"entry": "/physics", "shares": 7},
    "add": {"parent": "/physics", "name": "new"},
    "rename": {"entry": "/physics", "name": "physik"},
    "move": {"entry": "/biology/lab", "parent": "/physics"},
    "archive": {"entry": "/physics"},
    "restore": {"entry": "", "parent": "/physics"},
    "set_scope": {"entry": "/physics", "scope": "local"},
    "lock": {"entry": "/physics", "locked": True},
    "set_kind": {"entry": "/physics", "kind": "project"},
    "set_dates": {"entry": "/physics", "dates": {"ends_on": "2027-01-01"}},
    "set_members": {"entry": "/physics", "members": {"group": "physicists"}},
    "mount": {"entry": "/biology/lab", "mount": {"issuer": "vo", "publication": "policy"}},
    "adjust_usage": {"entry": "/physics", "resource": "cpu_s", "amount_s": -3600, "at": AT.isoformat()},
    "allocate": {"entry": "/physics", "amount": 5, "starts_on": "2026-01-01", "ends_on": "2026-12-31"},
    "set_policy": {"settings": {"algorithm": {"name": "flux"}}},
}


@pytest.fixture
def vera(charlie: Actor, policy: Policy, tree: TreeColumns) -> Actor:
    """She sees all and changes nothing."""
    grant = {"policy": policy, "entry_uid": tree.uuid(0), "user": charlie.user, "role": Grant.Role.VIEWER}
    Grant.objects.create(**grant, verbs=["view"], created_at=AT)
    return charlie


def _archived(policy: Policy, tree: TreeColumns) -> str:
    operation = {"op": "archive", "entry": "/biology/lab"}
    publish_operations(policy_slug=policy.slug, operations=[operation], reason="r", at=AT, actor=COMMAND)
    at = tree.index_of_path("/biology/lab")
    assert at is not None
    return str(tree.uuid(at))


def refused() -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.filter(outcome="refused").order_by("id")
    return [(row.actor_name, row.verb, row.policy_slug) for row in rows]


def test_each_operation_of_the_registry_has_an_example() -> None:
    assert set(OPERATIONS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_directly_published_operation_records_its_refusal(
    policy: Policy, tree: TreeColumns, vera: Actor, kind: str
) -> None:
    operation = {"op": kind, **OPERATIONS[kind]}
    if kind == "restore":
        operation["entry"] = _archived(policy, tree)
    with pytest.raises(NotAllowed), transaction.atomic():
        publish_operations(policy_slug=policy.slug, operations=[operation], reason="r", at=AT, actor=vera)
    assert refused() == [("charlie", "policy.published", policy.slug)]


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("policy.published", lambda **who: services.make_policy(slug="grid", name="Grid", **who)),
        (
            "policy.published",
            lambda **who: services.publish_document(policy_slug="grid", document=GRID, reason="r", **who),
        ),
        (
            "policy.published",
            lambda **who: services.change_settings(
                policy_slug="grid", settings={"algorithm": {"name": "flux"}}, reason="r", **who
            ),
        ),
    ],
)
def test_a_service_without_the_right_records_its_refusal(
    policy: Policy, vera: Actor, verb: str, change: Callable[..., object]
) -> None:
    with pytest.raises(NotAllowed):
        change(at=AT, actor=vera)
    assert refused() == [("charlie", verb, "grid")]


@pytest.mark.django_db(transaction=True)
def test_the_refusal_row_survives_the_rollback_and_is_written_once(charlie: Actor) -> None:
    def want() -> None:
        with (
            transaction.atomic(),
            log_refusals("policy.published", charlie, AT, policy_slug="outer"),
            transaction.atomic(),
            log_refusals("grant.given", charlie, AT, policy_slug="inner"),
        ):
            raise NotAllowed("No.")

    with pytest.raises(NotAllowed):
        want()
    assert refused() == [("charlie", "policy.published", "outer")]
    with transaction.atomic():  # a caller that catches it may continue and commit
        with pytest.raises(NotAllowed):
            want()
        assert len(refused()) == 1
    assert len(refused()) == 2


@pytest.mark.django_db(transaction=True)
def test_a_failing_refusal_record_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    called: list[str] = []
    with transaction.atomic():
        after_transaction(lambda: 1 / 0)
        after_transaction(lambda: called.append("second"))
        assert called == []
    assert called == ["second"]
    assert "ZeroDivisionError" in caplog.text
