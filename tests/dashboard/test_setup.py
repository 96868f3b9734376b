"""The first steps: a scheduler's tree, its log, 90 days, and a policy made of both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.actor import COMMAND, SYSTEM
from apps.accounts.models import User
from apps.policies.models import Policy, Revision
from apps.policies.trees import load_tree
from apps.priorities import served
from apps.priorities.models import Beginning
from apps.priorities.recompute import request_recompute
from apps.priorities.selectors import get_overview
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record

pytestmark = pytest.mark.django_db
PAGE = "/setup/"
DUMP = """\
Cluster - 'demo':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'physics':Description='p':Organization='o':Fairshare=60:GrpTRES=cpu=6
Account - 'biology':Description='b':Organization='o':Fairshare=40
Parent - 'physics'
User - 'ada':DefaultAccount='physics':Fairshare=1
Account - 'hep':Description='h':Organization='o':Fairshare=3
Parent - 'hep'
User - 'bo':DefaultAccount='hep':Fairshare=parent
Parent - 'biology'
User - 'carol':DefaultAccount='biology':Fairshare=1
"""
HEADER = "JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS\n"


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    served.forget()
    yield
    served.forget()


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("eva"))
    return client


def log_of(*jobs: tuple[str, str, datetime, int], local: bool = False) -> str:
    """(user, account, end, cores), an hour each."""
    lines = []
    for n, (user, account, end, cores) in enumerate(jobs, 1):
        start = end - timedelta(hours=1)
        times = [f"{at:%Y-%m-%dT%H:%M:%S}" if local else str(int(at.timestamp())) for at in (start, start, end)]
        lines.append(f"{n}|{user}|{account}|normal|COMPLETED|{'|'.join(times)}|3600|{cores}\n")
    return HEADER + "".join(lines)


def version() -> int:
    return Beginning.objects.get(is_open=True).version


def send_tree(client: Client, content: str | bytes = DUMP, name: str = "tree.cfg") -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    return client.post(PAGE + "tree/", {"file": SimpleUploadedFile(name, data), "format": "auto"})


def send_log(client: Client, content: str | bytes, **more: str) -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    form = {"file": SimpleUploadedFile("jobs.txt", data), "format": "auto", "source_name": "demo", "time_zone": ""}
    return client.post(PAGE + "log/", {**form, "version": version(), **more})


def work() -> None:
    for run in Run.objects.filter(state=Run.State.QUEUED, kind="usage_import"):
        work_run_now(run.pk)


def press(client: Client, what: str, **more: Any) -> Any:
    return client.post(f"{PAGE}{what}/", {"version": version(), **more})


def read(client: Client, path: str = PAGE) -> str:
    return re.sub(r"\s+", " ", client.get(path).content.decode()).replace("\u00a0", " ")


def bring_in(client: Client, *jobs: tuple[str, str, datetime, int]) -> None:
    """Tree and log, up to the comparison."""
    assert send_tree(client).status_code == 303
    assert send_log(client, log_of(*jobs)).status_code == 303
    work()
    assert press(client, "confirm").status_code == 303
    work()


def days_ago(n: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(days=n)


def test_from_a_dump_and_a_log_to_a_published_policy(admin: Client, shared_dir: Path) -> None:
    samples = shared_dir / "vectors" / "slurm" / "samples"
    answer = send_tree(admin, (samples / "sacctmgr-dump-demo.cfg").read_bytes(), "sacctmgr-dump-demo.cfg")
    assert answer.status_code == 303
    page = read(admin)
    assert "5 users in 3 groups" in page
    assert "1 entry has its parent’s shares" in page
    assert "/physics/bobby" in page
    assert "grptres (1 ×)" in page
    assert "sacctmgr-dump-demo.cfg" in page
    assert 'value="demo"' in page  # the source is called like the cluster

    log = (samples / "sacct-X-P.txt").read_bytes()
    assert send_log(admin, log).status_code == 303
    work()
    page = read(admin)
    assert "This log writes local times: in which time zone?" in page
    assert press(admin, "zone", time_zone="Europe/Nowhere").status_code == 422
    assert press(admin, "zone", time_zone="UTC").status_code == 303
    work()
    page = read(admin)
    assert "Import 39 records" in page or "new records" in page
    assert not Record.objects.exists()
    assert press(admin, "confirm").status_code == 303
    work()
    page = read(admin)
    assert "of your 2 groups got what they were promised" in page
    assert "First policy" in page
    assert not Policy.objects.exists()

    answer = press(admin, "publish", name="Demo", algorithm="slurm-fair-tree", half_life_days="7")
    assert (answer.status_code, answer["Location"]) == (303, "/policy/demo/")
    policy = Policy.objects.get()
    assert (policy.slug, policy.name, policy.head_number) == ("demo", "Demo", 1)
    tree = load_tree(policy)
    assert {"/physics/hep/alice", "/biology/carol"} <= {tree.path(i) for i in range(len(tree))}
    settings = Revision.objects.get().settings
    assert settings["algorithm"]["name"] == "slurm-fair-tree"
    assert settings["window"]["half_life_s"] == 7 * 86_400
    assert settings["window"]["length_s"] is None
    work_run_now(request_recompute(policy_slug="demo", at=datetime.now(UTC), actor=COMMAND).pk)
    found = get_overview(policy_slug="demo", actor=SYSTEM)
    assert found is not None
    assert found.n_unmapped == 0
    assert found.usage_core_s > 0
    assert admin.get("/policy/demo/").status_code == 200
    assert "Choose a file" in read(admin)  # the next beginning starts from nothing
