"""What is stored of a person is given out completely, and nothing secret with it."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from apps.accounts.about_person import LEFT_OUT, about_person, relations, sections
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, AuditEvent, User
from apps.accounts.services import NewToken, make_token
from apps.core.errors import NotAllowed
from apps.usage.models import Bucket, Record
from tests.priority_site import AS_OF, Site


def test_every_table_with_personal_data_is_exported_or_excluded_with_a_reason() -> None:
    tables = {model._meta.label_lower for model in apps.get_models() if relations(model)}
    by_name = {label for label, each in sections().items() if each.of_accounts is not None}
    assert tables | {"accounts.user", "accounts.auditevent"} | by_name == sections().keys() | LEFT_OUT.keys()
    assert not sections().keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


def test_the_export_has_data_of_one_person_only(site: Site) -> None:
    site.job("dan", "biology", 7, ago_h=30.0)
    dan = User.objects.create_user("dan", "dan@example.org", "a long pass phrase")
    token, text = make_token(NewToken(name="t", scopes=["self:read"], user=dan), at=AS_OF, actor=Actor(dan, "page"))
    out = StringIO()
    call_command("about_person", "dan", stdout=out)
    found = json.loads(out.getvalue())
    assert found["accounts.user"][0]["email"] == "dan@example.org"
    assert [row["user_name"] for row in found["accounts.account"]] == ["dan"]
    assert len(found["usage.record"]) == Record.objects.filter(account__user_name="dan").count() == 1
    assert len(found["usage.bucket"]) == Bucket.objects.filter(account__user_name="dan").count() > 0
    assert found["usage.record"][0]["cpus"] == Record.objects.get(account__user_name="dan").cpus
    assert [row["public_id"] for row in found["accounts.token"]] == [token.public_id]
    assert [row["verb"] for row in found["accounts.auditevent"]] == ["token.made"]
    secrets = [text.rpartition("_")[2], dan.password, "alice", bytes(token.digest).hex()]
    assert [secret for secret in secrets if secret in out.getvalue()] == []


@pytest.mark.django_db
def test_only_administrators_export_data_of_a_known_person(site: Site) -> None:
    ben = User.objects.create_user("ben")
    with pytest.raises(NotAllowed):
        about_person(name="ben", actor=Actor(ben, "page"))
    assert Account.objects.filter(user_name="alice").exists() == bool(
        about_person(name="alice", actor=COMMAND).get("accounts.account")
    )
    for unknown in ("zelda", "", "a\0b"):
        with pytest.raises(CommandError, match="no user"):
            call_command("about_person", unknown)
    assert not AuditEvent.objects.filter(verb="accounts.pseudonymised").exists()
