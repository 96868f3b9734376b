"""Bounds of tokens over every operation of REST: outside of them nothing is done and nothing is read.

Each request of the rights matrix is made by tokens of an administrator with all scopes, bound to a policy, a subtree or
a usage source: to those that its objects are in, and to others. The objects are in /physics of the policy `grid`, their
usage is of `cluster-a`, except where `ABOUT` says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.usage.services import NewSource, make_source
from tests.examples import first
from tests.instants import AT
from tests.rest_document import rest_document
from tests.rights_world import API, Row, World
from tests.test_idor_matrix import ROWS, answer_text, roll_back
from tests.worlds import fresh_process, restore_caches  # noqa: F401 - fixture

INSIDE = ("grid", "physics", "cluster-a")
OUTSIDE = ("other", "biology", "cluster-b")
BOUND = (*INSIDE, *OUTSIDE)
# What an operation is about, if it isn't an entry of a policy. The first pattern that fits counts.
ABOUT = {
    # no object at all, or what the person is anyhow
    r"GET (schema|docs(/{name})?|algorithms|operators|decay-functions)": "nothing",
    r"GET (usage/formats|notices/kinds|federation/keys)": "nothing",
    r"POST (slurm-config|jobs/explain)": "nothing",
    r"GET publications/{name}": "open",
    # the whole site
    r"POST federation/keys": "site",
    r"\w+ federation/feeds(/{name})?": "site",
    r"\w+ setup(/policy)?": "site",
    r"POST policies": "site",
    r"GET runs/{run}": "site",  # a run of another person, about neither policy nor source
    # sign-in only
    r"\w+ tokens(/.+)?": "session",
    r"PATCH notices/{notice}": "session",
    # settings of sources are the site's; their records and numbers are the source's
    r"(PATCH|DELETE) usage/sources/{source}": "site",
    r"\w+ usage/sources/{source}/(archive|restore|removal|pause|resume)": "site",
    r"\w+ usage/.+": "source",
    # the other policy, in which the mount is
    r"\w+ federation/mounts(/{mount}.*)?": "other policy",
    r"GET federation/peers": "other policy",
    # lists and answers that leave out what is outside
    r"GET (policies|search|audit|notices|me|me/.+)": "list",
    r"GET federation/(subscriptions|publications)": "list",
    r"GET (schedulers|notices/rules)": "list of policies",
    r"GET schedulers/{scheduler}/queue": "list",
    # the policy as a whole: nothing that a subtree has
    r"DELETE policies/{policy}": "policy",
    r"GET policies/{policy}/removal": "policy",
    r"\w+ policies/{policy}/(archive|restore|document|document/against|sam|sam/.+)": "policy",
    r"PUT policies/{policy}/mappings/rules": "policy",
    r"(POST|PATCH|DELETE) policies/{policy}/capacities(/.+)?": "policy",
    r"(GET|POST) policies/{policy}/mappings/versions/{version}(/restore)?": "policy",
    r"GET policies/{policy}/allocations/(table|board|rule-steps)": "policy",
    r"POST policies/{policy}/changesets/{change_set}/back-test": "policy",  # it ranks all users
    r"GET policies/{policy}/changesets/{change_set}/planned-waits": "policy",  # it orders the whole queue
    r"\w+ policies/{policy}/advice": "policy",  # it measures all of it
    r"\w+ policies/{policy}/experiments(/.+)?": "policy",  # they simulate all of it
    r"POST schedulers": "policy",
    r"POST notices/rules|\w+ notices/rules/{rule}": "policy",
    r"\w+ schedulers/{scheduler}(/(on|orders|passes|differences|(shares|limits).*))?": "policy",
}


def operation_of(row: Row) -> str:
    path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", row.route.removeprefix(API)).removeprefix("^").removesuffix("/?$")
    return f"{row.method.upper()} {path}"


def about(operation: str) -> str:
    return next((kind for pattern, kind in ABOUT.items() if re.fullmatch(pattern, operation)), "entry")


# Answered to a token of another subtree by what lies in its own, or by what everybody who reaches the policy knows.
PARTS = {
    "GET policies/{policy}",
    "GET policies/{policy}/revisions",
    "GET policies/{policy}/revisions/{revision}/diff",
    "GET policies/{policy}/snapshots",
    "GET policies/{policy}/tree",
    "GET policies/{policy}/mappings/unmapped",
    "GET policies/{policy}/adjustments",
    "GET policies/{policy}/convergence",
    "GET policies/{policy}/now",
    "GET schedulers/{scheduler}/starts",  # shares of promises by partition, for whoever sees an entry of the policy
    "GET policies/{policy}/operators",
    "GET policies/{policy}/capacities",
    "GET policies/{policy}/capacities/{capacity}",
    "POST policies/{policy}/allocations/portal-usage",  # of what it sees among the entries of the portal's answers
    "POST federation/mounts/preview",  # of an address, for whoever may mount anywhere in the policy
    "POST policies/{policy}/recompute",  # of the whole policy, for whoever manages any part of it
}
# Requests that read, although they aren't GET
ASKS = {"POST policies/{policy}/priorities/lookup", "POST policies/{policy}/mappings/trial"}
# Of these a subtree has less than the whole policy: names that may lie anywhere are left out.
LESS = {"GET policies/{policy}/mappings/versions", "POST policies/{policy}/mappings/trial"}
REFUSED = (401, 403, 404)
# The request names an entry that isn't found, among other values: it is refused as invalid.
INVALID = {"POST policies/{policy}/mappings/rules", "PUT policies/{policy}/allocations/file"}
MOVED = ("{left}", "/left", '"left"')  # once in /physics, now in /biology
REST = [row for row in ROWS if row.path.startswith("/api/v1/") and "no/such" not in row.path]
Check = Callable[[str], bool]
Answered = dict[str, tuple[int, bool]]  # token → status, whether it reads the word


def wrong(row: Row, answers: Answered) -> list[str]:
    """Which tokens got something else than their bounds allow."""
    operation = operation_of(row)
    kind = about(operation)
    whole = answers["whole"]

    def is_refused(name: str) -> bool:
        return answers[name][0] in REFUSED

    def reads_nothing(name: str) -> bool:
        return is_refused(name) or ((row.method == "get" or operation in ASKS) and not answers[name][1])

    def is_like_whole(name: str) -> bool:
        is_less = name == "physics" and operation in LESS
        return answers[name] == whole or (is_less and answers[name] == (whole[0], False))

    def has_its_part(name: str) -> bool:
        return reads_nothing(name) and (is_refused(name) or bool(row.word) or operation in PARTS)

    def is_outside(name: str) -> bool:
        status, _ = answers[name]
        is_invalid = status == 422 and operation in INVALID
        return is_invalid or operation in PARTS or has_its_part(name)

    def each(names: Iterable[str], check: Check) -> dict[str, Check]:
        return dict.fromkeys(names, check)

    wanted: dict[str, dict[str, Check]] = {
        "nothing": each(BOUND, is_like_whole),
        "open": each(("grid", "physics"), is_like_whole),
        "site": each(BOUND, is_refused),
        "session": each(BOUND, is_refused),
        "source": each(BOUND, reads_nothing) | each(["cluster-a"], is_like_whole),
        "other policy": each(BOUND, reads_nothing) | each(["other"], is_like_whole),
        "list": each(BOUND, reads_nothing) | each(("grid", "physics"), is_like_whole),
        "list of policies": each(BOUND, reads_nothing) | each(["grid"], is_like_whole),
        "policy": each(BOUND, is_refused) | each(["grid"], is_like_whole),
        "entry": each(BOUND, is_refused) | each(("grid", "physics"), is_like_whole) | each(["biology"], is_outside),
    }
    checks = wanted[kind]
    if any(mark in row.path + row.word for mark in MOVED):
        checks = {name: check for name, check in checks.items() if name not in ("physics", "biology")}
    return [
        f"{operation} ({kind}): bound to {name}: {answers[name]}, unbound {whole}: {row.path}"
        for name, check in checks.items()
        if not check(name)
    ]


def bind(world: World) -> None:
    """Tokens of an administrator with the scope `admin`: one without bounds, and one for each bound."""
    make_source(NewSource(slug="cluster-b", name="Cluster B"), at=AT, actor=SYSTEM)
    bounds: dict[str, dict[str, Any]] = {
        "whole": {},
        "grid": {"policy_slug": "grid"},
        "physics": {"policy_slug": "grid", "subtree_uid": world.site.uid("/physics")},
        "cluster-a": {"source_slug": "cluster-a"},
        "other": {"policy_slug": "other"},
        "biology": {"policy_slug": "grid", "subtree_uid": world.site.uid("/biology")},
        "cluster-b": {"source_slug": "cluster-b"},
    }
    world.texts = {name: world.site.token("admin", **bound) for name, bound in bounds.items()}


def ask_all(world: World, row: Row, names: Iterable[str]) -> Answered:
    """What each token gets. Reads share what the process keeps, as in production; each write finds what it consumes."""
    with roll_back(world):
        world.prepare(row)
        answers = {}
        for name in names:
            with nullcontext() if row.method == "get" else roll_back(world):
                answers[name] = ask(world, row, name)
        return answers


def ask(world: World, row: Row, name: str) -> tuple[int, bool]:
    answer = world.ask(row, name)
    word = row.word.format(**world.objects)
    return answer.status_code, bool(word) and word in answer_text(answer)


PARTS_OF_ROWS = 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", first(1, range(PARTS_OF_ROWS)))
def test_every_operation_stays_within_the_bounds_of_a_token(world: World, part: int) -> None:
    bind(world)
    found = []
    for row in REST[part::PARTS_OF_ROWS]:
        found += wrong(row, ask_all(world, row, ("whole", *BOUND)))
    assert not found, "\n".join(found)


@pytest.mark.product
def test_every_operation_of_a_scheduler_stays_within_the_bounds_of_a_token(world: World) -> None:
    """Also what other rooms say of its jobs: a token of another scheduler of the policy reads none of them."""
    names: dict[str, dict[str, Any]] = {each: {"policy_slug": "grid", "scheduler_name": each} for each in ("c1", "c2")}
    world.texts = {name: world.site.token("admin", **bound) for name, bound in {"whole": {}, **names}.items()}
    rows = [row for row in REST if re.search(r"schedulers|/why|waiting-jobs", row.route)]
    assert len({operation_of(row) for row in rows}) > 15
    outside = []
    for row in rows:
        whole, own, other = ask_all(world, row, ("whole", "c1", "c2")).values()
        makes_c2 = row.method == "post" and row.route.endswith("schedulers")
        if (own, makes_c2) not in ((whole, False), ((404, False), True)):
            outside.append(f"{operation_of(row)}: bound to c1: {own}, unbound {whole}")
        if other[0] not in REFUSED and (row.method != "get" or other[1]) and not makes_c2:
            outside.append(f"{operation_of(row)}: bound to c2: {other}")
    assert outside == []


def test_every_operation_of_the_schema_has_a_row() -> None:
    described = {
        f"{method.upper()} {path.removeprefix('/api/v1/')}"
        for path, methods in rest_document()["paths"].items()
        for method in methods
        if method in ("get", "post", "put", "patch", "delete")
    }
    assert len(described) > 120  # of the core
    assert described - {operation_of(row) for row in REST} == set()


@pytest.mark.product
def test_every_kind_of_object_still_fits_an_operation() -> None:
    operations = {operation_of(row) for row in REST}
    assert [pattern for pattern in ABOUT if not any(re.fullmatch(pattern, each) for each in operations)] == []


def call(world: World, text: str, method: str, path: str, body: Any = None) -> Any:
    world.texts["caller"] = text
    return world.ask(Row("", f"/api/v1/{path}", "", method, body), "caller")


def test_a_token_of_a_subtree_publishes_nothing_outside_of_it(world: World) -> None:
    text = world.site.token("admin", policy_slug="grid", subtree_uid=world.site.uid("/biology"))
    new = {"policy": "grid", "entry": "/physics", "name": "taken", "is_open": True}
    assert call(world, text, "post", "federation/publications", new).status_code == 404
    assert world.client("anonymous").get("/api/v1/publications/taken").status_code == 404
    own = {**new, "entry": "/biology/carol", "name": "carol"}
    assert call(world, text, "post", "federation/publications", own).status_code == 201
    listed = json.loads(call(world, text, "get", "federation/publications").content)["results"]
    assert {row["name"] for row in listed} == {"dropped", "carol"}
    assert call(world, text, "delete", "federation/publications/physics?reason=x").status_code == 404
    assert call(world, text, "delete", "federation/publications/carol?reason=x").status_code == 204


@pytest.mark.parametrize("bound", [{"subtree": "/biology"}, {"policy_slug": "other"}, {"source_slug": "cluster-a"}])
def test_a_bound_token_does_nothing_to_the_whole_site(world: World, bound: dict[str, Any]) -> None:
    make_source(NewSource(slug="cluster-b", name="Cluster B"), at=AT, actor=SYSTEM)
    if "subtree" in bound:
        bound = {"policy_slug": "grid", "subtree_uid": world.site.uid(bound["subtree"])}
    text = world.site.token("admin", **bound)
    for method, path, body in (
        ("post", "federation/keys", {"reason": "x"}),
        ("delete", "federation/feeds/physics", None),
        ("post", "usage/sources", {"slug": "new", "name": "New"}),
        ("patch", "usage/sources/cluster-b", {"name": "Other"}),
        ("post", "usage/sources/cluster-a/pause", {}),
        ("post", "usage/sources/cluster-b/archive", {"reason": "x"}),
        ("post", "usage/records?source=cluster-b", []),
        ("post", "policies", {"name": "New", "slug": "new"}),
        ("post", "notices/rules", {"kind": "drift", "is_on": True, "terms": {}}),
    ):
        answer = call(world, text, method, path, body)
        assert answer.status_code in REFUSED, (method, path, answer.content)


def test_a_sender_bound_to_a_policy_makes_and_fills_no_source(world: World) -> None:
    text = world.site.token("usage:write", policy_slug="other")
    assert call(world, text, "post", "usage/sources", {"slug": "new", "name": "New"}).status_code in REFUSED
    assert call(world, text, "post", "usage/records?source=cluster-a", []).status_code in REFUSED


def test_a_token_of_a_subtree_neither_reads_nor_touches_own_change_sets_about_others(world: World) -> None:
    site, admin = world.site, Actor(user=world.site.admin, via="page")
    places = {"outside": "/physics/bob", "inside": "/biology/carol"}
    made = {
        name: make_change_set(
            policy_slug="grid",
            new=NewChangeSet(operations=[{"op": "set_shares", "entry": path, "shares": 7}], reason=f"for {path}"),
            at=AT,
            actor=admin,
        ).pk
        for name, path in places.items()
    }
    text = site.token("policies:read", "policies:write", policy_slug="grid", subtree_uid=site.uid("/biology"))
    listed = json.loads(call(world, text, "get", "policies/grid/changesets").content)["results"]
    assert {row["id"] for row in listed} & set(made.values()) == {made["inside"]}
    assert "/physics/bob" not in answer_text(call(world, text, "get", "search?q=for"))
    steps = (
        ("get", ""),
        ("post", "/withdraw"),
        ("get", "/comments"),
        ("post", "/comments"),
        ("get", "/effect"),
        ("get", "/back-test"),
    )
    for method, step in steps:
        path = f"policies/grid/changesets/{made['outside']}{step}"
        assert call(world, text, method, path, {"text": "x"}).status_code == 404, step
    inside = call(world, text, "post", f"policies/grid/changesets/{made['inside']}/comments", {"text": "here"})
    assert inside.status_code == 201


def test_a_token_bound_to_a_policy_and_a_source_reaches_these_two(world: World) -> None:
    make_source(NewSource(slug="cluster-b", name="Cluster B"), at=AT, actor=SYSTEM)
    text = world.site.token("priorities:read", "usage:write", policy_slug="grid", source_slug="cluster-a")
    assert call(world, text, "get", "policies/grid/priorities?account=bob").status_code == 200
    assert call(world, text, "post", "usage/records?source=cluster-a", []).status_code == 200
    assert call(world, text, "get", "policies/other/priorities?account=bob").status_code == 404
    assert call(world, text, "post", "usage/records?source=cluster-b", []).status_code == 404
    assert call(world, text, "post", "usage/sources", {"slug": "new", "name": "New"}).status_code in REFUSED
