"""Hosts of one site with other keys are refused; with another release, other settings or another clock, named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.test import Client

from apps.core.code_paths import REPOSITORY
from apps.runs import presence
from apps.runs.models import SiteProcess
from fairshare_web.celery import prepare_beat, prepare_worker
from tests.commands import run_manage

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = ("SECRET_KEY", "FAIRSHARE_TOKEN_PEPPERS", "FAIRSHARE_PSEUDONYM_KEY")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    presence.fingerprints.cache_clear()
    yield
    presence.fingerprints.cache_clear()


@pytest.fixture
def other() -> SiteProcess:
    """A worker of another host, with what this process has."""
    presence.report("worker")
    SiteProcess.objects.update(holder="elsewhere:1:2:3", host="node2")
    return SiteProcess.objects.get()


def other_has(other: SiteProcess, **shared: Any) -> None:
    other.shared |= shared
    other.save()


def found() -> list[str]:
    return [message.msg for message in run_checks(tags=["database"], databases=["default"])]


def codes() -> dict[str, str]:
    degraded = Client().get("/readyz").json()["degraded"]
    return {one["subject"]: one["message"] for one in degraded if one["code"] == "processes_differ"}


def test_processes_with_all_in_common_work_beside_each_other(other: SiteProcess) -> None:
    presence.report("web")
    assert presence.find_differences() == []
    assert presence.refusal() == ""
    assert (found(), codes()) == ([], {})
    assert SiteProcess.objects.count() == 2


@pytest.mark.parametrize("key", KEYS)
def test_a_process_with_another_key_does_not_start(other: SiteProcess, key: str) -> None:
    other_has(other, **{key: ["0" * 24]})
    assert found() == [f"worker on node2 has another {key}."]
    assert f"worker on node2 has another {key}" in presence.refusal()
    for start in (prepare_worker, prepare_beat):
        with pytest.raises(SystemExit, match=key):
            start()
    with pytest.raises(CommandError, match=key):
        call_command("serve", "web")
    assert codes() == {"worker": f"has another {key} than the process asked"}


@pytest.mark.deep
def test_the_command_itself_refuses_another_key_and_starts_each_role(other: SiteProcess, tmp_path: Any) -> None:
    """As a process of its own: most roles are started without the models of this product."""
    named = connection.settings_dict
    url = f"postgres://{named['USER']}@{quote(str(named['HOST']), safe='')}:{named['PORT']}/{named['NAME']}"
    environment = {**os.environ, "DATABASE_URL": url, "SECRET_KEY": "another one", "FAIRSHARE_VAR": str(tmp_path)}

    def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "serve", *arguments]
        return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)

    web = serve("web")
    assert (web.returncode, "worker on node2 has another SECRET_KEY" in web.stderr) == (1, True), web.stderr
    helps = [serve(role, "--help") for role in ("prepare", "worker", "outgoing", "beat")]
    assert [(each.returncode, each.stderr) for each in helps] == [(0, "")] * 4


def test_a_key_that_is_being_replaced_is_named_and_not_refused(other: SiteProcess, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the next one"
    presence.fingerprints.cache_clear()
    assert presence.refusal() == ""
    assert [str(each) for each in presence.find_differences()] == ["worker on node2 has another SECRET_KEY"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("release", "0123456789abcdef"),
        ("TIME_ZONE", "Europe/Stockholm"),
        ("CELERY_BROKER_URL", "f" * 24),
        ("folder FAIRSHARE_VAR/uploads", "another"),
        ("FAIRSHARE_PLUGINS_LEFT_OUT", ["all"]),
    ],
)
@pytest.mark.fault("F26")
def test_another_release_or_setting_is_named_and_ridden_out(other: SiteProcess, name: str, value: Any) -> None:
    other_has(other, **{name: value})
    assert presence.refusal() == ""
    assert found() == [f"worker on node2 has another {name}."]
    assert codes() == {"worker": f"has another {name} than the process asked"}
    other_has(other, **{name: presence.fingerprints()[name]})
    assert found() == []


def test_a_field_of_a_later_release_is_no_difference(other: SiteProcess) -> None:
    other_has(other, of_a_later_release="x")
    del other.shared["TIME_ZONE"]
    other.save()
    assert found() == []


def test_a_clock_that_is_off_by_more_than_two_seconds_is_named(other: SiteProcess) -> None:
    SiteProcess.objects.update(clock_ahead_s=-1.9)
    assert found() == []
    SiteProcess.objects.update(clock_ahead_s=2.4)
    assert found() == ["worker on node2 has another clock than the database (+2 s)."]


def test_processes_that_are_gone_are_not_compared(other: SiteProcess) -> None:
    other_has(other, SECRET_KEY=["0" * 24])
    SiteProcess.objects.update(seen_at=F("seen_at") - timedelta(seconds=presence._LIVES_S + 1))
    assert presence.refusal() == ""
    code = "from apps.runs.worker_identity import own_holder; print(own_holder())"
    ended = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    SiteProcess.objects.update(seen_at=F("seen_at") + timedelta(days=1), holder=ended.stdout.strip())
    assert presence.refusal() == "", "on this machine it has certainly ended"


def test_old_rows_go_and_each_process_has_one(other: SiteProcess) -> None:
    SiteProcess.objects.update(seen_at=F("seen_at") - timedelta(days=2))
    for _time in range(2):
        presence.report("web")
    assert list(SiteProcess.objects.values_list("role", flat=True)) == ["web"]


def test_stored_fingerprints_hold_no_secret(other: SiteProcess, settings: Any) -> None:
    text = str(SiteProcess.objects.values().get())
    secrets = [settings.SECRET_KEY, *settings.FAIRSHARE_TOKEN_PEPPERS, settings.FAIRSHARE_PSEUDONYM_KEY]
    assert [secret for secret in secrets if secret in text] == []


def test_a_folder_of_uploads_has_one_name_however_many_make_it(tmp_path: Path) -> None:
    code = "from apps.runs.presence import _uploads_id; print(_uploads_id())"
    environment = {**os.environ, "FAIRSHARE_VAR": str(tmp_path)}

    def ask(_n: int) -> str:
        return run_manage("shell", "--no-imports", "-c", code, env=environment, text=True).stdout

    with ThreadPoolExecutor(3) as pool:
        (name,) = set(pool.map(ask, range(3)))
    assert name.strip()
    assert sorted(path.name for path in (tmp_path / "uploads").iterdir()) == ["folder-id"]
