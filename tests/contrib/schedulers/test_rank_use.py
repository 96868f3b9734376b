"""Each face that shows ranks says where a scheduler doesn't use them, in the words of one function."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.rank_use import (
    is_in_subtree,
    rank_use_in_policy,
    rank_use_message,
    rank_use_messages,
    use_of_rank,
)
from apps.contrib.schedulers.selectors import VisibleQueue
from apps.contrib.schedulers.services import connect_scheduler
from apps.priorities.selectors.rows import newest_or_none
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.terminal.conftest import Terminal, terminal  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db
Json = dict[str, Any]


@pytest.fixture
def boss(connected: Site, reported: Json, client: Client) -> Client:
    """An administrator, and a scheduler whose agent has reported."""
    return sign_in(client, User.objects.create_superuser("root", "", "a long pass phrase"))


def keys_of(page: Page) -> list[str]:
    return [node.attributes["data-key"] or "" for node in page.all('[data-testid="rank-use"] [data-key]')]


def shown_on(boss: Client, site: Site) -> dict[str, list[str]]:
    """By page. The panel of shares is read as the fragment that it is, without the page around it."""
    headers = {"shares": {"HX-Request": "true"}}
    return {name: keys_of(read(boss.get(url, headers=headers.get(name, {})))) for name, url in pages(site).items()}


def pages(site: Site) -> dict[str, str]:
    group = site.uid("/physics")
    return {
        "tree": "/policy/grid/",
        "user": f"/policy/grid/n/{site.uid('/physics/alice')}/alice/",
        "group": f"/policy/grid/n/{group}/physics/",
        "shares": f"/policy/grid/n/{group}/_shares",
        "comparison": "/policy/grid/algorithm/?algorithm=slurm-depth-oblivious",
    }


ANSWERS: dict[str, tuple[str, Json]] = {
    "tree": ("policies/grid/tree", {}),
    "explain": ("policies/grid/explain", {"account": "alice"}),
    "compare": ("policies/grid/compare", {"one": "alice", "other": "carol"}),
}


@pytest.mark.parametrize(
    ("orders", "key"),
    [
        ({"mode": "shadow"}, "use.shadow"),
        ({"mode": "off"}, "use.off"),
        ({"mode": "canary", "canary_partition": "gpu"}, "use.partitions"),
        ({"mode": "on", "carries": "shares"}, "use.shares"),
        ({"mode": "on", "is_paused": True}, "use.paused"),
        ({"mode": "on"}, ""),
    ],
    ids=str,
)
def test_every_face_with_ranks_says_whether_they_are_in_force(
    connected: Site, boss: Client, orders: Json, key: str
) -> None:
    Scheduler.objects.update(**orders)
    wanted = [key] if key else []
    assert shown_on(boss, connected) == dict.fromkeys(pages(connected), wanted)
    reader = Caller(token=connected.token("policies:read", "priorities:read"))
    found = {name: reader.get(*asked).json() for name, asked in ANSWERS.items()}
    assert {name: [one["key"] for one in answer["rank_use"]] for name, answer in found.items()} == dict.fromkeys(
        ANSWERS, wanted
    ), found


def test_a_scheduler_that_has_never_reported_is_on_no_page(connected: Site, client: Client, manager: Caller) -> None:
    Scheduler.objects.update(mode="shadow")
    boss = sign_in(client, User.objects.create_superuser("root", "", "a long pass phrase"))
    assert not any(shown_on(boss, connected).values())
    assert manager.get("policies/grid/tree").json()["rank_use"] == []


def test_an_entry_outside_the_part_of_a_scheduler_says_so_and_the_tree_doesnt(
    connected: Site, boss: Client, manager: Caller
) -> None:
    Scheduler.objects.update(subtree_uid=connected.uid("/biology"))
    shown = shown_on(boss, connected)
    assert shown["user"] == ["use.outside"]
    assert shown["tree"] == []
    assert rank_use_in_policy("grid", uuid4()) == []


def test_a_group_around_the_part_of_a_scheduler_is_as_the_tree(connected: Site, boss: Client) -> None:
    """Ranks of some entries below it are used. The part itself and what is below are inside."""
    Scheduler.objects.update(mode="on", subtree_uid=connected.uid("/physics/alice"))
    for path in ("/", "/physics", "/physics/alice"):
        assert rank_use_in_policy("grid", connected.uid(path)) == [], path
    (message,) = rank_use_in_policy("grid", connected.uid("/physics/bob"))
    assert message.key == "use.outside"


@pytest.mark.parametrize("path", ["/physics", "/physics/alice"])
def test_an_account_of_the_uppermost_entry_is_inside(connected: Site, path: str) -> None:
    Scheduler.objects.update(mode="on", subtree_uid=connected.uid(path))
    snapshot = newest_or_none("grid")
    assert snapshot is not None
    nothing: Any = None
    queue = VisibleQueue(Scheduler.objects.get(), nothing, snapshot, nothing, nothing, None, None)
    alice, carol = (snapshot.tree.index_of_path(each) for each in ("/physics/alice", "/biology/carol"))
    assert alice is not None
    assert carol is not None
    assert is_in_subtree(queue, alice)
    assert not is_in_subtree(queue, carol)
    uids = {"/": "use.outside", "/biology/carol": "use.outside", path: ""}
    walks = {each: [SimpleNamespace(uid=connected.uid(each))] for each in uids}
    shown = {each: list(rank_use_messages([queue], SimpleNamespace(walk=walk))) for each, walk in walks.items()}  # type: ignore[arg-type]
    assert {each: "".join(message.key for message in messages) for each, messages in shown.items()} == uids


@pytest.mark.parametrize("mode", ["off", "shadow", "canary", "on"])
def test_a_scheduler_for_limits_says_nothing_of_ranks(connected: Site, boss: Client, mode: str) -> None:
    """Another one of the same cluster may get the ranks."""
    Scheduler.objects.update(carries="limits", mode=mode)
    assert not any(shown_on(boss, connected).values())
    scheduler = Scheduler.objects.get()
    message = rank_use_message(scheduler)
    assert message is not None
    assert (use_of_rank(scheduler), message.key) == ("unused", "use.limits")


def test_another_mode_of_a_scheduler_is_another_answer_of_the_tree(
    connected: Site, boss: Client, manager: Caller
) -> None:
    """An ETag of before, when the ranks were in force, doesn't hide that they no longer are."""
    tag = manager.get("policies/grid/tree").headers["ETag"]
    Scheduler.objects.update(mode="shadow")
    assert manager.get("policies/grid/tree").headers["ETag"] != tag


def test_the_terminal_says_it_beside_a_comparison(terminal: Terminal) -> None:  # noqa: F811
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "shadow", "namespace": "a"}, at=AT, actor=SYSTEM)
    came = {"started_at": AT, "ended_at": AT, "pass": uuid4()}
    record_pass(name="c1", report=report(**came), body_sha256="", at=AT, actor=SYSTEM)
    token = terminal.site.token("policies:read")
    done = terminal.run("why", "bob", "alice", "--policy", "grid", token=token)
    assert "c1 does not use this rank: it is in shadow mode" in " ".join(done.out.split())
