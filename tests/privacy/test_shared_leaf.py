"""A leaf at which several accounts count: whoever has one of them reads no name of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Account, Token, User
from apps.accounts.services import NewToken, make_token
from apps.policies.models import Grant
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from tests.grants import make_grant
from tests.priority_site import AS_OF, Site, _clock, make_site  # noqa: F401 - fixtures
from tests.worlds import forget_process

OTHERS = ("zzbob", "zzcarol", "zzdan")
TREE = [
    {"name": "lattice", "kind": "project", "shares": 1},
    {"name": "ocean", "kind": "project", "shares": 1},
]
PATHS = [
    "policies/grid/priorities/all",
    "policies/grid/priorities/all?format=csv",
    "search?q=zz",
    "policies/grid/priorities/all?since={since}",
    *(f"policies/grid/{what}account={name}" for name in OTHERS for what in ("priorities?", "explain?", "forecast?")),
    "policies/grid/charges?account=zzbob",
    "policies/grid/tree?depth=9",
    "me",
    "me/explain",
    "me/waiting-jobs?policy=grid",
]
ECHOED = ("priorities?account", "explain?account")  # the name that was asked for is in the answer


@pytest.fixture(autouse=True)
def _uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def shared(make_site: Any) -> Site:  # noqa: F811 - the fixture
    site: Site = make_site(visibility="path")
    site.publish(TREE)
    lattice = site.rule("/", group_pattern="*", suffix="/{group}")
    site.map(lattice)
    for name in ("alice", *OTHERS):
        site.job(name, "lattice", 10)
    site.recompute()
    site.job("zzcarol", "lattice", 5, ago_h=2)
    site.recompute()
    forget_process()
    store.poll()
    User.objects.create_user("alice")
    return site


def _client(*scopes: str) -> Client:
    alice = User.objects.get(username="alice")
    if not scopes:
        client = Client()
        client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
        return client
    _token, text = make_token(NewToken(name="own", scopes=scopes, user=alice), at=AS_OF, actor=SYSTEM)
    return Client(headers={"Authorization": f"Bearer {text}"})


def _text(client: Client, path: str) -> str:
    since = store.newest("grid").snapshot_id - 1
    answer: Any = client.get("/api/v1/" + path.format(since=since))
    assert answer.status_code in (200, 403, 404, 410), (path, answer.content)
    body: bytes = answer.getvalue() if answer.streaming else answer.content
    return body.decode()


@pytest.mark.parametrize("scopes", [(), ("self:read", "policies:read"), ("self:read", "priorities:read")])
def test_a_member_of_a_shared_leaf_reads_no_account_but_the_own(shared: Site, scopes: tuple[str, ...]) -> None:
    client = _client(*scopes)
    for path in PATHS:
        text = _text(client, path)
        if any(what in path for what in ECHOED):
            assert "unmapped" in text or '"status":404' in text or '"status":403' in text, (path, text)
        else:
            found = [name for name in OTHERS if name in text and name not in path]
            assert found == [], (path, text)
    assert '"alice"' in _text(client, "policies/grid/priorities/all"), "the own account stays"
    assert '"entry":"/lattice"' in _text(client, "policies/grid/priorities?account=alice")


def test_who_sees_members_by_name_reads_all_of_them(shared: Site) -> None:
    alice = User.objects.get(username="alice")
    make_grant(alice, load_tree(shared.policy).uuid(0), Grant.Role.LEAD, policy=shared.policy)
    text = _text(_client(), "policies/grid/priorities/all")
    assert all(name in text for name in OTHERS)
    assert '"entry":"/lattice"' in _text(_client(), "policies/grid/priorities?account=zzbob")


def test_pages_of_a_member_name_no_other_account(shared: Site) -> None:
    client = _client()
    for path in ("/me/", "/policy/grid/", "/search/?q=zz", "/policy/grid/icicle/", "/policy/grid/charges/"):
        answer: Any = client.get(path, follow=True)
        assert answer.status_code in (200, 403, 404), path
        assert [name for name in OTHERS if name in answer.content.decode()] == [], path


def test_accounts_are_there_at_all(shared: Site) -> None:
    assert Account.objects.filter(user_name__in=OTHERS).count() == len(OTHERS)
    assert Token.objects.count() == 0
