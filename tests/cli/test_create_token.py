from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.accounts.models import Token, User
from apps.accounts.services import verify_token
from apps.core.clock import now
from apps.policies.models import Policy
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.usage.services import NewSource, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _site() -> None:
    User.objects.create_user("alice")
    make_policy(slug="grid", name="grid", at=now(), actor=COMMAND)
    root = {"name": "grid", "children": [{"name": "physics"}]}
    publish_document(policy_slug="grid", document={"root": root}, reason="x", at=now(), actor=COMMAND)
    make_source(NewSource(slug="c1", name="c1"), at=now(), actor=COMMAND)


def _token(*arguments: str) -> str:
    out = io.StringIO()
    call_command("create_token", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_only_the_token_is_on_standard_output_and_it_works() -> None:
    printed = _token("--user", "alice", "--scope", "priorities:read", "--days", "7")
    assert printed.count("\n") == 1
    user, bounds = verify_token(printed.strip(), at=now())
    assert (user.username, bounds.scopes) == ("alice", frozenset({"priorities:read"}))
    token = Token.objects.get()
    assert token.expires_at - token.created_at == timedelta(days=7)


def test_the_token_is_limited_by_the_options() -> None:
    printed = _token(
        "--user",
        "alice",
        "--scope",
        "priorities:read",
        "--scope",
        "usage:write",
        "--policy",
        "grid",
        "--subtree",
        "/physics",
        "--source",
        "c1",
    )
    _user, bounds = verify_token(printed.strip(), at=now())
    tree = load_tree(Policy.objects.get())
    assert (bounds.policy_slug, bounds.source_slug) == ("grid", "c1")
    assert bounds.subtree_uid == tree.uuid(1)
    assert bounds.scopes == {"priorities:read", "usage:write"}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--user", "nobody", "--scope", "self:read"), 1),
        (("--user", "alice", "--scope", "everything"), 2),
        (("--user", "alice", "--scope", "self:read", "--days", "0"), 2),
        (("--user", "alice", "--scope", "self:read", "--policy", "nothing"), 1),
        (("--user", "alice", "--scope", "self:read", "--source", "nothing"), 1),
        (("--user", "alice", "--scope", "self:read", "--subtree", "/physics"), 2),
        (("--user", "alice", "--scope", "self:read", "--policy", "grid", "--subtree", "/x"), 2),
    ],
)
def test_invalid_options_create_no_token(arguments: tuple[str, ...], status: int) -> None:
    with pytest.raises(CommandError) as refused:
        _token(*arguments)
    assert refused.value.returncode == status
    assert not Token.objects.exists()
