"""First steps with slurmrestd alone: one address and a token, nothing pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.sshare_comparison import compare_with_sshare
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_due_runs
from apps.usage.models import Record, Source
from tests.sign_in import sign_in
from tests.usage.sources.slurmrestd_server import Daemon

pytestmark = pytest.mark.django_db
READ_AT = datetime.fromisoformat("2026-12-01T00:00:00Z")


def captured(golden_dir: Path, release: str) -> dict[str, tuple[int, bytes]]:
    """All answers of a real slurmrestd by their paths."""
    answers = {}
    for path in (golden_dir / "slurm" / release / "rest").glob("*.json"):
        family, *parser, name = path.stem.split("-")
        answers["/" + "/".join([family, *parser, name])] = (200, path.read_bytes())
    return answers


@pytest.fixture
def make(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    monkeypatch.setenv("FAIRSHARE_CLOCK", READ_AT.isoformat())
    (tmp_path / "c1").touch(0o600)
    (tmp_path / "c1").write_text("SLURM_JWT=a.token.here\n")
    made: list[Daemon] = []

    def make_one(answers: dict[str, tuple[int, bytes]]) -> Daemon:
        made.append(Daemon(answers))
        settings.FAIRSHARE_OUTBOUND_ALLOW = [made[-1].place]
        return made[-1]

    yield make_one
    for daemon in made:
        daemon.close()


@pytest.mark.deep
def test_a_command_sets_a_site_up_from_an_address_and_a_token(
    make: Callable[..., Daemon], golden_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = make(captured(golden_dir, "26.05.5"))
    arguments = ["scheduler", "setup", "c1", "--slurmrestd", daemon.address, "--publish", "--reason", "Try it"]
    call_command(*arguments)
    assert "users have sshare's number" in capsys.readouterr().out
    source, policy = Source.objects.get(slug="c1"), Policy.objects.get(slug="c1")
    assert (source.kind, source.collect_error) == ("slurm-rest", "")
    assert Record.objects.filter(source=source, state="finished").exists()
    assert load_tree(policy).name[1:] != []
    asked = {path.rpartition("/")[2] for path in daemon.paths}
    assert asked == {"v3", "associations", "conf", "shares", "partitions", "qos", "jobs"}


@pytest.mark.deep
def test_the_page_reads_the_tree_and_the_source_collects_the_log(
    make: Callable[..., Daemon], golden_dir: Path, client: Client
) -> None:
    daemon = make(captured(golden_dir, "24.11.5"))
    sign_in(client, User.objects.create_superuser("root-admin"))
    answer = client.post("/setup/slurmrestd/", {"address": daemon.address, "source_name": "c1"})
    assert answer.status_code in (302, 303), answer.content.decode()
    draft = FirstPolicyDraft.objects.get()
    assert (draft.facts["policy"], draft.facts["slurm_config"]) == ("c1", None)  # 24.11 doesn't show it
    assert work_due_runs(clock=lambda: READ_AT) >= 1
    assert Record.objects.filter(source__slug="c1", state="finished").exists()
    assert "c1" in client.get("/setup/").content.decode()


@pytest.mark.deep
def test_shares_of_slurm_are_beside_ours(make: Callable[..., Daemon], golden_dir: Path) -> None:
    daemon = make(captured(golden_dir, "26.05.5"))
    call_command("scheduler", "setup", "c1", "--slurmrestd", daemon.address)
    comparison = compare_with_sshare(FirstPolicyDraft.objects.get(), at=clock.now(), actor=COMMAND)
    assert comparison is not None
    assert len(comparison.factors.differences) == 12


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "answers none of /slurm/v0.0.38"),
        ({"/slurmdb/v0.0.45/associations": (200, b'{"associations": [{"acc')}, "something else than JSON"),
        ({"/slurm/v0.0.45/shares": (200, b'{"meta": {}}')}, "answer has no list of shares: ask again"),
        ({"/slurmdb/v0.0.45/qos": (401, b"Authentication failure")}, "rejects the token at /slurmdb/v0.0.45/qos"),
    ],
)
def test_half_a_site_leaves_nothing_behind_and_the_page_says_what_to_do(
    answers: dict[str, tuple[int, bytes]],
    message: str,
    make: Callable[..., Daemon],
    golden_dir: Path,
    client: Client,
) -> None:
    daemon = make({**captured(golden_dir, "26.05.5"), **answers} if answers else {})
    sign_in(client, User.objects.create_superuser("root-admin"))
    answer = client.post("/setup/slurmrestd/", {"address": daemon.address, "source_name": "c1"})
    assert answer.status_code == 422
    assert (FirstPolicyDraft.objects.count(), Source.objects.count()) == (0, 0)
    assert message in answer.content.decode()


def test_only_the_operator_opens_addresses_for_the_page(client: Client, settings: Any, tmp_path: Path) -> None:
    sign_in(client, User.objects.create_superuser("root-admin"))
    settings.FAIRSHARE_OUTBOUND_ALLOW = []
    for address in ("http://127.0.0.1:6820", "unix:/run/slurmrestd.sock", "file:///etc/passwd"):
        answer = client.post("/setup/slurmrestd/", {"address": address, "source_name": "c1"})
        assert (answer.status_code, Source.objects.count()) == (422, 0)
