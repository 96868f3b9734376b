"""What REST serves of random sites is what exact arithmetic makes of their jobs: usage, targets, priorities, ranks.

Each site goes through the services, a worker and REST. SITE_SEED and SITES choose others, and more of them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.mapping.rules.rule import Rule
from apps.priorities.serving import store
from apps.usage.parsers.base import RecordRow
from tests.exact_sites.random_site import ALGORITHMS, RandomSite
from tests.oracles.algorithms import Nodes, agrees, served
from tests.oracles.hourly_usage import Job
from tests.priority_site import AS_OF, Site, new_site
from tests.rest_site import Caller

SEED = int(os.environ.get("SITE_SEED", "100"))
SITES = int(os.environ.get("SITES", "20"))
BLUR = 1e-13  # of usage, more than doubles lose
ONLY_LOOKED_UP = ("vector", "priorities")
LOOKED_UP = ("rank", "factor", *ONLY_LOOKED_UP)
ONLY_COMPUTED = ("value",)  # of gridwide: an integer of many digits


def publish(drawn: RandomSite) -> Site:
    """The site as its administrator would make it, recomputed once; account u0, u1, … is charged to each path."""
    slug = f"{drawn.name}-{drawn.seed}"
    site = new_site(slug, namespace=slug)
    settings = {"window": drawn.window, "algorithm": drawn.algorithm}
    site.publish(drawn.children, settings, at=AS_OF - timedelta(days=40))
    rules: list[Rule] = []
    rows: list[RecordRow] = []
    for number, (path, jobs) in enumerate(drawn.jobs.items()):
        rules.append(site.rule(path, kind="exact", namespace=slug, user_pattern=f"u{number}", suffix=""))
        rows += [record(job, f"u{number}", len(rows) + n) for n, job in enumerate(jobs)]
    if rows:
        site.map(*rules)
        site.jobs(rows)
    site.recompute()
    store.poll()
    return site


def record(job: Job, user: str, number: int) -> RecordRow:
    start_at, end_at = (datetime.fromtimestamp(float(at_s), UTC) for at_s in (job.start_s, job.end_s))
    return RecordRow(job=f"j{number}", user=user, submit_at=start_at, start_at=start_at, end_at=end_at, cpus=job.cpus)


def served_tree(caller: Caller, slug: str) -> Nodes:
    answer = caller.get(f"policies/{slug}/tree", {"depth": 64})
    assert answer.status_code == 200, answer.content[:400]

    def walk(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield entry["path"], {**entry["columns"], **entry}
        for child in entry["children"]:
            yield from walk(child)

    nodes = dict(walk(answer.json()))
    nodes.pop("/")
    return nodes


def looked_up(caller: Caller, drawn: RandomSite, slug: str) -> Nodes:
    if not drawn.jobs:
        return {}
    accounts = [{"user": f"u{number}", "namespace": slug} for number in range(len(drawn.jobs))]
    answer = caller.post(f"policies/{slug}/priorities/lookup", json.dumps({"accounts": accounts}))
    assert answer.status_code == 200, answer.content[:400]
    results = answer.json()["results"]
    assert [each["entry"] for each in results] == list(drawn.jobs)
    return dict(zip(drawn.jobs, results, strict=True))


def differences(drawn: RandomSite, tree: Nodes, accounts: Nodes, counts: Counter[str]) -> list[str]:
    """Left out is what another last digit of usage changes: near a tie, or near the edge of a component."""
    wanted = served(drawn.case())
    near = [] if drawn.has_exact_sums else [served(drawn.case(blur=BLUR)) for _ in range(3)]
    found: list[str] = [] if tree.keys() == wanted.keys() else [f"entries {sorted(tree.keys() ^ wanted.keys())}"]
    for path, numbers in wanted.items():
        for name, number in numbers.items():
            if not all(agrees(name, other[path][name], number) for other in near):
                counts["left out"] += 1
                continue
            for face, row in _faces(path, name, tree, accounts):
                counts[f"{face}: {name}"] += 1
                if not agrees(name, row[name], number):
                    found.append(f"{face} {path}: {name} {row[name]!r}, exactly {number!r}")
    return found


def _faces(path: str, name: str, tree: Nodes, accounts: Nodes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where REST has this number. Only a leaf that is ranked is looked up with numbers of its own."""
    if name not in (*ONLY_LOOKED_UP, *ONLY_COMPUTED):
        yield "tree", tree[path]
    if name in LOOKED_UP and path in accounts and tree[path]["rank"] is not None:
        yield "lookup", accounts[path]


def compare(algorithm: str, seeds: Sequence[int]) -> Counter[str]:
    """How many values of each face and name were compared, on all of these sites."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    admin = Caller(user=User.objects.create_superuser("eva"))
    for seed in seeds:
        drawn = RandomSite(algorithm, seed, int(AS_OF.timestamp()))
        site = publish(drawn)
        each = differences(drawn, served_tree(admin, site.slug), looked_up(admin, drawn, site.slug), counts)
        found += [f"site {seed}, {drawn.algorithm}, {drawn.window}: {line}" for line in each[:5]]
    n_left_out = counts.pop("left out", 0)
    n_values = sum(counts.values())
    print(f"{algorithm}: {len(seeds)} sites from seed {seeds[0]}, {n_values} values, {len(found)} differences;")
    print(f"  {n_left_out} left out; " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    assert not found, "\n".join(found)
    assert n_left_out < n_values / 100
    return counts


@pytest.mark.django_db
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_few_sites_are_served_with_exact_numbers(algorithm: str) -> None:
    counts = compare(algorithm, (1, 2))
    assert {"tree: rank", "tree: usage", "lookup: factor"} <= counts.keys()


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_random_sites_are_served_with_exact_numbers(algorithm: str) -> None:
    compare(algorithm, range(SEED, SEED + SITES))
