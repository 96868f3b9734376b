"""Sign-in by a real directory: the right password, the right person, today's groups, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.models import Identity, User
from apps.accounts.sign_in.backends import find_person
from apps.core.errors import Unavailable
from tests.accounts.slapd import BASE, READER, READER_PASSWORD, Directory, run_directory
from tests.examples import first


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    yield from run_directory(tmp_path_factory.mktemp("slapd"))


@pytest.fixture
def directory(server: Directory, settings: Any) -> Directory:
    settings.FAIRSHARE_LDAP_URL = server.url
    settings.FAIRSHARE_LDAP_CA_FILE = str(server.ca_file)
    settings.FAIRSHARE_LDAP_START_TLS = True
    settings.FAIRSHARE_LDAP_BIND_DN = READER
    settings.FAIRSHARE_LDAP_BIND_PASSWORD = READER_PASSWORD
    settings.FAIRSHARE_LDAP_PEOPLE = f"ou=people,{BASE}"
    settings.FAIRSHARE_LDAP_GROUPS = f"ou=groups,{BASE}"
    return server


def test_the_right_password_returns_user_and_groups(directory: Directory) -> None:
    person = find_person("eva", "evas own")
    assert person is not None
    assert (person.source, person.username, person.first_name, person.last_name) == ("ldap", "eva", "Eva", "Kling")
    assert person.email == "eva@example.org"
    assert set(person.groups) == {f"cn=HPC,ou=groups,{BASE}", f"cn=posix,ou=groups,{BASE}"}
    assert len(person.subject) == 36  # entryUUID: it survives renames


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("eva", "wrong"),
        ("eva", ""),  # an anonymous bind, which the server accepts
        ("", ""),
        ("nobody", "x"),
        ("*", "evas own"),
        ("eva)(uid=*", "evas own"),
        ("eva\0", "evas own"),
        ("twin", "twins own"),  # two of that name: neither
        ("reader", READER_PASSWORD),  # not among the people
    ],
)
def test_wrong_credentials_are_refused(directory: Directory, name: str, password: str) -> None:
    assert find_person(name, password) is None


def test_names_are_case_insensitive(directory: Directory) -> None:
    one, other = find_person("EVA", "evas own"), find_person("eva", "evas own")
    assert one == other


@pytest.mark.django_db
@pytest.mark.parametrize("spelling", first(2, ["EVA", "\uff45va", "Eva", "eVa ", "  eva", "e\u00adva"]))
def test_the_lock_counts_each_spelling_that_the_directory_matches(directory: Directory, spelling: str) -> None:
    for n in range(8):
        Client().post("/sign-in/", {"username": ["eva", "Eva", " EVA"][n % 3], "password": "wrong"})
    assert Client().post("/sign-in/", {"username": spelling, "password": "evas own"}).status_code == 429
    call_command("unlock", spelling.upper())
    assert Client().post("/sign-in/", {"username": "eva", "password": "evas own"}).status_code == 302


@pytest.mark.django_db
def test_a_name_in_braces_has_its_groups(directory: Directory) -> None:
    name = f"cn={{username}},ou=people,{BASE}"
    directory.change(
        f"dn: {name}\nchangetype: add\nobjectClass: inetOrgPerson\ncn: {{username}}\nsn: B\nuid: brace\n"
        "userPassword: braces own\n"
    )
    directory.change(f"dn: cn=HPC,ou=groups,{BASE}\nchangetype: modify\nadd: member\nmember: {name}\n")
    person = find_person("brace", "braces own")
    assert person is not None
    assert list(person.groups) == [f"cn=HPC,ou=groups,{BASE}"]


def test_a_silent_directory_is_reported_as_unavailable(directory: Directory, settings: Any) -> None:
    settings.FAIRSHARE_LDAP_URL = "ldap://127.0.0.1:1"
    with pytest.raises(Unavailable):
        find_person("eva", "evas own")


def test_a_refused_service_bind_is_not_a_wrong_password(directory: Directory, settings: Any) -> None:
    settings.FAIRSHARE_LDAP_BIND_PASSWORD = "old"
    with pytest.raises(Unavailable):
        find_person("eva", "evas own")


def test_no_password_is_sent_to_an_unverified_server(directory: Directory, settings: Any, tmp_path: Path) -> None:
    settings.FAIRSHARE_LDAP_CA_FILE = ""
    with pytest.raises(Unavailable):
        find_person("eva", "evas own")


@pytest.mark.django_db
def test_directory_users_sign_in_on_the_usual_page_with_their_groups(directory: Directory) -> None:
    client = Client()
    answer = client.post("/sign-in/", {"username": "dag", "password": "dags own"})
    assert answer.status_code == 302
    user = User.objects.get(username="dag")
    assert not user.has_usable_password()
    assert Identity.objects.get(user=user).source == "ldap"
    assert list(user.groups.values_list("name", flat=True)) == ["ldap:cn=posix,ou=groups,dc=example,dc=org"]

    member = f"dn: cn=HPC,ou=groups,{BASE}\nchangetype: modify\n"
    directory.change(member + f"add: member\nmember: uid=dag,ou=people,{BASE}\n")
    directory.change(f"dn: cn=posix,ou=groups,{BASE}\nchangetype: modify\ndelete: memberUid\nmemberUid: dag\n")
    Client().post("/sign-in/", {"username": "dag", "password": "dags own"})
    assert list(user.groups.values_list("name", flat=True)) == ["ldap:cn=hpc,ou=groups,dc=example,dc=org"]


@pytest.mark.django_db
def test_a_wrong_password_is_answered_as_for_a_local_account(directory: Directory) -> None:
    User.objects.create_user("local", password="a long pass phrase")
    pages = [
        Client().post("/sign-in/", {"username": name, "password": "wrong"}).content.decode()
        for name in ("eva", "local", "no-such")
    ]
    texts = {page.split('id="sign-in-error"')[1].split("</div>")[0] for page in pages}
    assert len(texts) == 1
    assert not User.objects.filter(username="eva").exists()


@pytest.mark.django_db
def test_a_local_account_of_the_same_name_is_not_overtaken(directory: Directory, settings: Any) -> None:
    User.objects.create_superuser("eva", password="a long pass phrase")
    answer = Client().post("/sign-in/", {"username": "eva", "password": "evas own"})
    assert (answer.status_code, answer.context["refusal"].code) == (403, "name_taken")
    assert Client().post("/sign-in/", {"username": "eva", "password": "a long pass phrase"}).status_code == 302
    settings.FAIRSHARE_LINK_BY_NAME = ["ldap"]
    assert Client().post("/sign-in/", {"username": "eva", "password": "evas own"}).status_code == 302


@pytest.mark.django_db
def test_local_accounts_sign_in_without_the_directory(directory: Directory, settings: Any) -> None:
    settings.FAIRSHARE_LDAP_URL = "ldap://127.0.0.1:1"
    User.objects.create_user("local", password="a long pass phrase")
    assert Client().post("/sign-in/", {"username": "local", "password": "a long pass phrase"}).status_code == 302
    answer = Client().post("/sign-in/", {"username": "eva", "password": "evas own"})
    assert (answer.status_code, answer.context["refusal"].code) == (503, "directory_down")
