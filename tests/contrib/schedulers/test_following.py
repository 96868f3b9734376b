"""Accounts and users that the agent lists: named in a notice, previewed, followed, without the scheduler's shares."""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import COMMAND, SYSTEM, Actor
from apps.accounts.models import AuditEvent
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Notice
from apps.contrib.schedulers import following
from apps.contrib.schedulers.following import propose_followed
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.models import ChangeSet, ImportedFile, Policy
from apps.policies.services import change_shares, publish_change_set, withdraw_change_set
from apps.policies.tree.stored import load_tree
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller, refused
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
FOLLOW, PAGE = "schedulers/c1/shares/follow", "/schedulers/c1/shares/"
SAME = [
    ("physics", "", "", "root", "7"),
    ("biology", "", "", "root", "7"),
    ("physics", "alice", "", "", "2"),
    ("physics", "bob", "", "", "1"),
    ("biology", "carol", "", "", "1"),
]
# bob moved, a new account in another one, and a user of one partition beside the same user's plain association.
LATER = [
    *[row for row in SAME if row[1] != "bob"],
    ("lab", "", "", "biology", "3"),
    ("lab", "bob", "", "", "4"),
    ("biology", "carol", "GPU", "", "8"),
]


def lists(agent: Caller, rows: Sequence[tuple[str, ...]], name: str = "c1", cluster: str = "demo") -> None:
    names = ("group", "user", "partition", "parent", "shares")
    sent = [dict(zip(names, row, strict=True)) for row in rows]
    answer = agent.post(f"schedulers/{name}/passes", report(queue=None, shares={"cluster": cluster, "rows": sent}))
    assert answer.status_code == 200, answer.content


def shares() -> dict[str, float | None]:
    tree = load_tree(Policy.objects.get(slug="grid"))
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


def counts(answer: dict[str, Any]) -> dict[str, int]:
    return {what: n for what, n in answer["counts"].items() if n and what != "target_only"}


def open_notices() -> list[Notice]:
    return list(Notice.objects.filter(kind="scheduler_accounts", closed_at=None))


def test_what_slurm_has_otherwise_is_one_draft_that_leaves_published_shares(agent: Caller, manager: Caller) -> None:
    before = shares()
    lists(agent, LATER)
    plan = manager.post(FOLLOW, {"dry_run": True})
    assert (plan.status_code, counts(plan.json())) == (200, {"added": 2, "moved": 1})
    assert not ChangeSet.objects.filter(state="draft").exists()
    made, again = manager.post(FOLLOW), manager.post(FOLLOW)
    assert (made.status_code, made.json()["change_set"]) == (201, again.json()["change_set"])
    draft = ChangeSet.objects.get(state="draft")
    publish_change_set(id=draft.pk, version=draft.version, reason="x", at=AT, actor=SYSTEM)
    moved = {"/physics/bob": "/biology/lab/bob"}
    stayed = {moved.get(path, path): number for path, number in before.items()}
    assert shares() == stayed | {"/biology/lab": 3.0, "/biology/carol:gpu": 8.0}
    events = AuditEvent.objects.filter(verb="scheduler.followed")
    assert [event.details["change_set"] for event in events] == [draft.pk], "once for one draft"
    same = manager.post(FOLLOW)
    assert (same.status_code, same.json()["is_same"]) == (200, True)


def test_a_notice_names_what_differs_until_it_is_followed(agent: Caller, manager: Caller) -> None:
    lists(agent, SAME)
    evaluate(at=AT)
    assert open_notices() == []
    lists(agent, LATER)
    evaluate(at=AT + timedelta(seconds=1))
    (notice,) = open_notices()
    assert notice.facts["changes"] == {
        "added": {"n": 2, "paths": ["/biology/carol:gpu", "/biology/lab"]},
        "moved": {"n": 1, "paths": ["/biology/lab/bob"]},
    }
    manager.post(FOLLOW)
    draft = ChangeSet.objects.get(state="draft")
    publish_change_set(id=draft.pk, version=draft.version, reason="x", at=AT, actor=SYSTEM)
    evaluate(at=AT + timedelta(seconds=2))
    assert open_notices() == []


