"""Pages: an undone import, all or nothing, and hours that came from two sources."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent, User
from apps.core import clock
from apps.runs.services import work_run_now
from apps.usage.models import Import, Overlap, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.instants import AT
from tests.pages.page import Page, read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db

HEADER = "; UnixStartTime: 1132444805\n"


@pytest.fixture
def as_admin(client: Client) -> Client:
    sign_in(client, User.objects.create(username="admin", is_superuser=True))
    return client


@pytest.fixture
def source() -> Source:
    return make_source(NewSource(slug="abisko", name="Abisko"), at=AT, actor=COMMAND)


def line(job: int, *, run: int = 3600) -> str:
    return f"{job} 0 -1 {run} 1 -1 -1 -1 -1 -1 1 1 1 -1 -1 1 -1 -1\n"


def sent(client: Client, body: str, **given: str) -> Import:
    fields = {"source": "abisko", "format": "auto", "time_zone": "", "mode": "real", "all_or_nothing": "false", **given}
    response = client.post(
        reverse("pages:upload"), fields | {"file": SimpleUploadedFile("a.swf", (HEADER + body).encode())}
    )
    assert response.status_code == 303, response.content.decode()
    made = Import.objects.latest("pk")
    work_run_now(made.run_id)
    return Import.objects.get(pk=made.pk)


def page(client: Client, name: str, **given: int) -> Page:
    return read(client.get(reverse(f"pages:{name}", kwargs=given)))


def undo(client: Client, made: Import, reason: str = "") -> None:
    url = reverse("pages:import-undo", kwargs={"import_id": made.pk})
    response = client.post(url, {"reason": reason})
    assert (response.status_code, response["Location"]) == (303, reverse("pages:import", args=[made.pk]))


@pytest.mark.usefixtures("source")
def test_an_import_is_undone_after_a_preview(as_admin: Client) -> None:
    made = sent(as_admin, line(1) + line(2))
    before = page(as_admin, "import", import_id=made.pk)
    assert before.item("undo").attributes["data-state"] == "can"
    assert before.item("undo-import").attributes["data-value"] == "2"
    undo(as_admin, made, "the wrong month")
    made.refresh_from_db()
    assert made.undone_run is not None
    during = page(as_admin, "import", import_id=made.pk)
    assert during.item("undo").attributes["data-state"] == "at_work"
    assert during.has('[hx-trigger="every 2s"]')
    work_run_now(made.undone_run.pk)
    after = page(as_admin, "import", import_id=made.pk)
    assert after.item("undo").attributes["data-state"] == "done"
    assert re.findall(r"\d+", after.text('[data-testid="undo-text"]')) == ["2"]
    assert not after.has("[hx-trigger]")
    assert not Record.objects.exists()
    assert AuditEvent.objects.get(verb="usage.undo_asked").details["reason"] == "the wrong month"


@pytest.mark.usefixtures("source")
def test_an_import_that_cannot_be_undone_names_the_reason(as_admin: Client) -> None:
    first = sent(as_admin, line(1))
    later = sent(as_admin, line(1, run=4000))
    shown = page(as_admin, "import", import_id=first.pk)
    assert shown.item("undo").attributes["data-state"] == "cannot"
    assert shown.error_codes() == ["replaced_since"]
    why = shown.text('[data-testid="undo-text"]')
    assert f"{later.pk} (a.swf)" in why
    assert not shown.has('[data-testid="undo-import"]')
    undo(as_admin, first)
    assert page(as_admin, "import", import_id=first.pk).texts("#problem .bad") == [why]
    assert Import.objects.get(pk=first.pk).undone_run_id is None


@pytest.mark.usefixtures("source")
def test_a_dry_run_cannot_be_undone(as_admin: Client) -> None:
    shown = page(as_admin, "import", import_id=sent(as_admin, line(1), mode="dry").pk)
    assert not shown.has('[data-testid="undo"]')


@pytest.mark.usefixtures("source")
def test_all_or_nothing_is_chosen_on_upload_and_can_change_after_a_dry_run(
    as_admin: Client,
) -> None:
    refused = sent(as_admin, line(1) + "bad\n", all_or_nothing="true")
    assert refused.run.state == "failed"
    assert not Record.objects.exists()
    dry = sent(as_admin, line(1) + "bad\n", all_or_nothing="true", mode="dry")
    assert page(as_admin, "import", import_id=dry.pk).has('[data-testid="all-or-nothing"]')
    as_admin.post(reverse("pages:import-confirm", args=[dry.pk]), {"take": "good"})
    real = Import.objects.latest("pk")
    assert not real.all_or_nothing
    work_run_now(real.run_id)
    assert Record.objects.count() == 1


def overlapping() -> None:
    peer = make_source(NewSource(slug="peer", name="Peer", origin="elsewhere"), at=AT, actor=COMMAND)
    start = clock.now() - timedelta(days=3)
    row = RecordRow(job="1", user="a", site="north", cpus=2, start_at=start, end_at=start + timedelta(hours=3))
    for one in (Source.objects.get(slug="abisko"), peer):
        ingest_batch(source=one, rows=[row], at=clock.now())


@pytest.mark.usefixtures("source")
def test_overlapping_hours_of_two_sources_need_a_decision_with_a_reason(as_admin: Client) -> None:
    assert page(as_admin, "overlaps").has('[data-testid="no-overlaps"]')
    overlapping()
    shown = page(as_admin, "overlaps")
    assert not shown.has('[data-testid="no-overlaps"]')
    assert shown.item("decisions-wanted").attributes["data-value"] == "1"
    assert shown.item("overlap").attributes["data-state"] == "held"
    title = shown.text('[data-testid="overlap-title"]')
    assert [name for name in ("north", "Peer", "Abisko") if name not in title] == []
    hidden = {one.attributes["name"]: one.attributes["value"] for one in shown.all('main [type="hidden"]')}
    assert hidden.items() >= {"site": "north", "kept": "abisko", "held": "peer"}.items()
    assert "Abisko" in shown.text('[name="decision"][value="drop"]')
    asked = {"site": "north", "kept": "abisko", "held": "peer", "decision": "drop", "reason": " "}
    refused = as_admin.post(reverse("pages:overlap-decide"), asked)
    assert [one.attributes["name"] for one in read(refused, 422).all('[aria-invalid="true"]')] == ["reason"]
    done = as_admin.post(reverse("pages:overlap-decide"), asked | {"reason": "the same jobs"})
    assert (done.status_code, done["Location"]) == (303, reverse("pages:overlaps"))
    assert Overlap.objects.get().state == "dropped"
    after = page(as_admin, "overlaps")
    assert after.item("decisions-wanted").attributes["data-value"] == "0"
    assert after.item("overlap").attributes["data-state"] == "dropped"
    assert after.text('[data-testid="reason"]') == "the same jobs"


@pytest.mark.usefixtures("source")
def test_all_users_see_overlaps_and_only_administrators_decide(client: Client) -> None:
    overlapping()
    sign_in(client, User.objects.create(username="bob"))
    shown = page(client, "overlaps")
    assert shown.has('[data-testid="administrator-decides"]')
    assert not shown.has('[name="decision"]')
    asked = {"site": "north", "kept": "abisko", "held": "peer", "decision": "drop", "reason": "x"}
    assert client.post(reverse("pages:overlap-decide"), asked).status_code == 403
    assert Overlap.objects.get().state == "held"


@pytest.mark.usefixtures("source")
def test_overlapping_sources_of_one_scheduler_can_be_merged(as_admin: Client) -> None:
    first = Source.objects.get(slug="abisko")
    second = make_source(NewSource(slug="live", name="Live", namespace=first.namespace), at=AT, actor=COMMAND)
    start = clock.now() - timedelta(days=3)
    times: dict[str, Any] = {"submit_at": start, "start_at": start, "end_at": start + timedelta(hours=3)}
    for one in (first, second):
        ingest_batch(source=one, rows=[RecordRow(job="1", user="a", cpus=2, **times)], at=clock.now())
    ingest_batch(source=second, rows=[RecordRow(job="2", user="a", cpus=2, **times)], at=clock.now())
    assert page(as_admin, "overlaps").has("button[value='merge']")
    given = {"site": first.site, "kept": "abisko", "held": "live", "decision": "merge", "reason": "one scheduler"}
    assert as_admin.post(reverse("pages:overlap-decide"), given).status_code == 303
    assert Record.objects.filter(source=first).count() == 2
    assert list(Source.objects.values_list("slug", flat=True)) == ["abisko"]
    assert page(as_admin, "overlaps").has('[data-testid="no-overlaps"]')


@pytest.mark.usefixtures("source")
def test_sources_of_two_sites_cannot_be_merged(as_admin: Client) -> None:
    overlapping()
    assert not page(as_admin, "overlaps").has("button[value='merge']")
