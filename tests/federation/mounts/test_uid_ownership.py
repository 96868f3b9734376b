"""Whose an entry was, by where it was when it was last in the tree."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from apps.accounts.actor import COMMAND
from apps.federation.mounts.uid_ownership import owned_elsewhere
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from tests.instants import AT


def uid_of(policy: Policy, path: str) -> UUID:
    tree = load_tree(Policy.objects.get(pk=policy.pk))
    at = tree.index_of_path(path)
    assert at is not None, path
    return tree.uuid(at)


def test_only_former_entries_of_the_mount_belong_to_it(policy: Policy) -> None:
    vo, anna = uid_of(policy, "/VO-A"), uid_of(policy, "/VO-A/P-A1/anna")
    project, stranger, unknown = uid_of(policy, "/VO-A/P-A1"), uid_of(policy, "/VO-B"), UUID(int=123)
    operations = [{"op": "archive", "entry": "/VO-A/P-A1"}, {"op": "archive", "entry": "/VO-B"}]
    publish_operations(policy_slug="grid", operations=operations, reason="Gone.", at=AT, actor=COMMAND)
    gone = [anna, project, stranger, unknown]
    assert owned_elsewhere(policy, vo, gone) == {stranger}
    assert owned_elsewhere(policy, UUID(int=9), gone) == {anna, project, stranger}
    assert owned_elsewhere(policy, vo, []) == set()


def test_a_hundred_thousand_unknown_uids_are_queried_at_once(policy: Policy, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert owned_elsewhere(policy, UUID(int=1), [UUID(int=n) for n in range(100_000)]) == set()
