"""Backup and restore: everything comes back on an empty machine, and nothing bad is restored."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pyrage
import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.cli.backup.archive import ArchiveWriter, BadArchive, Member, read_archive, safe_target
from apps.cli.backup.contents import examine_backup
from apps.cli.backup.making import backups_in, make_backup, name_of, remove_old
from apps.cli.backup.restoring import OtherRestoreUnfinished, _require_same
from apps.cli.backup.scheduled import back_up_when_due
from apps.cli.doctor.check import Finding
from apps.cli.doctor.instance import check_backups
from apps.cli.stack.restore_check import UnfinishedRestore, unfinished_restore
from apps.core.errors import Invalid
from apps.federation.documents.site_keys import list_keys
from apps.federation.models import Publication
from apps.federation.publishing import current_document, make_publication
from apps.federation.restored import GAP
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.usage.records import uploads
from tests.commands import run_manage
from tests.examples import first
from tests.priority_site import AS_OF, Site, finished

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
NOW = AS_OF + timedelta(seconds=2)
HOUR = timedelta(hours=1)
ISSUER = "hpc.example.org"
PLACES = ["restore_database", "restore_files", "restore_keys", "restore_tables", "restore_skipped"]
ALL = "/api/v1/policies/grid/priorities/all"
_ASK = f"""
import sys
from apps.accounts.models import User
from apps.core import clock
from apps.federation.documents.site_keys import list_keys
from apps.federation.models import Publication
from apps.federation.publishing import current_document
from django.test import Client
client = Client(headers={{"host": "localhost"}})
client.force_login(User.objects.get(username="root"))
answer = client.get("{ALL}")
assert answer.status_code == 200, answer.content
version = current_document(Publication.objects.get(), at=clock.now()).document.version
print(version, b"".join(answer).hex() if answer.streaming else answer.content.hex())
"""


@dataclass
class Machine:
    """An empty database and a folder, with nothing of the first instance in reach."""

    url: str
    var: Path

    def run(self, *arguments: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "SECRET_"))}
        own = {"DATABASE_URL": self.url, "FAIRSHARE_VAR": str(self.var), "FAIRSHARE_CLOCK": NOW.isoformat()}
        settings = {"FAIRSHARE_TESTING": "1", "FAIRSHARE_ISSUER": ISSUER}
        return run_manage(*arguments, env={**kept, **own, **settings, **more}, stdin=stdin)

    def n_tables(self) -> int:
        with psycopg.connect(self.url) as database:
            row = database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        return int(row[0]) if row else 0


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Machine]:
    given = connection.settings_dict
    name = f"{given['NAME']}_restored"
    place = f"{given['USER']}@{quote(str(given['HOST']), safe='')}:{given['PORT']}"
    with psycopg.connect(f"postgres://{place}/postgres", autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}"')
        yield Machine(f"postgres://{place}/{name}", tmp_path / "other")
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def site_url() -> str:
    """The database of the first instance."""
    given = connection.settings_dict
    return f"postgres://{given['USER']}@{quote(str(given['HOST']), safe='')}:{given['PORT']}/{given['NAME']}"


@pytest.fixture
def site(two_projects: Site, settings: object) -> Site:
    settings.FAIRSHARE_ISSUER = ISSUER  # type: ignore[attr-defined]
    User.objects.create_superuser("root", password="x")
    two_projects.recompute()
    make_publication(policy_slug="grid", entry="/", name="grid", at=NOW, actor=COMMAND)
    return two_projects


def stored_files(var: Path) -> dict[str, bytes]:
    """What a restore writes; logs and locks of commands are none of it."""
    names = ("restore.unfinished", "secret_key", "token_pepper", "pseudonym_key", "uploads", "secrets")
    found = [
        path for name in names for path in sorted((var / name).rglob("*") if (var / name).is_dir() else [var / name])
    ]
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def back_up(tmp_path: Path, **more: str) -> Path:
    return make_backup(tmp_path / "site.backup", at=NOW, **more).path


@pytest.mark.fault("F27")
def test_a_restored_site_gives_the_same_priorities_byte_for_byte(site: Site, other: Machine, tmp_path: Path) -> None:
    secret = pyrage.x25519.Identity.generate()
    stored = uploads.store(io.BytesIO(b"waiting"))
    backup = back_up(tmp_path, recipient=str(secret.to_public()))
    assert backup.stat().st_mode & 0o777 == 0o600
    assert b"grid" not in backup.read_bytes(), "encrypted"
    client = Client()
    client.force_login(User.objects.get(username="root"))
    answer = client.get(ALL)
    priorities = b"".join(answer) if answer.streaming else answer.content
    version = current_document(Publication.objects.get(), at=NOW).document.version
    key = tmp_path / "key"
    key.write_text(f"# a comment\n{secret}\n")
    (row,) = list_keys()
    restored = other.run("restore", str(backup), "--identity", str(key), "--signed-by", row.fingerprint)
    assert restored.returncode == 0, restored.stderr.decode()
    assert f"Restored {settings.FAIRSHARE_SITE} of 2026-11-20T12:00:02+00:00, version " in restored.stdout.decode()
    asked = other.run("shell", "-v", "0", "-c", _ASK)
    assert asked.returncode == 0, asked.stderr.decode()[-2000:]
    their_version, theirs = asked.stdout.split()
    assert bytes.fromhex(theirs.decode()) == priorities
    assert int(their_version) == version + GAP, "peers have seen none of the versions in between"
    assert (other.var / "uploads" / Path(stored.name).name).read_bytes() == b"waiting"
    for name in ("secret_key", "token_pepper", "pseudonym_key"):
        assert (other.var / name).read_text().strip() == (Path(settings.VAR) / name).read_text().strip()
        assert (other.var / name).stat().st_mode & 0o777 == 0o600
    again = other.run("restore", str(backup), "--identity", str(key))
    assert again.returncode != 0
    assert b"There is an instance in the database of DATABASE_URL already" in again.stderr
    audited = other.run("verify_audit")
    assert audited.returncode == 0, audited.stdout.decode() + audited.stderr.decode()
    assert b"unbroken" in audited.stdout


@pytest.mark.deep
def test_a_backup_goes_through_pipes(site: Site, other: Machine, tmp_path: Path) -> None:
    backup = back_up(tmp_path)
    sha256 = hashlib.sha256(backup.read_bytes()).hexdigest()
    restored = other.run("restore", "-", "--sha256", sha256, stdin=backup.read_bytes())
    assert restored.returncode == 0, restored.stderr.decode()
    asked = other.run("shell", "-v", "0", "-c", _ASK)
    assert asked.returncode == 0, asked.stderr.decode()[-2000:]


@pytest.mark.faults
@pytest.mark.parametrize("place", first(1, PLACES))
@pytest.mark.fault("F27")
def test_a_killed_restore_is_done_again_with_the_same_backup_and_refuses_another(
    site: Site, other: Machine, tmp_path: Path, place: str
) -> None:
    backup = back_up(tmp_path)
    another = make_backup(tmp_path / "another.backup", at=NOW).path
    killed = other.run("restore", str(backup), "--any-origin", FAULT=f"{place}:kill")
    assert killed.returncode == -signal.SIGKILL
    checked = other.run("check")
    assert checked.returncode != 0
    assert b"A restore was interrupted, of the backup of local made at 2026-11-20T12:00:02+00:00." in checked.stderr
    before = stored_files(other.var)
    refused = other.run("restore", str(another), "--any-origin")
    assert refused.returncode != 0
    assert "was interrupted here, and FILE is another backup" in refused.stderr.decode()
    assert "`restore --start-over FILE` removes what it left" in refused.stderr.decode()
    assert stored_files(other.var) == before
    moved = backup.rename(tmp_path / "moved.backup")
    again = other.run("restore", str(moved), "--any-origin")
    assert again.returncode == 0, again.stderr.decode()
    assert list(other.var.glob(".restore-*")) == []
    asked = other.run("shell", "-v", "0", "-c", _ASK)
    assert asked.returncode == 0, asked.stderr.decode()[-2000:]


@pytest.mark.deep
@pytest.mark.faults
@pytest.mark.fault("F27")
def test_starting_over_removes_what_another_backup_left(site: Site, other: Machine, tmp_path: Path) -> None:
    former = uploads.store(io.BytesIO(b"of the former"))
    first = back_up(tmp_path)
    uploads.path_of(former.name).unlink()
    operations = [{"op": "set_shares", "entry": "/physics", "shares": 99}]
    publish_operations(policy_slug="grid", operations=operations, reason="later", at=NOW, actor=COMMAND)
    later = uploads.store(io.BytesIO(b"of the later"))
    second = make_backup(tmp_path / "second.backup", at=NOW).path
    assert other.run("restore", str(first), "--any-origin", FAULT="restore_tables:kill").returncode == -signal.SIGKILL
    left = other.var / "uploads" / Path(former.name).name
    assert left.exists()
    marker = other.var / "restore.unfinished"
    with_digest = marker.read_bytes()
    marker.write_text("2026-11-20T12:00:02+00:00\n")  # as releases before noted it
    refused = other.run("restore", str(second), "--any-origin")
    assert "noted no digest" in refused.stderr.decode()
    marker.write_bytes(with_digest)
    elsewhere = Machine(site_url(), other.var).run("restore", str(first), "--any-origin", "--start-over")
    assert "but of another database" in elsewhere.stderr.decode(), "tables of a site that lives are never dropped"
    killed = other.run("restore", str(second), "--any-origin", "--start-over", FAULT="restore_emptied:kill")
    assert killed.returncode == -signal.SIGKILL
    assert other.n_tables() == 0
    assert other.run("restore", str(second), "--any-origin").returncode != 0, "still another one"
    restored = other.run("restore", str(second), "--any-origin", "--start-over")
    assert restored.returncode == 0, restored.stderr.decode()
    assert not left.exists()
    assert (other.var / "uploads" / Path(later.name).name).read_bytes() == b"of the later"
    with psycopg.connect(other.url) as database:
        heads = database.execute("SELECT slug, head_number FROM policies_policy").fetchall()
    assert heads == list(Policy.objects.values_list("slug", "head_number"))


def test_a_marker_of_a_release_before_is_read_and_an_empty_database_goes_on(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path
    assert unfinished_restore() is None
    (tmp_path / "restore.unfinished").write_text("2026-11-20T12:00:02+00:00\n")
    former = unfinished_restore()
    assert former == UnfinishedRestore("", "", "2026-11-20T12:00:02+00:00", "")
    here = UnfinishedRestore("ab", "local", "2026-11-20T12:00:02+00:00", "1/2")
    _require_same(former, here, has_tables=False)
    with pytest.raises(OtherRestoreUnfinished, match="noted no digest"):
        _require_same(former, here, has_tables=True)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_end(data: bytes) -> bytes:
    return data[:-1]


def changed(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "spoil", first(2, [cut, changed, without_end, lambda _data: b"", lambda _data: b"<html>" * 100])
)
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_spoiled_backup_is_refused(
    site: Site, tmp_path: Path, spoil: Callable[[bytes], bytes], is_encrypted: bool
) -> None:
    secret = pyrage.x25519.Identity.generate()
    backup = back_up(tmp_path, **({"recipient": str(secret.to_public())} if is_encrypted else {}))
    data = backup.read_bytes()
    assert examine_backup(io.BytesIO(data), str(secret)).manifest["product"] == "fairshare-web"
    with pytest.raises(BadArchive, match=r"cut|changed|damaged|no backup"):
        examine_backup(io.BytesIO(spoil(data)), str(secret))


def test_nothing_is_restored_of_a_cut_or_newer_backup_or_with_a_wrong_key(
    site: Site, other: Machine, tmp_path: Path
) -> None:
    secret, wrong = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    sealed = back_up(tmp_path, recipient=str(secret.to_public()))
    (tmp_path / "wrong").write_text(str(wrong))
    plain = make_backup(tmp_path / "plain.backup", at=NOW).path
    (tmp_path / "cut").write_bytes(cut(plain.read_bytes()))
    members = list(read_archive(io.BytesIO(plain.read_bytes())))
    manifest = json.loads(members[0].content)
    newer = io.BytesIO()
    manifest["migrations"].append("usage.9999_of_tomorrow")
    writer = ArchiveWriter(newer, {**manifest, "version": "9.1.0"})
    for member in members[1:]:
        writer.add(member.name + (f"/{member.piece:06d}" if member.piece else ""), member.content)
    writer.finish()
    (tmp_path / "newer").write_bytes(newer.getvalue())
    for arguments, words in (
        ([str(sealed)], "name the file of its secret key with --identity"),
        ([str(sealed), "--identity", str(tmp_path / "wrong")], "another key encrypted it"),
        ([str(sealed), "--identity", str(plain)], "no secret key"),
        ([str(tmp_path / "cut"), "--any-origin"], "cut"),
        (
            [str(tmp_path / "newer"), "--any-origin"],
            "Another build, of version 9.1.0, made the backup: it has the migration usage.9999",
        ),
        ([str(tmp_path / "none")], "No such file"),
        ([str(plain)], "Nothing shows who made the backup."),
    ):
        refused = other.run("restore", *arguments)
        assert refused.returncode != 0, words
        assert words in refused.stderr.decode(), refused.stderr.decode()[-500:]
        assert other.n_tables() == 0, words


@pytest.mark.deep
def test_a_secret_that_is_set_to_another_value_is_named(site: Site, other: Machine, tmp_path: Path) -> None:
    restored = other.run(
        "restore", str(back_up(tmp_path)), "--any-origin", SECRET_KEY="another" * 10, FAIRSHARE_TICK_S="30"
    )
    assert restored.returncode == 0, restored.stderr.decode()
    assert "SECRET_KEY is set to another value than in the backup" in restored.stderr.decode()
    assert "FAIRSHARE_TICK_S" in restored.stderr.decode(), "a setting that differs"
    assert (other.var / "secret_key.restored").read_text().split() == [settings.SECRET_KEY]


def test_a_backup_while_records_come_in_counts_each_of_them_once(site: Site, other: Machine, tmp_path: Path) -> None:
    ended = threading.Event()
    sent: list[int] = []

    def send() -> None:
        while not ended.is_set():
            site.jobs([finished("alice", "physics", 1, ago_h=2, job=str(9_000 + len(sent)))])
            sent.append(1)
        connections.close_all()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        backup = back_up(tmp_path)
    finally:
        ended.set()
        thread.join()
    assert len(sent) > 1, "some came in meanwhile"
    assert other.run("restore", str(backup), "--any-origin").returncode == 0
    checked = other.run("check_usage", "--source", site.source.slug)
    assert checked.returncode == 0, checked.stdout.decode() + checked.stderr.decode()
    assert b"every bucket is the sum of its records" in checked.stdout


def test_old_backups_of_a_folder_are_removed(tmp_path: Path) -> None:
    days = [datetime(2026, 11, day, tzinfo=UTC) for day in range(1, 6)]
    for number, day in enumerate(days):
        (tmp_path / name_of(day, is_encrypted=number % 2 == 0)).write_text("")
    (tmp_path / "notes.txt").write_text("")
    removed = remove_old(tmp_path, 2, at=NOW + timedelta(days=9))
    assert [path.name[10:18] for path in removed] == ["20261101", "20261102", "20261103"]
    assert (tmp_path / "notes.txt").exists()
    assert remove_old(tmp_path, 2, at=NOW + timedelta(days=9)) == []


def test_a_file_is_never_overwritten(site: Site, tmp_path: Path) -> None:
    back_up(tmp_path)
    with pytest.raises(Invalid, match="There is a file"):
        back_up(tmp_path)
    with pytest.raises(Invalid, match="no public key"):
        make_backup(tmp_path / "x.backup", recipient="age1nonsense", at=NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site.backup"], "no drafts are left"


@pytest.mark.parametrize("name", ["../secret_key", "/etc/passwd", "a/../../b", "."])
def test_no_member_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadArchive, match="leads out"):
        safe_target(tmp_path, name)


def test_pieces_are_joined_in_order() -> None:
    out = io.BytesIO()
    writer = ArchiveWriter(out, {"product": "fairshare-web"})
    content = os.urandom(20 * 1024**2)
    assert writer.add_pieces("big", io.BytesIO(content)) == len(content)
    writer.finish()
    members = list(read_archive(io.BytesIO(out.getvalue())))
    assert [(m.name, m.piece) for m in members] == [("manifest.json", 0), ("big", 1), ("big", 2), ("big", 3)]
    assert b"".join(member.content for member in members[1:]) == content
    assert isinstance(members[0], Member)


@pytest.mark.django_db(transaction=True)
def test_a_backup_a_day_is_made_and_the_newest_are_kept(site: Site, tmp_path: Path, settings: Any) -> None:
    settings.FAIRSHARE_BACKUP_DIR, settings.FAIRSHARE_BACKUP_KEEP = str(tmp_path / "daily"), 2
    folder = tmp_path / "daily"
    made = [back_up_when_due(at=NOW + hours * HOUR) for hours in (0, 1, 23, 24, 48)]
    assert [path is not None for path in made] == [True, False, False, True, True]
    assert backups_in(folder, at=NOW + 96 * HOUR) == made[3:]
    for path in made[3:]:
        assert path is not None
        with path.open("rb") as file:
            assert examine_backup(file).manifest["site"]
    lock = os.open(folder / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert back_up_when_due(at=NOW + 96 * HOUR) is None, "another worker makes it"
    os.close(lock)
    settings.FAIRSHARE_BACKUP_RECIPIENT = "no key"
    with pytest.raises(Invalid):
        back_up_when_due(at=NOW + 96 * HOUR)
    assert backups_in(folder, at=NOW + 96 * HOUR) == made[3:], "a failed one leaves nothing, and removes none"
    failing = [each.name for each in check_backups(NOW + 96 * HOUR) if isinstance(each, Finding)]
    assert failing == ["backup_fails", "backup_failing"]
    settings.FAIRSHARE_BACKUP_RECIPIENT = ""
    late = [each for each in check_backups(NOW + 97 * HOUR) if isinstance(each, Finding)]
    assert [each.name for each in late] == ["backup_failing", "backup_late"]


@pytest.mark.django_db(transaction=True)
def test_a_backup_of_a_clock_that_was_ahead_neither_delays_nor_replaces_others(
    site: Site, tmp_path: Path, settings: Any
) -> None:
    folder = tmp_path / "daily"
    folder.mkdir(mode=0o750)
    settings.FAIRSHARE_BACKUP_DIR, settings.FAIRSHARE_BACKUP_KEEP = str(folder), 1
    ahead = folder / name_of(NOW + 9000 * HOUR, is_encrypted=False)
    ahead.write_bytes(b"-")
    first, second = (back_up_when_due(at=NOW + hours * HOUR) for hours in (0, 24))
    assert first is not None
    assert not first.exists()
    assert backups_in(folder, at=NOW + 24 * HOUR) == [second]
    assert ahead.exists()
    assert folder.stat().st_mode & 0o777 == 0o750, "a folder of the site's own keeps its mode"
