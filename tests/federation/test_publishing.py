"""A subtree as a series of signed documents, and the keys that sign them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Unavailable
from apps.core.signing import Opened, open_document
from apps.federation.documents.site_keys import list_keys, load_keys, rotate_key
from apps.federation.documents.wire import PolicyDocument, PolicyLimits, read_policy
from apps.federation.models import Publication, PublishedDocument
from apps.federation.publishing import (
    SignedVersion,
    current_document,
    make_publication,
    stored_document,
    write_documents,
)
from apps.federation.usage_feeds.feeds import make_feed
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from tests.instants import AT
from tests.refusals import refused

DAY = timedelta(days=1)


@pytest.fixture
def publication(policy: Policy) -> Publication:
    return make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=COMMAND)


def opened(issued: SignedVersion) -> tuple[Opened, PolicyDocument]:
    found = open_document(issued.data, trusted={load_keys(at=AT).key.public.fingerprint})
    return found, read_policy(found.document, PolicyLimits())


def set_shares(shares: float) -> None:
    operation = {"op": "set_shares", "entry": "/VO-A/P-A2", "shares": shares}
    publish_operations(policy_slug="grid", operations=[operation], reason="More.", at=AT + DAY / 24, actor=COMMAND)


@pytest.mark.paper("4.3")
def test_the_first_document_contains_the_whole_subtree(publication: Publication) -> None:
    issued = current_document(publication, at=AT)
    _, document = opened(issued)
    assert (document.head.issuer, document.head.publication, document.head.version) == ("vo-a.example", "vo-a", 1)
    assert document.head.expires_at == AT + 7 * DAY
    assert document.tree.name == ["VO-A", "P-A1", "P-A2", "rest", "anna"]
    assert document.tree.shares[1:].tolist() == [50, 30, 20, 1]
    assert document.tree.uuid(0) == publication.entry_uid
    assert issued.document.n_entries == 5


def test_a_new_version_links_to_the_previous_digest_and_needs_a_change(
    publication: Publication,
) -> None:
    first = current_document(publication, at=AT)
    again = current_document(publication, at=AT + DAY)
    assert again.data == first.data
    set_shares(40)
    second = current_document(publication, at=AT + DAY)
    _, document = opened(second)
    assert (document.head.version, document.head.previous) == (2, opened(first)[0].digest)
    assert document.tree.shares[document.tree.name.index("P-A2")] == 40


def test_a_change_outside_the_subtree_makes_no_new_version(publication: Publication) -> None:
    current_document(publication, at=AT)
    operation = {"op": "set_shares", "entry": "/VO-B", "shares": 71}
    publish_operations(policy_slug="grid", operations=[operation], reason="B.", at=AT + DAY / 24, actor=COMMAND)
    assert current_document(publication, at=AT + DAY).document.version == 1
    operation = {"op": "set_shares", "entry": "/VO-A", "shares": 31}  # the mounting site decides that one
    publish_operations(policy_slug="grid", operations=[operation], reason="A.", at=AT + DAY / 24, actor=COMMAND)
    assert current_document(publication, at=AT + DAY).document.version == 1


def test_a_document_is_reissued_at_half_its_lifetime(publication: Publication) -> None:
    current_document(publication, at=AT)
    assert current_document(publication, at=AT + 3 * DAY).document.version == 1
    renewed = current_document(publication, at=AT + 4 * DAY)
    assert (renewed.document.version, renewed.document.expires_at) == (2, AT + 11 * DAY)


def test_readers_who_trust_the_old_key_follow_the_new_one(publication: Publication) -> None:
    old = load_keys(at=AT).key.public.fingerprint
    current_document(publication, at=AT)
    new = rotate_key(reason="The old one was on a lost laptop.", at=AT, actor=COMMAND).fingerprint
    issued = current_document(publication, at=AT)
    assert issued.document.version == 2
    found = open_document(issued.data, trusted={old})
    assert (found.key.fingerprint, found.follows) == (new, old)
    rotate_key(reason="And again.", at=AT, actor=COMMAND)
    assert open_document(current_document(publication, at=AT).data, trusted={old}).follows == old
    assert [row.number for row in list_keys()] == [1, 2, 3]
    assert AuditEvent.objects.filter(verb="federation.key_rotated").count() == 2


def test_private_keys_are_encrypted_and_a_changed_secret_key_is_an_error(
    policy: Policy, settings: LazySettings
) -> None:
    raw = load_keys(at=AT).key.raw
    (sealed,) = (row.sealed for row in list_keys())
    assert raw.hex() not in sealed
    before = settings.SECRET_KEY
    settings.SECRET_KEY = "another one"
    with refused(Unavailable, "sealed_otherwise", naming="SECRET_KEY_FALLBACKS"):
        load_keys(at=AT)
    settings.SECRET_KEY_FALLBACKS = [before]
    assert load_keys(at=AT).key.raw == raw


def test_only_administrators_publish(policy: Policy) -> None:
    anna = Actor(user=User.objects.create_user(username="anna"), via="page")
    with pytest.raises(NotAllowed):
        make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=anna)
    with pytest.raises(NotAllowed):
        rotate_key(reason="", at=AT, actor=anna)
    assert not Publication.objects.exists()


def test_bad_names_entries_and_times_are_refused(publication: Publication) -> None:
    def make(entry: str = "/VO-B", name: str = "vo-b", expires_after_s: int = 86_400) -> Publication:
        return make_publication(
            policy_slug="grid", entry=entry, name=name, expires_after_s=expires_after_s, at=AT, actor=COMMAND
        )

    wrong: list[tuple[type[Exception], Callable[[], Publication]]] = [
        (Invalid, lambda: make(name="../x")),
        (Invalid, lambda: make(expires_after_s=1)),
        (NotFound, lambda: make(entry="/nowhere")),
        (Conflict, lambda: make(name="vo-a")),
    ]
    for error, ask in wrong:
        with pytest.raises(error):
            ask()
    assert Publication.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("vo\u200b-b", "U+200B, which is invisible; leave it out: it is character 3"),
        ("\ufeffvo-b", "U+FEFF, which is invisible; leave it out: it is character 1"),
        ("vo-\u202eb", "U+202E, which is invisible; leave it out: it is character 4"),
        (".", "means a folder"),
        ("..", "means a folder"),
        ("v\u043e-b", "U+043E, as character 2, which looks like another; type it again"),
        ("vo-b\n", "must be 1 to 128 lower-case letters"),
        ("", "must be 1 to 128 lower-case letters"),
    ],
)
@pytest.mark.parametrize("make", [make_publication, partial(make_feed, capacity_cores=1)])
def test_a_confusable_name_is_rejected_with_the_character_and_remedy(
    policy: Policy, make: Callable[..., object], name: str, place: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        make(policy_slug="grid", entry="/VO-B", name=name, at=AT, actor=COMMAND)
    assert [field.where for field in refusal.value.fields] == ["name"]
    assert place in refusal.value.message
    assert "lower-case letters, digits, points and hyphens" in refusal.value.message


@pytest.mark.parametrize("make", [make_publication, partial(make_feed, capacity_cores=1)])
def test_a_name_similar_to_another_site_is_rejected(policy: Policy, make: Callable[..., object]) -> None:
    make(policy_slug="grid", entry="/VO-A", name="vo-1", at=AT, actor=COMMAND)
    with refused(Conflict, "name_taken", field="name", naming="'vo-1'"):
        make(policy_slug="grid", entry="/VO-B", name="vo-l", at=AT, actor=COMMAND)
    make(policy_slug="grid", entry="/VO-A", name="vo-l", at=AT, actor=COMMAND)  # its own name may change so


def test_a_site_without_an_issuer_name_cannot_publish(publication: Publication, settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = ""
    with refused(Invalid, "no_issuer", field="FAIRSHARE_ISSUER"):
        current_document(publication, at=AT)
    with refused(Invalid, "no_issuer", field="FAIRSHARE_ISSUER"):
        stored_document(publication)
    PublishedDocument.objects.all().delete()
    make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=COMMAND)
    assert not PublishedDocument.objects.exists(), "it is signed once the site has a name"


def test_a_removed_entry_is_reported_and_its_last_document_stays(publication: Publication) -> None:
    current_document(publication, at=AT)
    operation = {"op": "archive", "entry": "/VO-A"}
    publish_operations(policy_slug="grid", operations=[operation], reason="Over.", at=AT + DAY / 24, actor=COMMAND)
    with refused(NotFound, "entry_gone"):
        current_document(publication, at=AT + DAY)
    with refused(NotFound, "entry_gone"):
        stored_document(publication)
    assert PublishedDocument.objects.count() == 1


def test_a_published_file_is_replaced_atomically_and_only_on_change(publication: Publication, tmp_path: Path) -> None:
    Publication.objects.update(is_open=True)
    (file,) = write_documents(tmp_path, at=AT, actor=COMMAND).files
    path = file.path
    assert (path, file.is_new) == (tmp_path / "vo-a.fairshare", True)
    assert path.read_bytes() == current_document(publication, at=AT).data
    first = path.stat().st_ino
    write_documents(tmp_path, at=AT, actor=COMMAND)
    assert path.stat().st_ino == first
    set_shares(10)
    write_documents(tmp_path, at=AT, actor=COMMAND)
    assert path.stat().st_ino != first
    assert [each.name for each in tmp_path.iterdir()] == ["vo-a.fairshare"]


def test_a_closed_publication_is_never_written_and_its_file_from_before_is_removed(
    publication: Publication, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def publish() -> str:
        call_command("federation", "publish", "--to", str(tmp_path))
        return capsys.readouterr().out

    assert not publication.is_open
    before = tmp_path / "vo-a.fairshare"
    before.write_bytes(b"names of people")
    (tmp_path / "other.fairshare").write_bytes(b"of another site")
    printed = publish()
    assert [each.name for each in tmp_path.iterdir()] == ["other.fairshare"]
    assert f"{before} is removed: its publication is closed." in printed
    assert "vo-a is not written: it is closed, and a web server asks for no token." in printed
    assert f"{tmp_path / 'other.fairshare'} is of no publication of this site" in printed
    Publication.objects.update(is_open=True)
    publish()
    assert before.is_file()
    Policy.objects.update(archived_at=AT)
    publish()
    assert not before.is_file(), "an archived policy publishes nothing"


def test_the_command_publishes_prints_keys_and_replaces_them(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    call_command("federation", "publish", "--to", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    collected = [capsys.readouterr().out]
    publish = ("federation", "publish", "--to", str(tmp_path), "--open")
    call_command(*publish, "--policy", "grid", "--entry", "/VO-A", "--name", "vo-a")
    collected.append(capsys.readouterr().out)
    call_command("federation", "publish", "--to", str(tmp_path))
    collected.append(capsys.readouterr().out)
    collected = [
        re.sub(r"[-\d]{10} [:\d]{5} UTC", "DAY AND TIME", each.replace(str(tmp_path), "DIRECTORY"))
        for each in collected
    ]
    assert collected == snapshot
    call_command("federation", "rotate-key", "--reason", "yearly")
    call_command("federation", "keys")
    first, second = capsys.readouterr().out.strip().splitlines()[-2:]
    found = open_document((tmp_path / "vo-a.fairshare").read_bytes(), trusted={first.split()[-1]})
    assert found.document["version"] == 1
    assert second.split()[-1] == load_keys(at=AT).key.public.fingerprint
    with pytest.raises(CommandError, match="/x"):
        call_command(
            "federation", "publish", "--to", str(tmp_path), "--policy", "grid", "--entry", "/x", "--name", "x", "--open"
        )
    assert Publication.objects.count() == 1


def test_the_command_publishes_openly_on_request_and_prints_the_readers(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    given = ("publish", "--to", str(tmp_path), "--policy", "grid", "--entry", "/VO-A", "--name", "vo-a")
    call_command("federation", *given)
    assert "/api/v1/publications/vo-a is closed" in (done := capsys.readouterr().out)
    assert "create_token --user NAME --scope federation --policy grid --subtree /VO-A --name READER" in done
    assert not Publication.objects.get().is_open
    call_command("federation", *given, "--open")
    assert "closed" not in capsys.readouterr().out
    assert Publication.objects.get().is_open
    call_command("federation", "publish", "--to", str(tmp_path))
    assert Publication.objects.get().is_open, "as it was before"
