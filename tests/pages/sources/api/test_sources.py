"""Usage sources by REST: set up, changed with If-Match, paused, collected; and who may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import AuditEvent
from apps.runs.models import Run
from apps.usage.models import Source
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.fixture
def admin(site: Site) -> Caller:
    return Caller(user=site.admin)


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> str:
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    return str(tmp_path)


def watched(folder: str, **more: Any) -> dict[str, Any]:
    terms = {"folder": folder, "format": "swf"}
    return {"slug": "logs", "name": "Logs", "kind": "directory", "collecting": terms, "collect_every_s": 300, **more}


def test_a_source_is_created_with_all_settings_and_due_at_once(admin: Caller, folder: str) -> None:
    answer = admin.post("usage/sources", watched(folder, origin="nsc", time_zone="Europe/Stockholm"))
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert made["collecting"] == {
        **{"folder": folder, "pattern": "*", "files": "whole", "format": "swf", "settle_s": 60},
        **{"listing": [], "timeout_s": 300},
    }
    assert (made["origin"], made["time_zone"], made["is_paused"]) == ("nsc", "Europe/Stockholm", False)
    assert made["collect_due_at"] == "2026-11-20T12:00:00Z"
    assert answer["ETag"] == made["etag"]
    assert AuditEvent.objects.filter(verb="source.made", subject="logs").count() == 1


def test_all_errors_are_reported_with_their_remedy(admin: Caller, folder: str) -> None:
    wrong = watched("/etc", collect_every_s=1, skew_tolerance_s=-1)
    answer = admin.post("usage/sources", wrong)
    assert answer.status_code == 422
    assert {field["where"] for field in answer.json()["fields"]} == {"collect_every_s", "skew_tolerance_s"}
    terms = {"folder": "/etc", "format": "cuneiform", "files": "some", "pattern": "a/b", "settle_s": -1, "more": 1}
    answer = admin.post("usage/sources", watched(folder, collecting=terms))
    names = ("folder", "format", "files", "pattern", "settle_s", "more")
    assert {field["where"] for field in answer.json()["fields"]} == {f"collecting.{name}" for name in names}
    assert "FAIRSHARE_COLLECT_FOLDERS" in str(answer.json()["fields"])
    oddities: list[dict[str, Any]] = [{"format": ["swf"]}, {"format": {}}, {"files": []}, {"settle_s": True}]
    for odd in (*oddities, {"pattern": 7}, {"listing": 5}):
        answer = admin.post("usage/sources", watched(folder, collecting={"folder": folder, **odd}))
        assert [field["where"] for field in answer.json()["fields"]] == [f"collecting.{name}" for name in odd]
    for name in ("x" * 1000, "x/" * 500, "\x00", 7):
        answer = admin.post("usage/sources", watched(folder, collecting={"folder": f"{folder}/{name}"}))
        assert [field["where"] for field in answer.json()["fields"]] == ["collecting.folder"]
    assert admin.post("usage/sources", watched(folder, slug="new")).json()["fields"][0]["where"] == "slug"
    answer = admin.post("usage/sources", watched(folder, time_zone="Mars/Olympus"))
    assert answer.json()["fields"][0]["where"] == "time_zone"
    assert not Source.objects.filter(slug="logs").exists()


def test_commands_and_addresses_must_be_permitted_by_the_operator(admin: Caller, tmp_path: Path, settings: Any) -> None:
    def problem(kind: str, **terms: Any) -> str:
        answer = admin.post("usage/sources", {"slug": "s", "name": "S", "kind": kind, "collecting": terms})
        assert answer.status_code == 422
        (field,) = answer.json()["fields"]
        return f"{field['where']}: {field['message']}"

    assert "isn't among the programs" in problem("command", command=["sacct", "-a"])
    settings.FAIRSHARE_COLLECT_COMMANDS = ["/bin/sh", "relative/sacct", str(tmp_path / "squeue")]
    assert "other than shells" in problem("command", command=["sh", "-c", "sacct"])
    assert "other than shells" in problem("command", command=["sacct"])
    assert "There is no program" in problem("command", command=["squeue", "--json"])
    assert "list of texts" in problem("command", command="squeue --json")
    assert "printable" in problem("command", command=["squeue", "a\nb"])
    for address in ("http://127.0.0.1:6820", "https://10.0.0.1", "https://169.254.169.254", "file:///etc/passwd"):
        assert problem("slurm-rest", address=address).startswith("collecting.address: ")
    assert "version" in problem("slurm-rest", address="https://slurm.example.org", version="../..")
    assert "both" in problem("slurm-rest", address="https://slurm.example.org", accounting=False, queue=False)


def test_a_change_needs_the_current_version_and_restarts_only_for_another_location(
    admin: Caller, folder: str, tmp_path: Path
) -> None:
    tag = admin.post("usage/sources", watched(folder)).json()["etag"]
    Source.objects.filter(slug="logs").update(cursor={"files": {"a": [1, 2, 3, "x"]}})
    assert admin.patch("usage/sources/logs", {"name": "New"}).status_code == 428
    assert admin.patch("usage/sources/logs", {"name": "New"}, if_match='"old"').status_code == 412
    changed = admin.patch("usage/sources/logs", {"name": "New", "collect_every_s": 600}, if_match=tag)
    assert (changed.json()["name"], changed.json()["collect_every_s"]) == ("New", 600)
    assert Source.objects.get(slug="logs").cursor != {}
    other = tmp_path / "other"
    other.mkdir()
    terms = {"folder": str(other), "format": "swf"}
    assert admin.patch("usage/sources/logs", {"collecting": terms}, if_match=changed["ETag"]).status_code == 200
    assert Source.objects.get(slug="logs").cursor == {}
    events = AuditEvent.objects.filter(verb="source.changed").order_by("id")
    assert [event.details["begins_anew"] for event in events] == [False, True]
    assert events[0].details["before"] == {"name": "Logs", "collect_every_s": 300}


def test_names_used_by_records_cannot_change(admin: Caller) -> None:
    source = admin.get("usage/sources/cluster-a")
    tag = source["ETag"]
    assert source.json()["counts"]["records"] > 0
    for name in ("namespace", "cluster"):
        refused = admin.patch("usage/sources/cluster-a", {name: "other"}, if_match=tag)
        assert (refused.status_code, refused.json()["code"]) == (409, "has_records")


def test_another_origin_changes_priorities(admin: Caller) -> None:
    before = admin.get("usage/sources/cluster-a")
    after = admin.patch("usage/sources/cluster-a", {"origin": "nsc"}, if_match=before["ETag"]).json()
    assert after["cursor"] == before.json()["cursor"] + 1


def test_collection_is_requested_once_and_not_while_paused(admin: Caller, folder: str) -> None:
    admin.post("usage/sources", watched(folder))
    first, second = (admin.post("usage/sources/logs/collect") for _ in range(2))
    assert (first.status_code, first.json()["kind"], first.json()["state"]) == (202, "usage_collect", "queued")
    assert first.json()["id"] == second.json()["id"]
    paused = admin.post("usage/sources/logs/pause").json()
    assert (paused["is_paused"], paused["collect_due_at"]) == (True, None)
    assert admin.post("usage/sources/logs/collect").json()["code"] == "paused"
    resumed = admin.post("usage/sources/logs/resume").json()
    assert (resumed["is_paused"], resumed["collect_due_at"]) == (False, "2026-11-20T12:00:00Z")
    assert admin.post("usage/sources/cluster-a/collect").json()["code"] == "not_collected"
    assert Run.objects.filter(kind="usage_collect").count() == 1


def test_a_source_token_collects_but_cannot_change_settings(site: Site, admin: Caller, folder: str) -> None:
    tag = admin.post("usage/sources", watched(folder)).json()["etag"]
    own = Caller(token=site.token("usage:write", source_slug="logs"))
    other = Caller(token=site.token("usage:write", source_slug="cluster-a"))
    hidden: tuple[int, str, list[str]] = (404, "not_found", [])
    forbidden: tuple[int, str, list[str]] = (403, "not_allowed", [])
    assert refused(other.post("usage/sources/logs/collect")) == hidden
    assert not Run.objects.filter(kind="usage_collect").exists()
    assert own.post("usage/sources/logs/collect").json()["kind"] == "usage_collect"
    assert refused(own.patch("usage/sources/logs", {"name": "x"}, if_match=tag)) == forbidden
    assert refused(own.post("usage/sources/logs/pause")) == forbidden
    assert refused(other.patch("usage/sources/logs", {"name": "x"}, if_match=tag)) == hidden
    logs = Source.objects.get(slug="logs")
    assert (logs.name, logs.is_paused) == ("Logs", False)
    free = Caller(token=site.token("usage:write", source_slug="sent"))
    assert free.post("usage/sources", {"slug": "sent", "name": "Sent"}).status_code == 201
    assert refused(free.post("usage/sources", watched(folder, slug="sent"))) == forbidden
    assert Source.objects.get(slug="sent").name == "Sent"
    everywhere = Caller(token=site.token("admin"))
    assert everywhere.patch("usage/sources/logs", {"name": "x"}, if_match=tag).json()["name"] == "x"


def test_only_administrators_read_collection_settings(site: Site, admin: Caller, folder: str) -> None:
    admin.post("usage/sources", watched(folder))
    Source.objects.filter(slug="logs").update(collect_error="There is no folder")
    seen = Caller(user=site.pia).get("usage/sources/logs").json()
    assert (seen["kind"], seen["collecting"], seen["collect_error"]) == ("directory", None, None)
    assert admin.get("usage/sources/logs").json()["collect_error"] == "There is no folder"


def test_the_default_collection_interval_is_five_minutes(admin: Caller, folder: str) -> None:
    terms = {"name": "Logs", "kind": "directory", "collecting": {"folder": folder}}
    made = admin.post("usage/sources", {"slug": "logs", **terms}).json()
    assert (made["collect_every_s"], made["collect_due_at"]) == (300, "2026-11-20T12:00:00Z")
    by_hand = admin.post("usage/sources", {"slug": "by-hand", **terms, "collect_every_s": None}).json()
    assert (by_hand["collect_every_s"], by_hand["collect_due_at"]) == (None, None)
    sent = admin.post("usage/sources", {"slug": "sent", "name": "Sent"}).json()
    assert sent["collect_every_s"] is None
    answer = admin.get("usage/sources/sent")
    turned = admin.patch("usage/sources/sent", terms, if_match=answer["ETag"]).json()
    assert turned["collect_every_s"] == 300
