"""The pages on which a policy comes from a file and goes to one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.core import clock
from apps.policies.formats.registry import FORMATS
from apps.policies.models import ChangeSet, Grant, Policy
from tests.pages.grid import SLUG, TRICKY, Grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

PAGE = f"/policy/{SLUG}/files/"
TABLE = "path,shares\n/atlas,90\n/cms/dave,3\n"


@pytest.fixture
def grid(unused_grid: Grid) -> Grid:
    return unused_grid


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def send(client: Client, text: str, **more: str) -> Any:
    file = SimpleUploadedFile("policy.txt", text.encode())
    return client.post(PAGE, {"file": file, "format": "auto", "missing": "keep", **more})


def head() -> int:
    return Policy.objects.get(slug=SLUG).head_number


def test_a_file_is_shown_as_a_draft_and_published_with_a_reason(admin: Client) -> None:
    answer = send(admin, TABLE)
    draft = ChangeSet.objects.get(state="draft")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PAGE}{draft.pk}/")
    shown = admin.get(answer.headers["Location"])
    page = read(shown)
    counts = {what: n for what, n in shown.context["comparison"].counts() if n}
    assert counts["shares changed"] == 2
    assert re.findall(r"\d+", page.text("#verdict")) == [str(n) for n in counts.values()]
    assert sum(counts.values()) == len(page.items("entry-change")), "each line is counted once"
    kinds = {text_of(row).split()[0]: row.attributes["data-state"] for row in page.items("entry-change")}
    assert (kinds["/atlas"], kinds["/cms/dave"], kinds["/cms/erin"]) == ("more", "more", "less")
    assert page.has('[name="step"][value="publish"]')
    assert head() == 2
    answer = admin.post(f"{PAGE}{draft.pk}/", {"version": draft.version, "step": "publish", "reason": "New year"})
    assert (answer.status_code, head()) == (303, 3)
    assert ChangeSet.objects.get(pk=draft.pk).reason == "New year"
    assert not read(admin.get(f"{PAGE}{draft.pk}/")).has('[name="step"]')


def test_entries_that_a_file_leaves_out_are_kept_unless_archiving_is_chosen(admin: Client) -> None:
    assert read(admin.get(PAGE)).each('[name="missing"][checked]', "value") == ["keep"]
    file = SimpleUploadedFile("policy.csv", b"path,shares\n/atlas,90\n")
    answer = admin.post(PAGE, {"file": file, "format": "auto"})
    assert answer.status_code == 422, "one that names neither is asked"
    send(admin, "path,shares\n/atlas,90\n")
    assert {edit["op"] for edit in ChangeSet.objects.get(state="draft").operations} == {"set_shares"}


def test_a_draft_is_discarded(admin: Client) -> None:
    send(admin, TABLE)
    draft = ChangeSet.objects.get(state="draft")
    assert admin.post(f"{PAGE}{draft.pk}/", {"version": draft.version, "step": "discard"}).status_code == 303
    assert (ChangeSet.objects.get(pk=draft.pk).state, head()) == ("withdrawn", 2)


def test_a_draft_decided_by_another_user_is_not_decided_twice(admin: Client) -> None:
    send(admin, TABLE)
    draft = ChangeSet.objects.get(state="draft")
    given = {"version": draft.version, "step": "publish", "reason": "x"}
    assert admin.post(f"{PAGE}{draft.pk}/", given).status_code == 303
    answer = admin.post(f"{PAGE}{draft.pk}/", given)
    assert (read(answer, 409).error_codes(), head()) == (["already_published"], 3)


def test_all_invalid_lines_are_in_one_table(admin: Client) -> None:
    answer = send(admin, "path,shares\n/atlas,x\n/cms,101%\n/<b>,1\n")
    page = read(answer, 422)
    places = [place.split(", ") for place in page.texts('[data-testid="wrong-places"] th[scope="row"]')]
    assert [(re.findall(r"\d+", line), where) for line, where in places] == [
        (["2"], "/atlas: shares"),
        (["3"], "/cms: shares"),
    ]
    assert page.error_codes() == ["bad_document"]
    assert not ChangeSet.objects.filter(state="draft").exists()


@pytest.mark.parametrize(("text", "code"), [("hello", "invalid"), ("\0", "bad_encoding")])
def test_a_file_of_unknown_format_is_refused(admin: Client, text: str, code: str) -> None:
    answer = send(admin, text)
    assert (answer.status_code, answer.context["refusal"].code) == (422, code)
    assert not ChangeSet.objects.filter(state="draft").exists()


def test_a_form_without_a_file_is_refused(admin: Client) -> None:
    answer = admin.post(PAGE, {"format": "auto", "missing": "keep"})
    assert answer.context["form"].has_error("file", "required")
    assert read(answer, 422).has("#id_file_error")


def test_a_file_equal_to_the_policy_makes_no_draft(admin: Client) -> None:
    for name in FORMATS:
        download = admin.get(f"{PAGE}{name}/")
        text = b"".join(download).decode()
        assert "attachment" in download.headers["Content-Disposition"]
        answer = send(admin, text, format=name, missing="archive")
        assert answer.headers["Location"] == PAGE
    assert not ChangeSet.objects.filter(state="draft").exists()


def test_a_script_for_slurm_is_downloaded_once_its_cluster_is_named(admin: Client) -> None:
    page = read(admin.get(PAGE))
    assert page.has('[data-testid="name-cluster"] [name="cluster"]')
    assert not page.has(f'[href="{PAGE}sacctmgr-script/"]')
    assert b"No cluster is known" in admin.get(f"{PAGE}sacctmgr-script/").content
    text = b"".join(admin.get(f"{PAGE}sacctmgr-script/", {"cluster": "tux"})).decode()
    commands = [line for line in text.splitlines() if line.startswith("add account")]
    assert commands
    assert all(" Cluster=tux " in line for line in commands)


def test_the_page_lists_what_each_format_omits(admin: Client) -> None:
    answer = admin.get(PAGE)
    page = read(answer)
    dropped = {each["format"].name: each["dropped"] for each in answer.context["exports"]}
    assert {name for name, what in dropped.items() if not what} == {"json", "yaml"}
    for name, what in dropped.items():
        shown = page.texts(f'[data-testid="left-out"][data-key="{name}"] li')
        assert shown == [" ".join(each.split()) for each in what]
    assert any(TRICKY in what for each in dropped.values() for what in each), "a name that a format can't hold"
    assert "<img src=x" not in answer.content.decode()


def test_a_file_too_large_for_the_page_is_refused_before_it_is_read(admin: Client) -> None:
    answer: Any = admin.post(PAGE, "x", content_type="multipart/form-data; boundary=x", CONTENT_LENGTH=str(2**30))
    assert (answer.status_code, answer.context["refusal"].code) == (413, "too_large")
    assert not ChangeSet.objects.filter(state="draft").exists()


def test_members_can_export_an_open_policy_and_propose_a_file(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    assert "/atlas/alice" in b"".join(client.get(f"{PAGE}csv/")).decode()
    assert send(client, TABLE).status_code == 303
    assert ChangeSet.objects.get(state="draft").author == grid.alice
    Policy.objects.filter(slug=SLUG).update(visibility="path")
    for answer in (client.get(f"{PAGE}csv/"), client.get(PAGE), send(client, TABLE)):
        assert (answer.status_code, answer.context["refusal"].code) == (403, "partial_view")
    assert ChangeSet.objects.filter(state="draft").count() == 1


def test_the_page_is_a_tab_of_permitted_users(grid: Grid, client: Client) -> None:
    policy = Policy.objects.get(slug=SLUG)
    role = {"policy": policy, "entry_uid": grid.uid("/atlas"), "user": grid.alice, "role": Grant.Role.VIEWER}
    Grant.objects.create(**role, verbs=["view"], created_at=clock.now())
    sign_in(client, grid.alice)
    settings = f"/policy/{SLUG}/decay/"
    assert PAGE in client.get(settings).content.decode()
    Policy.objects.filter(slug=SLUG).update(visibility="path")
    assert PAGE not in client.get(settings).content.decode()


NOW = """\
Cluster - 'demo':Fairshare=1
Parent - 'root'
Account - 'atlas':Organization='science':Fairshare=7
Parent - 'atlas'
User - 'zoe':Fairshare=2
"""


def compare(client: Client, text: str, **more: str) -> Any:
    file = SimpleUploadedFile("now.cfg", text.encode())
    return client.post(f"{PAGE}against/", {"file": file, "format": "sacctmgr-script", "step": "difference", **more})


def test_the_difference_is_shown_before_the_download(admin: Client) -> None:
    page = read(compare(admin, NOW))
    rows = [text_of(row).split() for row in page.items("association")]
    assert rows[0][:3] == ["atlas", "–", "7"]
    assert rows[-1] == ["atlas", "zoe", "2", "–"]
    counts = re.findall(r"\d+", page.text("[data-testid=against-counts]"))
    assert counts == ["1", str(len(rows) - 2), "1"]
    assert page.has('[name="step"][value="download"]')
    file = compare(admin, NOW, step="download")
    assert file.headers["Content-Disposition"] == f'attachment; filename="{SLUG}-{head()}.script"'
    text = b"".join(file.streaming_content).decode()
    assert len([line for line in text.splitlines() if line.startswith("add ")]) == len(rows) - 2
    assert text.endswith("# not in the policy: remove user where name=zoe account=atlas cluster=demo\n")


@pytest.mark.parametrize("text", ["", NOW[:-5], NOW + NOW, NOW.replace("=7", "=2147483648")])
def test_a_bad_dump_is_named_and_offers_no_download(admin: Client, text: str) -> None:
    page = read(compare(admin, text, step="download"), status=422)
    assert page.has("#against .err, #difference [role=alert]")
    assert not page.has('[name="step"][value="download"]')


def test_the_comparison_is_part_of_the_page(admin: Client) -> None:
    assert admin.get(f"{PAGE}against/").headers["Location"] == PAGE


def test_published_shares_stay_where_that_is_chosen(admin: Client) -> None:
    assert read(admin.get(PAGE)).each('[name="shares"][checked]', "value") == ["file"]
    send(admin, "path,shares\n/atlas,90\n/cms/zoe,3\n", shares="published")
    (edit,) = ChangeSet.objects.get(state="draft").operations
    assert (edit["op"], edit["name"], edit["shares"]) == ("add", "zoe", 3.0)
