"""Usage sources on pages: set up, changed, paused, resumed, collected, and what pages report of it."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, Source
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import BY_HAND, tag_of
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
NEW = "/usage/sources/new/"
LOG = "; UnixStartTime: 1700000000\n1 10 0 600 8 -1 -1 8 3600 -1 1 1 1 -1 1 -1 -1 -1\n"


@pytest.fixture
def as_admin(client: Client) -> Client:
    sign_in(client, User.objects.create_superuser("alice"))
    return client


@pytest.fixture
def as_bob() -> Client:
    return sign_in(Client(), User.objects.create_user("bob"))


@pytest.fixture
def spool(tmp_path: Path, settings: Any) -> Path:
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def typed(client: Client, address: str, **changes: Any) -> dict[str, Any]:
    """What the form holds as it is shown, with changes typed in."""
    form = client.get(address).context["form"]
    values = {field.name: field.value() for field in form}
    given = {name: value for name, value in values.items() if value not in (None, "", False)}
    return {name: value for name, value in {**given, **changes}.items() if value is not None}


def set_up(client: Client, spool: Path, **changes: Any) -> Source:
    address = f"{NEW}?kind=directory"
    given = typed(client, address, name="Abisko", slug="abisko", folder=str(spool), **changes)
    response = client.post(address, given)
    assert response.status_code == 303, response.context["form"].errors
    assert response["Location"] == "/usage/sources/abisko/"
    return Source.objects.get(slug="abisko")


def drop(spool: Path, text: str) -> None:
    """A file of finished jobs, written an hour before the clock of these tests."""
    written_s = clock.now().timestamp() - 3_600
    (spool / "a.swf").write_text(text)
    os.utime(spool / "a.swf", (written_s, written_s))


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def state_of(client: Client) -> str | None:
    return read(client.get("/usage/sources/abisko/")).item("collecting").attributes["data-state"]


def test_the_first_step_chooses_the_kind_of_collection(as_admin: Client) -> None:
    page = as_admin.get(NEW)
    for kind in BY_HAND:
        assert f"{NEW}?kind={kind}" in page.content.decode()
        assert as_admin.get(f"{NEW}?kind={kind}").status_code == 200
    assert f"{NEW}?kind=peer" not in page.content.decode()
    assert NEW in as_admin.get("/usage/sources/").content.decode()


def test_a_watched_folder_is_set_up_and_its_files_are_imported(as_admin: Client, spool: Path) -> None:
    source = set_up(as_admin, spool, collect_every="2.5", expected_every="60", origin="nsc", settle="0")
    assert (source.kind, source.collect_every_s, source.expected_every_s) == ("directory", 150, 3600)
    assert source.collecting == {
        **{"folder": str(spool), "pattern": "*", "files": "whole", "format": "auto", "settle_s": 0},
        **{"listing": [], "timeout_s": 300},
    }
    drop(spool, LOG)
    assert as_admin.post("/usage/sources/abisko/collect/")["Location"] == "/usage/sources/abisko/#collecting"
    assert state_of(as_admin) == "at_work"
    assert work_run_now(Run.objects.get(kind="usage_collect").pk).counts["new"] == 1
    assert state_of(as_admin) == "works"
    assert f"{spool}/*" in text_of(as_admin.get("/usage/sources/abisko/"))


def test_errors_are_at_their_fields_and_the_input_is_kept(as_admin: Client, spool: Path) -> None:
    address = f"{NEW}?kind=directory"
    wrong = typed(as_admin, address, name="Abisko", slug="abisko", folder="/etc", pattern="a/b", time_zone="Mars")
    answer = as_admin.post(address, wrong)
    assert answer.status_code == 422
    form = answer.context["form"]
    assert "time_zone" in form.errors
    assert form["folder"].value() == "/etc"
    answer = as_admin.post(address, {**wrong, "time_zone": "Europe/Stockholm"})
    assert {"folder", "pattern"} <= set(answer.context["form"].errors)
    assert "FAIRSHARE_COLLECT_FOLDERS" in read(answer, 422).text("#id_folder_error")
    assert not Source.objects.exists()
    make_source(NewSource(slug="abisko", name="x"), at=clock.now(), actor=SYSTEM)
    taken = as_admin.post(address, typed(as_admin, address, name="A", slug="abisko", folder=str(spool)))
    assert "slug" in taken.context["form"].errors


def test_a_command_is_split_into_arguments_and_shown_again_as_it_was_typed(
    as_admin: Client, tmp_path: Path, settings: Any
) -> None:
    program = tmp_path / "sacct"
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(program)]
    address = f"{NEW}?kind=command"
    broken = as_admin.post(address, typed(as_admin, address, name="S", slug="slurm", command="sacct 'x"))
    assert broken.context["form"].has_error("command", "unbalanced_quotes")
    given = typed(as_admin, address, name="S", slug="slurm", command="sacct -S {from} '--name=a b; rm -rf /' $HOME")
    assert as_admin.post(address, given).status_code == 303
    source = Source.objects.get()
    assert source.collecting["command"] == ["sacct", "-S", "{from}", "--name=a b; rm -rf /", "$HOME"]
    assert (source.collecting["overlap_s"], source.collecting["look_back_s"]) == (3600, 7 * 86400)
    again = "/usage/sources/slurm/settings/"
    shown = as_admin.get(again).context["form"]["command"].value()
    assert shown == "sacct -S {from} '--name=a b; rm -rf /' $HOME"
    assert as_admin.post(again, typed(as_admin, again, tag=tag_of(source))).status_code == 303
    assert Source.objects.get().collecting == source.collecting


def test_two_administrators_do_not_overwrite_each_other(as_admin: Client, spool: Path) -> None:
    source = set_up(as_admin, spool)
    address, tag = "/usage/sources/abisko/settings/", tag_of(source)
    assert f'name="tag" value="{tag}"' in as_admin.get(address).content.decode()
    mine, theirs = (typed(as_admin, address, tag=tag, name=name) for name in ("Mine", "Theirs"))
    assert as_admin.post(address, theirs).status_code == 303
    late = as_admin.post(address, mine)
    assert (late.status_code, Source.objects.get().name) == (412, "Theirs")
    assert late.context["form"].has_error("__all__", "stale")
    assert read(late, 412).has('form [role="alert"]')


def test_saving_unchanged_settings_changes_nothing(as_admin: Client, spool: Path) -> None:
    source = set_up(as_admin, spool, collect_every="7", expected_every="90")
    address = "/usage/sources/abisko/settings/"
    assert as_admin.post(address, typed(as_admin, address, tag=tag_of(source))).status_code == 303
    assert tag_of(Source.objects.get()) == tag_of(source)


def test_a_source_is_paused_and_resumed_visibly(as_admin: Client, spool: Path) -> None:
    set_up(as_admin, spool)
    assert as_admin.post("/usage/sources/abisko/pause/").status_code == 303
    page = read(as_admin.get("/usage/sources/abisko/"))
    assert page.item("collecting").attributes["data-state"] == "paused"
    assert not re.search(r"\d", page.text('[data-testid="next-collection"]')), "no time"
    assert page.has("#resume")
    assert not page.has("#pause")
    assert as_admin.post("/usage/sources/abisko/collect/").status_code == 409
    assert as_admin.post("/usage/sources/abisko/resume/").status_code == 303
    assert Source.objects.get().collect_due_at is not None


def test_administrators_see_the_reason_of_a_failure_and_others_the_failure(
    as_admin: Client, as_bob: Client, spool: Path
) -> None:
    set_up(as_admin, spool)
    spool.rmdir()
    as_admin.post("/usage/sources/abisko/collect/")
    work_run_now(Run.objects.get(kind="usage_collect").pk)
    found, seen = (read(one.get("/usage/sources/abisko/")) for one in (as_admin, as_bob))
    assert (state_of(as_admin), state_of(as_bob)) == ("failed", "failed")
    assert str(spool) in found.text('[data-testid="collect-error"]')
    assert found.has("#collect")
    assert str(spool) not in text_of(as_bob.get("/usage/sources/abisko/"))
    assert not seen.has('[data-testid="collect-error"]')
    assert not seen.has("#collect")


def test_the_card_is_polled_until_the_collection_ends(as_admin: Client, spool: Path) -> None:
    set_up(as_admin, spool)
    as_admin.post("/usage/sources/abisko/collect/")
    fragment = "/usage/sources/abisko/_collecting"
    assert "data-poll" in as_admin.get(fragment, headers={"HX-Request": "true"}).content.decode()
    work_run_now(Run.objects.get(kind="usage_collect").pk)
    after = as_admin.get(fragment, headers={"HX-Request": "true"}).content.decode()
    assert "data-poll" not in after
    assert as_admin.get(fragment)["Location"] == "/usage/sources/abisko/"


def test_reading_never_writes_and_only_administrators_set_up(as_bob: Client, as_admin: Client, spool: Path) -> None:
    source = set_up(as_admin, spool)
    for path in (NEW, "/usage/sources/abisko/settings/"):
        assert as_bob.get(path).status_code == 403
    for verb in ("pause", "resume", "collect"):
        assert as_bob.post(f"/usage/sources/abisko/{verb}/").status_code == 403
        assert as_admin.get(f"/usage/sources/abisko/{verb}/").status_code == 405
    source.refresh_from_db()
    assert not source.is_paused
    assert source.collect_due_at is not None
    assert clock.now() - source.collect_due_at < timedelta(minutes=5)


def test_rejected_lines_of_a_collection_are_shown_like_those_of_an_import(as_admin: Client, spool: Path) -> None:
    set_up(as_admin, spool, settle="0")
    drop(spool, LOG + "1 2 3\n")
    as_admin.post("/usage/sources/abisko/collect/")
    run = work_run_now(Run.objects.get(kind="usage_collect").pk)
    assert run.counts.get("rejected") == 1, (run.error, run.result)
    page = read(as_admin.get(f"/usage/imports/{Import.objects.get().pk}/"))
    assert page.item("rejected-line").attributes["data-code"] == "too_few_fields"
    text = page.text('[data-testid="rejected-line"] small')
    assert "a.swf" in text
    assert re.findall(r"\d+", text) == ["3", "3", "18"]
    assert page.item("undo").attributes["data-code"] == "collected"
    refused = as_admin.post(f"/usage/imports/{Import.objects.get().pk}/undo/", {"reason": "x"})
    assert (refused.status_code, Record.objects.count(), Import.objects.get().undone_run) == (303, 1, None)
    assert "a.swf" in text_of(as_admin.get("/usage/sources/abisko/"))


def test_a_source_that_was_sent_records_is_collected_from_now_on(as_admin: Client, settings: Any) -> None:
    """The settings page changes the kind; the new fields have their usual values, the source's own ones stay."""
    settings.FAIRSHARE_COLLECT_COMMANDS = ["/bin/true"]
    make_source(NewSource(slug="nasty", name="Nasty", cluster="c1"), at=clock.now(), actor=SYSTEM)
    address = "/usage/sources/nasty/settings/?kind=command"
    assert as_admin.get("/usage/sources/nasty/settings/").context["kind"] == "push"
    given = typed(as_admin, address)
    assert (given["name"], given["cluster"]) == ("Nasty", "c1")
    assert given["command"].startswith("sacct -a -X -P --duplicates -S {from} -E {to}")
    tag = as_admin.get(address).context["tag"]
    done = as_admin.post(address, {**given, "command": "true {from}", "tag": tag})
    assert done.status_code == 303, done.context["form"].errors
    source = Source.objects.get(slug="nasty")
    assert (source.kind, source.collecting["command"], source.cluster) == ("command", ["true", "{from}"], "c1")
    assert source.collect_due_at is not None
    assert as_admin.get("/usage/sources/nasty/settings/?kind=peer").context["kind"] == "command", "peers subscribe"


def test_the_short_name_is_made_from_the_name(as_admin: Client, spool: Path) -> None:
    address = f"{NEW}?kind=directory"
    given = typed(as_admin, address, name="Abisko Ålesund 2", folder=str(spool))
    assert as_admin.post(address, given).status_code == 303
    assert Source.objects.get().slug == "abisko-alesund-2"
    refused = as_admin.post(address, {**given, "name": "数"})
    assert "slug" in refused.context["form"].errors
