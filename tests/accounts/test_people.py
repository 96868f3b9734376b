"""People of other systems: made, found again, never mistaken for another person, and in today's groups."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from apps.accounts.models import AuditEvent, Identity, User
from apps.accounts.people import LONGEST_GROUP, Person, normalise_group, update_or_create_user
from apps.core.errors import Invalid, NotAllowed
from tests.instants import AT

pytestmark = pytest.mark.django_db


def eva(**changed: Any) -> Person:
    given = {
        "source": "oidc",
        "subject": "https://idp 17",
        "username": "eva",
        "groups": ["physics"],
        "first_name": "Eva",
    }
    return Person(**given | changed)


def arrive(person: Person) -> User:
    return update_or_create_user(person, at=AT)


def groups_of(user: User) -> list[str]:
    return sorted(user.groups.values_list("name", flat=True))


def test_a_new_user_gets_an_account_without_password_and_rights() -> None:
    user = arrive(eva())
    assert (user.username, user.first_name, user.is_superuser, user.is_staff) == ("eva", "Eva", False, False)
    assert not user.has_usable_password()
    assert groups_of(user) == ["oidc:physics"]
    assert [event.verb for event in AuditEvent.objects.order_by("id")] == ["user.made", "user.groups"]


def test_the_same_identity_is_the_same_user_after_a_rename() -> None:
    first = arrive(eva())
    again = arrive(eva(username="eva.kling", last_name="Kling"))
    assert (again.pk, again.username, again.last_name) == (first.pk, "eva", "Kling")


def test_name_and_address_are_single_lines() -> None:
    sent = {
        "first_name": "Eva\r\nBcc: x",
        "last_name": " Kling\u2028\u202eB ",
        "email": "evil@example.org\nBcc: victim@example.org",
    }
    user = arrive(eva(**sent))
    assert (user.first_name, user.last_name, user.email) == ("Eva Bcc: x", "Kling B", "")
    assert arrive(eva(email=" eva@example.org ")).email == "eva@example.org"
    assert arrive(eva(email="eva@example.org, victim@example.org")).email == "eva@example.org"
    assert arrive(eva(email=f"{'e' * 250}@example.org")).email == "eva@example.org"


def test_groups_are_updated_at_every_sign_in_and_others_kept() -> None:
    user = arrive(eva(groups=["physics", "staff"]))
    user.groups.add(Group.objects.create(name="ldap:cn=x"), Group.objects.create(name="oidcish"))
    arrive(eva(groups=["staff", "chemistry", "", "bad\u202ename"]))
    assert groups_of(user) == ["ldap:cn=x", "oidc:chemistry", "oidc:staff", "oidcish"]
    event = AuditEvent.objects.latest("id")
    assert (event.details["added"], event.details["removed"]) == (["oidc:chemistry"], ["oidc:physics"])
    n = AuditEvent.objects.count()
    arrive(eva(groups=["chemistry", "staff"]))
    assert AuditEvent.objects.count() == n


def test_a_sign_in_source_cannot_set_groups_of_another() -> None:
    """A proxy that sends ldap:cn=admins gives header:ldap:cn=admins, which has no grants."""
    user = arrive(eva(source="header", groups=["ldap:cn=admins", "oidc:physics"]))
    assert groups_of(user) == ["header:ldap:cn=admins", "header:oidc:physics"]


@pytest.mark.parametrize("taken", ["eva", "EVA"])
def test_an_existing_account_of_that_name_is_not_reused(taken: str) -> None:
    User.objects.create_superuser(taken)
    with pytest.raises(NotAllowed, check=lambda error: error.code == "name_taken"):
        arrive(eva())
    assert not Identity.objects.exists()


def test_a_site_can_trust_names_of_a_source(settings: Any) -> None:
    settings.FAIRSHARE_LINK_BY_NAME = ["ldap"]
    known = User.objects.create_user("eva")
    with pytest.raises(NotAllowed):
        arrive(eva())
    assert arrive(eva(source="ldap")).pk == known.pk
    assert AuditEvent.objects.filter(verb="user.linked").count() == 1
    settings.FAIRSHARE_LINK_BY_NAME = []
    assert arrive(eva(source="ldap")).pk == known.pk  # linked is linked


def test_a_closed_account_stays_closed() -> None:
    user = arrive(eva())
    User.objects.filter(pk=user.pk).update(is_active=False)
    with pytest.raises(NotAllowed, check=lambda error: error.code == "account_closed"):
        arrive(eva())


@pytest.mark.parametrize("wrong", [{"subject": " "}, {"username": ""}, {"username": "a b c"}, {"username": "x" * 151}])
def test_a_source_without_a_usable_name_does_not_sign_in(wrong: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        arrive(eva(**wrong))
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("LDAP: CN=Hpc Users , OU=Groups", "ldap:cn=hpc users,ou=groups"),
        ("Oidc: Physics", "oidc:Physics"),
        ("our own", "our own"),
    ],
)
def test_group_names_are_normalised(written: str, stored: str) -> None:
    assert normalise_group(written) == stored


@pytest.mark.parametrize(
    "written",
    [
        r"ldap:cn=hpc\, group,ou=groups,dc=x",
        r"ldap:CN=HPC\2C group,OU=groups,DC=x",
        r"ldap: cn = hpc\2c group , ou=groups,dc=x ",
        r"ldap:cn=hp\63\2C gro\75p,ou=groups,dc=x",
    ],
)
def test_the_spellings_of_a_distinguished_name_are_one_group(written: str) -> None:
    assert normalise_group(written) == r"ldap:cn=hpc\, group,ou=groups,dc=x"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"ldap:cn=M\c3\bcller,dc=x", "ldap:cn=müller,dc=x"),
        (r"ldap:cn=a\+b,dc=x", r"ldap:cn=a\2bb,dc=x"),
        ("ldap:ou=b+cn=a,dc=x", "ldap:cn=a + ou=b,dc=x"),
        (r"ldap:cn=\#1,dc=x", r"ldap:cn=\231,dc=x"),
        (r"ldap:cn=\ a\ ,dc=x", r"ldap:cn=\20a\20,dc=x"),
        (r"ldap:cn=a\\,dc=x", r"ldap:cn=a\5C,dc=x"),
    ],
)
def test_escapes_of_a_distinguished_name_are_compared_in_one_form(one: str, other: str) -> None:
    assert normalise_group(one) == normalise_group(other)
    assert normalise_group(normalise_group(one)) == normalise_group(one)


def test_an_escaped_comma_is_no_separator() -> None:
    assert normalise_group(r"ldap:cn=a\,dc=x") != normalise_group("ldap:cn=a,dc=x")


def test_an_overlong_group_name_stays_distinct() -> None:
    long = "ldap:" + ",".join(f"ou=part{i}" for i in range(40))
    one, other = normalise_group(long + ",cn=a"), normalise_group(long + ",cn=b")
    assert len(one) == len(other) == LONGEST_GROUP
    assert one != other
    for wrong in ("", "  ", "a\u200bb", "x" * 5_000):
        with pytest.raises(ValueError, match=r"\w"):
            normalise_group(wrong)
