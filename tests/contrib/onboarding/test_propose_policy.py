"""From a real log to priorities by the operator's commands; the printed shares are those of the log's own README."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.clock import now
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.services import publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors import open_view
from apps.priorities.selectors.overview import overview_of
from apps.priorities.selectors.tree import iterate_rows
from apps.priorities.selectors.tree_listing import Arrangement
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source


def _run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_groups_of_the_nasa_log_have_the_printed_digits(traces_dir: Path) -> None:
    log = traces_dir / "NASA-iPSC-1993-3.1-cln.swf.gz"
    _run("import_usage", "--source", "nasa", "--format", "swf", log)
    proposed = _run(
        "propose_policy",
        "--policy",
        "nasa",
        "--from-source",
        "nasa",
        "--window-days",
        "all",
        "--aging",
        "none",
        "--publish",
        "--reason",
        "From the log",
    )
    assert re.findall(r"nasa|\d+", proposed) == ["nasa", "2", "2", "69"]
    assert re.findall(r"\d+", _run("recompute", "nasa", "--wait"))[-1] == "69"

    admin = Actor(user=User.objects.create_superuser("eva"), via="page")
    rows = {row.path: row for row in iterate_rows(open_view(policy_slug="nasa", actor=admin), Arrangement(level=2))}
    assert {path: round(rows[path].actual or 0.0, 4) for path in ("/1", "/2")} == {"/1": 0.9846, "/2": 0.0154}
    assert rows["/1"].target == 0.5
    users = {"4": 0.3617, "2": 0.1576, "7": 0.1125, "1": 0.0611}
    assert {user: round(rows[f"/1/{user}"].actual_global or 0.0, 4) for user in users} == users
    overview = overview_of(open_view(policy_slug="nasa", actor=admin))
    assert overview.usage is not None
    assert (overview.n_unmapped, round(overview.usage / 3600)) == (0, 131_733)

    answer = json.loads(_run("priorities", "nasa", "--account", "4", "--account", "nobody", "--json"))
    assert [one["entry"] for one in answer["results"]] == ["/1/4", None]
    nobody = answer["results"][-1]
    assert (nobody["account"], nobody["error"], nobody["factor"]) == ("nobody", "unmapped", 0.5)


@pytest.mark.django_db
def test_without_publish_it_is_a_draft_that_can_be_published(usage_of_three: None, snapshot: SnapshotAssertion) -> None:
    found = _run("propose_policy", "--policy", "p", "--from-source", "c1", "--proportional")
    draft = ChangeSet.objects.get(state="draft")
    assert re.findall(r"\bp\b|\d+", found) == ["p", str(draft.pk), "2", "3"]
    assert found.replace(str(draft.pk), "ID", 1) == snapshot
    assert Policy.objects.get().head_number == 1
    publish_change_set(id=draft.pk, version=draft.version, reason="x", at=now(), actor=COMMAND)
    tree = load_tree(Policy.objects.get())
    shares = {tree.path(i): float(tree.shares[i]) for i in range(1, len(tree))}
    assert shares == {"/a%2Fb": 1.5, "/physics": 3.0, "/a%2Fb/carol": 1.5, "/physics/alice": 2.0, "/physics/bob": 1.0}
    _run("recompute", "p", "--wait")
    answer = json.loads(_run("priorities", "p", "--account", "alice", "--json"))
    assert [one["entry"] for one in answer["results"]] == ["/physics/alice"]


@pytest.mark.django_db
def test_a_draft_on_an_existing_policy_contains_only_differences(usage_of_three: None) -> None:
    _run("propose_policy", "--policy", "p", "--from-source", "c1", "--publish", "--reason", "x")
    _run("propose_policy", "--policy", "p", "--from-source", "c1", "--proportional")
    operations = ChangeSet.objects.get(state="draft").operations
    assert {operation["op"] for operation in operations} == {"set_shares"}
    assert sorted(operation["shares"] for operation in operations) == [1.5, 1.5, 2.0, 3.0]


@pytest.mark.django_db
def test_a_proposed_policy_counts_the_whole_log_without_decay(usage_of_three: None) -> None:
    _run("propose_policy", "--policy", "p", "--from-source", "c1", "--publish", "--reason", "x")
    window = Revision.objects.get(policy__slug="p", number=1).settings["window"]
    assert (window["length_s"], window["aging"]) == (None, "none")


@pytest.mark.django_db
def test_names_with_a_slash_match_their_entries_again(usage_of_three: None) -> None:
    _run("propose_policy", "--policy", "p", "--from-source", "c1", "--publish", "--reason", "x")
    _run("recompute", "p", "--wait")
    answer = json.loads(_run("priorities", "p", "--account", "carol", "--json"))
    assert [one["entry"] for one in answer["results"]] == ["/a%2Fb/carol"]


@pytest.mark.django_db
def test_proposing_the_same_again_changes_nothing(usage_of_three: None) -> None:
    arguments = ("propose_policy", "--policy", "p", "--from-source", "c1", "--publish", "--reason", "x")
    first = _run(*arguments)
    assert _run(*arguments) == first
    assert Policy.objects.get().mapping_rules.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--from-source", "nowhere"), 2),
        (("--from-source", "c1", "--publish"), 2),
        (("--from-source", "c1", "--window-days", "0"), 2),
        (("--from-source", "c1", "--window-days", "some"), 2),
    ],
)
def test_failures_are_one_line_and_an_exit_status(
    usage_of_three: None, arguments: tuple[str, ...], status: int
) -> None:
    with pytest.raises(CommandError) as refused:
        _run("propose_policy", "--policy", "p", *arguments)
    assert refused.value.returncode == status
    assert not Policy.objects.exists()


@pytest.fixture
def usage_of_three(db: None) -> None:
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    source = make_source(NewSource(slug="c1", name="c1", namespace="c1"), at=at, actor=COMMAND)
    rows = [
        RecordRow(
            job=user,
            user=user,
            group=group,
            state="finished",
            submit_at=at - timedelta(hours=2),
            start_at=at - timedelta(hours=2),
            end_at=at - timedelta(hours=1),
            cpus=cpus,
        )
        for user, group, cpus in (("alice", "physics", 2), ("bob", "physics", 1), ("carol", "a/b", 1.5))
    ]
    ingest_batch(source=source, rows=rows, at=at)