def test_a_notice_compares_a_listing_and_a_tree_once(
    agent: Caller, connected: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(following, "_known", OrderedDict())
    compute = following._compute_changes
    monkeypatch.setattr(
        following,
        "_compute_changes",
        lambda listing, tree: compared.append(listing.digest) or compute(listing, tree),  # type: ignore[func-returns-value]
    )
    lists(agent, LATER)
    for minute in range(3):
        lists(agent, LATER)
        evaluate(at=AT + timedelta(minutes=minute), only=["scheduler_accounts"])
    assert len(compared) == 1
    lists(agent, SAME)
    evaluate(at=AT + timedelta(minutes=4), only=["scheduler_accounts"])
    assert len(compared) == 2
    assert open_notices() == []
    physics = connected.uid("/physics")
    change_shares(policy_slug="grid", entry_uid=physics, shares=50, reason="x", at=AT, actor=SYSTEM)
    evaluate(at=AT + timedelta(minutes=5), only=["scheduler_accounts"])
    assert len(compared) == 3
    for n in range(6):
        lists(agent, [*SAME, ("physics", f"u{n}", "", "", "1")])
        evaluate(at=AT + timedelta(minutes=6 + n), only=["scheduler_accounts"])
    assert len(following._known) == 4


def test_the_page_shows_what_differs_and_leads_to_the_preview(agent: Caller, connected: Site, client: Client) -> None:
    lists(agent, LATER)
    sign_in(client, connected.admin)
    page = read(client.get(PAGE))
    assert {row.attributes["data-key"] for row in page.items("followed")} == {"added", "moved"}
    assert "/biology/lab/bob" in page.text('[data-key="moved"]')
    answer = client.post(PAGE, {"to": "follow"})
    draft = ChangeSet.objects.get(state="draft")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/policy/grid/files/{draft.pk}/")
    assert read(client.get(answer.headers["Location"])).has('[name="step"][value="publish"]')


def test_nothing_is_followed_where_a_listing_may_not_be_the_whole_tree(agent: Caller, manager: Caller) -> None:
    assert refused(manager.post(FOLLOW))[:2] == (409, "no_shares")
    lists(agent, [("physics", "", "", "root", "7")])
    assert refused(manager.post(FOLLOW))[:2] == (422, "half_file")
    evaluate(at=AT)
    assert open_notices() == [], "nothing is gone in half a listing"
    lists(agent, [*LATER, ("deep", "", "", "nowhere", "1")])
    assert refused(manager.post(FOLLOW))[:2] == (422, "bad_document")
    evaluate(at=AT)
    assert open_notices() == []


def test_two_clusters_on_one_policy_are_not_followed(agent: Caller, manager: Caller, connected: Site) -> None:
    connect_scheduler(policy_slug="grid", name="c2", settings={"mode": "shadow"}, at=AT, actor=SYSTEM)
    lists(agent, LATER)
    assert manager.post(FOLLOW, {"dry_run": True}).status_code == 200
    lists(agent, SAME, name="c2", cluster="fram")
    assert refused(manager.post(FOLLOW))[:2] == (409, "not_followed")


def test_a_scheduler_of_a_part_of_the_policy_and_another_kind_are_not_followed(
    agent: Caller, manager: Caller, connected: Site
) -> None:
    lists(agent, LATER)
    Scheduler.objects.update(subtree_uid=connected.uid("/physics"))
    assert refused(manager.post(FOLLOW))[:2] == (409, "not_followed")
    Scheduler.objects.update(subtree_uid=None, kind="gridengine", knob="priority")
    assert refused(manager.post(FOLLOW))[:2] == (409, "not_followed")


def test_a_scheduler_that_follows_each_hour_has_one_open_draft(agent: Caller, manager: Caller) -> None:
    lists(agent, LATER)
    assert propose_followed(at=AT) == 0, "it is set to be followed by hand"
    tag = manager.get("schedulers/c1")["ETag"]
    changed = manager.patch("schedulers/c1", {"follows": True}, if_match=tag)
    assert (changed.status_code, changed.json()["follows"]) == (200, True)
    assert [propose_followed(at=AT + timedelta(hours=hour)) for hour in (1, 2)] == [1, 1]
    draft = ChangeSet.objects.get(state="draft")
    assert (draft.origin, draft.author) == ("import", None)
    publish_change_set(id=draft.pk, version=draft.version, reason="x", at=AT, actor=SYSTEM)
    assert propose_followed(at=AT + timedelta(hours=3)) == 0
    lists(agent, [("physics", "", "", "root", "7")])
    assert propose_followed(at=AT + timedelta(hours=4)) == 0, "half a listing is named in the log"


def test_a_listing_of_another_cluster_than_the_import_opens_no_notice(agent: Caller, manager: Caller) -> None:
    ImportedFile.objects.create(
        policy=Policy.objects.get(slug="grid"), number=1, cluster="fram", digest="x", created_at=AT
    )
    lists(agent, LATER)
    assert refused(manager.post(FOLLOW))[:2] == (422, "other_cluster")
    evaluate(at=AT)
    assert open_notices() == []


def test_only_slurm_is_followed_by_schedule(manager: Caller) -> None:
    answer = manager.patch(
        "schedulers/c1", {"kind": "gridengine", "follows": True}, if_match=manager.get("schedulers/c1")["ETag"]
    )
    assert refused(answer) == (422, "bad_scheduler", ["follows"])


def test_the_command_makes_the_draft(agent: Caller) -> None:
    lists(agent, LATER)
    out = io.StringIO()
    call_command("scheduler", "shares", "c1", "--follow", stdout=out)
    assert (
        out.getvalue().strip().startswith(f"change set {ChangeSet.objects.get(state='draft').pk}: added: 2, moved: 1")
    )
    call_command("scheduler", "set", "c1", "follows=true", stdout=io.StringIO())
    assert Scheduler.objects.get().follows


def test_each_hour_leaves_one_draft_however_often_slurm_changes(agent: Caller) -> None:
    Scheduler.objects.update(follows=True)
    by_command = import_policy(
        file=FileImport(policy_slug="grid", format="csv", content=b"path,shares\n/physics,70\n", keep_missing=True),
        reason="x",
        at=AT,
        actor=COMMAND,
    ).change_set
    rows = [*LATER]
    for hour in range(3):
        rows.append(("physics", f"new{hour}", "", "", "1"))
        lists(agent, rows)
        assert propose_followed(at=AT + timedelta(hours=hour)) == 1
    assert by_command is not None
    ChangeSet.objects.get(pk=by_command.pk, state="draft").delete()
    draft = ChangeSet.objects.get(state="draft")
    withdrawn = ChangeSet.objects.filter(state="withdrawn")
    assert {each.pk < draft.pk for each in withdrawn} == {True}
    assert len(withdrawn) == 2
    ChangeSet.objects.filter(pk=draft.pk).update(version=2)  # as edited by hand
    lists(agent, LATER)
    assert propose_followed(at=AT + timedelta(hours=4)) == 1
    assert ChangeSet.objects.filter(state="draft").count() == 2, "a person's work stays"
    lists(agent, SAME)
    assert propose_followed(at=AT + timedelta(hours=5)) == 0
    assert ChangeSet.objects.get(state="draft").pk == draft.pk, "what Slurm has no more isn't proposed"


def test_what_a_person_withdrew_is_not_proposed_again(agent: Caller, connected: Site) -> None:
    Scheduler.objects.update(follows=True)
    lists(agent, LATER)
    assert propose_followed(at=AT) == 1
    draft = ChangeSet.objects.get(state="draft")
    actor = Actor(user=connected.admin, via="page")
    withdraw_change_set(id=draft.pk, version=draft.version, reason="not now", at=AT, actor=actor)
    assert [propose_followed(at=AT + timedelta(hours=hour)) for hour in (1, 2)] == [0, 0]
    lists(agent, [*LATER, ("physics", "dave", "", "", "1")])
    assert propose_followed(at=AT + timedelta(hours=3)) == 1
    assert ChangeSet.objects.filter(state="draft").count() == 1
