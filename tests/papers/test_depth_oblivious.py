"""Numbers of Slurm's text on the depth-oblivious factor beside ours."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apps.engine.cases import solve
from tests.papers_by_claim import PaperValue


def user_below(account_ratio: float, user_ratio: float) -> dict[str, Any]:
    """The node of a user below an account; both have a quarter above and used so many times their shares."""
    policy = {
        "name": "root",
        "children": [
            {
                "name": "g",
                "shares": 1,
                "kind": "account",
                "children": [{"name": "u", "shares": 1, "kind": "user"}, {"name": "v", "shares": 3, "kind": "user"}],
            },
            {"name": "h", "shares": 3, "kind": "user"},
        ],
    }
    account = account_ratio / 4
    usage = {"/g/u": user_ratio / 16, "/g/v": account - user_ratio / 16, "/h": 1 - account}
    case = {"algorithm": {"name": "slurm-depth-oblivious"}, "policy": policy, "usage": usage}
    node: dict[str, Any] = solve(case)["nodes"]["/g/u"]
    return node


@pytest.mark.paper("F3")
def test_the_example_of_a_user_below_an_account_over_its_share(paper_value: PaperValue) -> None:
    user = user_below(2.0, 2 / 3)
    paper_value("F3", "r_l", user["local_ratio"], float(f"{1 / 3:.6g}"))
    paper_value("F3", "k", user["k"])
    paper_value("F3", "R", user["effective_ratio"])
    assert user["local_ratio"] == pytest.approx(1 / 3)
    assert user["k"] == pytest.approx(1 / (1 + (5 * math.log(2)) ** 2))
    assert user["effective_ratio"] == pytest.approx(2 * (1 / 3) ** user["k"])
    assert 2 / 3 < user["effective_ratio"] < 2


@pytest.mark.paper("F12")
def test_three_times_below_two_times_keeps_k_at_1(paper_value: PaperValue) -> None:
    user = user_below(2.0, 3.0)
    paper_value("F12", "k", user["k"], 1)
    paper_value("F12", "R", user["effective_ratio"], 3)
    assert user["k"] == 1
    assert user["effective_ratio"] == pytest.approx(3)
