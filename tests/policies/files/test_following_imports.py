"""A dump that is followed: new, moved and removed associations, without the shares that a policy has published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.errors import Invalid
from apps.policies.files.import_export import FileImport, PolicyImport, import_policy
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import make_policy
from apps.policies.tree.stored import load_tree
from tests.policies.slurm_sites import SlurmSite

pytestmark = pytest.mark.django_db
SITE = SlurmSite(
    {"chem": ("root", 50), "geo": ("root", 40), "seis": ("geo", 3), "deep": ("seis", 2)},
    {("chem", "ann", ""): 1, ("deep", "dan", ""): 5, ("deep", "eve", ""): 5},
)
LATER = SlurmSite(
    {**SITE.accounts, "deep": ("chem", 2), "lab": ("geo", 7)},
    {("deep", "dan", ""): 5, ("deep", "eve", ""): 5, ("lab", "paul", ""): 1},
)


def take(text: str, *, follow: bool = True, publish: bool = False, keep_missing: bool = False) -> PolicyImport:
    file = FileImport(
        policy_slug="site", format="sacctmgr", content=text.encode(), follow=follow, keep_missing=keep_missing
    )
    return import_policy(file=file, publish=publish, reason="r", at=now(), actor=COMMAND)


@pytest.fixture(autouse=True)
def published() -> None:
    """chem has 90 in the policy, and 50 in Slurm."""
    policy = make_policy(slug="site", name="Site", at=now(), actor=COMMAND)
    take(SITE.dump(), follow=False, publish=True)
    operation = {"op": "set_shares", "entry": "/chem", "shares": 90}
    publish_operations(policy_slug=policy.slug, operations=[operation], reason="r", at=now(), actor=COMMAND)


def shares() -> dict[str, float | None]:
    tree = load_tree(Policy.objects.get(slug="site"))
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


def test_published_shares_stay_and_everything_else_follows() -> None:
    done = take(LATER.dump(), publish=True)
    assert {code: n for code, n in done.plan.comparison.counts() if n} == {
        "added": 2,
        "archived": 1,
        "moved": 1,
        "target changed indirectly": done.plan.comparison.counts()[-1][1],
    }
    assert shares() == {
        "/chem": 90.0,
        "/chem/deep": 2.0,
        "/chem/deep/dan": 5.0,
        "/chem/deep/eve": 5.0,
        "/geo": 40.0,
        "/geo/lab": 7.0,
        "/geo/lab/paul": 1.0,
        "/geo/seis": 3.0,
    }
    assert take(LATER.dump()).plan.is_empty


def test_what_slurm_removed_stays_on_request_and_nothing_stands_twice() -> None:
    take(LATER.dump(), publish=True, keep_missing=True)
    assert "/chem/ann" in shares()
    assert [path for path in shares() if path.endswith("deep")] == ["/chem/deep"]


def test_following_again_returns_the_open_draft() -> None:
    first, second = take(LATER.dump()), take(LATER.dump())
    assert first.change_set is not None
    assert second.change_set == first.change_set
    assert ChangeSet.objects.filter(state="draft").count() == 1
    other = take(replace(LATER, users={}).dump())
    assert other.change_set != first.change_set


def test_another_cluster_of_the_same_database_is_not_followed() -> None:
    with pytest.raises(Invalid, match=r"fram.*fjord") as refused:
        take(LATER.dump().replace("fjord", "fram"))
    assert refused.value.code == "other_cluster"


def test_a_file_of_two_clusters_is_refused() -> None:
    with pytest.raises(Invalid):
        take(SITE.dump() + SITE.dump().replace("fjord", "fram"))


def test_a_dump_that_was_cut_off_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        take(SITE.dump().split("Parent - 'chem'")[0])
    assert refused.value.code == "half_file"
