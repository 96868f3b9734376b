"""The algorithm of CONTRIBUTING.md, taken from the page: its own test passes, and it is computed, listed, explained."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.engine.algorithms import algorithms_of_packages
from apps.explain.account_path import explain
from tests.conftest import REPOSITORY
from tests.priority_site import Site
from tests.sign_in import sign_in

_BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(_BLOCK.findall((REPOSITORY / "CONTRIBUTING.md").read_text()))
TREE = [
    {
        "name": "physics",
        "shares": 3,
        "children": [{"name": name, "kind": "user", "shares": 1} for name in ("al", "bo")],
    },
    {"name": "biology", "shares": 1, "children": [{"name": "carol", "kind": "user", "shares": 1}]},
]


@pytest.fixture
def quotient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file of the page in a package that announces it, as if it were installed."""
    text = FILES["apps/engine/algorithms/quotient.py"]
    (tmp_path / "tried_quotient.py").write_text(f"{text}\n\nQUOTIENT = Quotient()\n")
    metadata = tmp_path / "tried_quotient-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tried-quotient\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[fairshare.algorithms]\nquotient = tried_quotient:QUOTIENT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    algorithms_of_packages.cache_clear()
    yield
    sys.modules.pop("tried_quotient", None)
    algorithms_of_packages.cache_clear()


def test_the_test_of_the_page_passes(quotient: None) -> None:
    names: dict[str, Any] = {}
    exec(compile(FILES["tests/engine/algorithms/test_quotient.py"], "CONTRIBUTING.md", "exec"), names)  # noqa: S102 - code of ours
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()
    assert algorithms_of_packages().refused == ()


@pytest.mark.paper("4.30", "4.31")
def test_the_algorithm_of_the_page_is_listed_computed_and_explained(
    quotient: None, make_site: Callable[..., Site]
) -> None:
    site = make_site()
    site.publish(TREE, {"window": {"length_s": None, "aging": "none"}, "algorithm": {"name": "quotient"}})
    site.map()
    for user, group, hours in (("al", "physics", 20), ("bo", "physics", 40), ("carol", "biology", 40)):
        site.job(user, group, hours)
    site.recompute()
    found = {user: explain(policy_slug=site.slug, account=user, actor=COMMAND)["results"][0] for user in ("al", "bo")}
    assert [(one["rank"], one["of"]) for one in found.values()] == [(1, 3), (2, 3)]
    assert [round(step["priority"], 4) for step in found["bo"]["steps"]] == [0.0556, -0.0714]
    assert [step["sentence"].replace("\xa0", " ") for step in found["bo"]["steps"]] == [
        "physics used 60.0 % of grid; target 75.0 %: under by 15.0 points. None is ahead.",
        "bo used 66.7 % of physics; target 50.0 %: over by 16.7 points. The only other one is ahead.",
    ]
    assert found["bo"]["sentence"] == "Rank 2 of 3. Main reason: physics."
    client = sign_in(Client(), User.objects.create_superuser("admin"))
    listed = {one["name"]: one for one in client.get("/api/v1/algorithms").json()["results"]}
    assert (listed["quotient"]["label"], listed["quotient"]["package"]) == (
        "Quotient of actual and target",
        "tried-quotient",
    )
    page = client.get(reverse("pages:algorithm", kwargs={"policy": site.slug})).content.decode()
    texts = ("Quotient of actual and target", "target / (target + actual) − 1/2", "rank by (s₁/t₁, s₂/t₂, …)")
    assert [text for text in texts if text not in page] == []
