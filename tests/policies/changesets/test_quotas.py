"""What one person keeps open is bounded, whoever it is; each refusal names the limit and the remedy."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.core.errors import Conflict
from apps.policies.changesets import drafts, quotas
from apps.policies.models import ChangeSet
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.services import (
    make_change_set,
    propose_change_set,
    publish_change_set,
    update_change_set,
    withdraw_change_set,
)
from tests.instants import AT
from tests.small_site import Site

_NUMBERS = count()


@pytest.fixture
def site(small_site: Site) -> Site:
    return small_site


def _draft(site: Site, actor: Actor, n: int = 1) -> ChangeSet:
    operations: list[dict[str, Any]] = [
        {"op": "add", "parent": "/physics", "name": f"x{next(_NUMBERS)}", "kind": "user"} for _ in range(n)
    ]
    new = NewChangeSet(operations=operations, reason="more people")
    return make_change_set(policy_slug="grid", new=new, at=AT, actor=actor)


def _refusal(code: str, limit: int) -> Any:
    return pytest.raises(Conflict, match=rf"\b{limit:,}\b.*withdraw")


@pytest.mark.parametrize("name", ["pia", "admin"])
def test_drafts_of_one_person_are_limited(site: Site, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_DRAFTS", 3)
    actor = Actor(user=getattr(site, name), via="api")
    made = [_draft(site, actor) for _ in range(3)]
    with _refusal("too_many_drafts", 3) as refused:
        _draft(site, actor)
    assert refused.value.code == "too_many_drafts"
    with pytest.raises(Conflict):
        drafts.open_draft(policy_slug="grid", at=AT, actor=actor)
    withdraw_change_set(id=made[0].pk, version=1, at=AT, actor=actor)
    _draft(site, actor)
    publish_change_set(id=made[1].pk, version=1, at=AT, actor=actor)
    _draft(site, actor)


def test_operations_of_one_person_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_OPEN_OPERATIONS", 10)
    actor = Actor(user=site.pia, via="api")
    first = _draft(site, actor, 6)
    with _refusal("too_many_operations", 10) as refused:
        _draft(site, actor, 5)
    assert refused.value.code == "too_many_operations"
    second = _draft(site, actor, 4)
    more = [{"op": "add", "parent": "/physics", "name": "y", "kind": "user"}]
    with pytest.raises(Conflict):
        drafts.add_operations(id=second.pk, version=1, operations=more, at=AT, actor=actor)
    edit = ChangeSetEdit(operations=[*second.operations, *more])
    with pytest.raises(Conflict):
        update_change_set(id=second.pk, version=1, edit=edit, at=AT, actor=actor)
    fewer = ChangeSetEdit(operations=first.operations[:3])
    update_change_set(id=first.pk, version=1, edit=fewer, at=AT, actor=actor)
    drafts.add_operations(id=second.pk, version=1, operations=more, at=AT, actor=actor)


def test_proposals_of_one_person_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_PROPOSALS", 2)
    actor = Actor(user=site.pia, via="api")
    made = [_draft(site, actor) for _ in range(3)]
    for one in made[:2]:
        propose_change_set(id=one.pk, version=1, at=AT, actor=actor)
    with _refusal("too_many_proposals", 2) as refused:
        propose_change_set(id=made[2].pk, version=1, at=AT, actor=actor)
    assert refused.value.code == "too_many_proposals"
    propose_change_set(id=made[0].pk, version=2, at=AT, actor=actor)  # again, with another reason
    withdraw_change_set(id=made[1].pk, version=2, at=AT, actor=actor)
    propose_change_set(id=made[2].pk, version=1, at=AT, actor=actor)


def test_the_system_itself_is_not_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_DRAFTS", 0)
    assert _draft(site, SYSTEM).pk


def test_the_documented_limits_are_the_enforced_ones() -> None:
    with open("docs/limits.md", encoding="utf-8") as file:
        rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", file.read(), re.MULTILINE))
    assert rows["open drafts of one person"] == f"{quotas.MOST_DRAFTS:,}"
    assert rows["proposals of one person that wait for a decision"] == f"{quotas.MOST_PROPOSALS:,}"
    assert rows["operations in all open change sets of one person"] == f"{quotas.MOST_OPEN_OPERATIONS:,}"
