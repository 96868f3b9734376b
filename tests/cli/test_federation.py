"""`manage.py federation`: telling and following from a terminal, with another site as a real web server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import COMMAND
from apps.core.signing import open_document
from apps.federation.models import HeldHour, Mount, Subscription, UsageFeed
from apps.policies.models import Policy
from apps.policies.services import make_policy, publish_document
from tests.federation.conftest import VO
from tests.federation.other_side import KEY, OtherFeed, OtherSide, serving
from tests.federation.worlds import add_entry
from tests.instants import AT

OutputOf = Callable[..., str]


@pytest.fixture
def policy(db: None, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    settings.FAIRSHARE_ISSUER = "site.example"
    make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    publish_document(policy_slug="grid", document=VO, reason="The start.", at=AT, actor=COMMAND)
    add_entry("here")
    return Policy.objects.get(slug="grid")


@pytest.fixture
def output_of(capsys: pytest.CaptureFixture[str]) -> OutputOf:
    def run(*words: str) -> str:
        capsys.readouterr()
        call_command("federation", *words)
        return capsys.readouterr().out

    return run


def plain(text: str, pk: int, port: int) -> str:
    """Without what differs from one run to the next."""
    text = re.sub(rf"(?m)^(\w+ )?{pk}(?=  )", r"\1ID", text.replace(f":{port}", ":PORT"))
    return re.sub(rf"\b{pk}(?=;)", "ID", text)


def mount_text(side: OtherSide, *more: str) -> tuple[str, ...]:
    return ("mount", side.url, "--policy", "grid", "--entry", "/here", *more)


def test_an_unconfirmed_key_is_not_trusted(
    policy: Policy, side: OtherSide, output_of: OutputOf, snapshot: SnapshotAssertion
) -> None:
    reasons = []
    for more in ((), ("--fingerprint", "ab" * 32)):
        with pytest.raises(CommandError) as refused:
            output_of(*mount_text(side, *more))
        reasons.append(str(refused.value))
    assert reasons == snapshot
    assert not Mount.objects.exists()


def test_a_policy_is_mounted_fetched_and_listed(
    policy: Policy, side: OtherSide, output_of: OutputOf, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    outputs = [output_of("status")]
    token = tmp_path / "token"
    token.write_text("their-secret\n")
    text = output_of(
        *mount_text(side, "--fingerprint", KEY.public.fingerprint.upper(), "--token-file", str(token), "--every", "60")
    )
    outputs.append(text)
    assert "their-secret" not in text
    (mount,) = Mount.objects.all()
    assert (mount.every_s, side.asked[-1]["authorization"]) == (60, "Bearer their-secret")
    outputs += [output_of("status"), output_of("fetch", "--mount", str(mount.pk)), output_of("status")]
    found = json.loads(output_of("status", "--json"))
    assert found["subscriptions"] == []
    assert (found["mounts"][0]["applied_version"], found["mounts"][0]["age_s"], found["mounts"][0]["error"]) == (
        1,
        0,
        None,
    )
    side.status, side.knows_etags = 500, False
    with pytest.raises(CommandError) as refused:
        output_of("fetch")
    outputs += [str(refused.value), output_of("status")]
    assert "bad_status" in outputs[-1]
    assert [plain(each, mount.pk, side.port) for each in outputs] == snapshot
    assert json.loads(output_of("status", "--json"))["mounts"][0]["error"]["code"] == "bad_status"


def test_yes_trusts_the_found_key(policy: Policy, side: OtherSide, output_of: OutputOf) -> None:
    output_of(*mount_text(side, "--yes"))
    assert Mount.objects.get().fingerprint == KEY.public.fingerprint


def test_usage_of_another_site_is_ingested_and_held_hours_are_listed(
    policy: Policy, settings: LazySettings, output_of: OutputOf, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    with serving(OtherFeed(at=AT)) as feed:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{feed.port}"]
        output_of("publish", "--to", str(tmp_path), "--policy", "grid", "--entry", "/VO-A", "--name", "vo-a", "--open")
        feed.root = policy.publications.get().entry_uid
        feed.tell({})
        words = ("subscribe", feed.url, "--policy", "grid", "--entry", "/VO-A")
        with pytest.raises(CommandError):
            output_of(*words)
        assert not Subscription.objects.exists()
        outputs = [output_of(*words, "--yes")]
        (row,) = Subscription.objects.all()
        assert row.capacity_cores == 100
        outputs.append(output_of("fetch", "--usage", str(row.pk)))
        HeldHour.objects.create(subscription=row, hour_at=AT, number=1, cpu_s=1e9, most_cpu_s=1, found_at=AT)
        outputs.append(output_of("status"))
        assert [plain(each, row.pk, feed.port) for each in outputs] == snapshot
        (found,) = json.loads(output_of("status", "--json"))["subscriptions"]
        assert (found["state"], found["condition"]) == ("active", "held")
        assert (found["held_hours"], found["feed"], found["capacity_cores"]) == (1, "vo-a", 100.0)


def test_feeds_are_created_listed_and_never_written_as_files(
    policy: Policy, output_of: OutputOf, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    outputs = [output_of("feeds")]
    with pytest.raises(CommandError, match="--cores"):
        output_of("feeds", "--policy", "grid", "--entry", "/VO-A", "--name", "vo-a")
    made = output_of("feeds", "--policy", "grid", "--entry", "/VO-A", "--name", "vo-a", "--cores", "64", "--open")
    feed = UsageFeed.objects.get()
    assert (feed.name, feed.capacity_cores, feed.is_open, feed.sends_running) == ("vo-a", 64, True, True)
    outputs += [made, output_of("publish", "--to", str(tmp_path))]
    assert outputs == snapshot
    assert list(tmp_path.iterdir()) == []


def test_unknown_objects_give_no_traceback(policy: Policy, output_of: OutputOf) -> None:
    for words in (("fetch", "--mount", "7"), ("fetch", "--usage", "7"), ("fetch",)):
        with pytest.raises(CommandError, match="federation status"):
            output_of(*words)
    with pytest.raises(CommandError):
        output_of("mount", "http://169.254.169.254/", "--policy", "grid", "--entry", "/here", "--yes")
    with pytest.raises(CommandError):
        output_of("feeds", "--policy", "nowhere", "--cores", "1")


TREE = """
root:
  name: vo-a
  kind: vo
  children:
    - {name: P-A1, kind: project, shares: 50, children: []}
    - {name: P-A2, kind: project, shares: 30, children: []}
"""


def test_the_documented_commands_publish_a_vo_as_a_static_file(
    db: None,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
    output_of: OutputOf,
    tmp_path: Path,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    tree = tmp_path / "vo-a.yaml"
    tree.write_text(TREE)
    words = ("--policy", "vo-a", "--format", "yaml", "--make", "--publish", "--reason", "the tree", str(tree))
    call_command("import_policy", *words)
    call_command("import_policy", *words)  # made once
    folder = tmp_path / "www"
    outputs = [
        output_of("publish", "--to", str(folder), "--policy", "vo-a", "--entry", "/", "--name", "vo-a", "--open")
    ]
    fingerprint = output_of("keys").split()[-1]
    data = (folder / "vo-a.fairshare").read_bytes()
    assert open_document(data, trusted={fingerprint}).document["issuer"] == "vo-a.example"
    outputs.append(output_of("publish", "--to", str(folder)))
    assert [each.replace(str(folder), "FOLDER") for each in outputs] == snapshot
    text = (settings.BASE_DIR / "docs" / "federation.md").read_text()
    for step in ("import_policy --policy vo-a --format yaml --make --publish", "publish --to /srv/www/fairshare"):
        assert step in text
