"""Each claim of docs/appendices/papers.md has mutations of the code, which can be made.

`python -m tests.papers.mutations` makes them, and fails if the claim's tests don't: about half an hour on two cores.
"""

from __future__ import annotations

import ast
import json

import pytest

from apps.core.code_paths import REPOSITORY
from docsite.papers.claims import CLAIMS
from tests.each_case import each_case
from tests.papers.mutations.__main__ import Outcome
from tests.papers.mutations.mutation import Mutation
from tests.papers.mutations.table import MUTATIONS


def test_each_claim_with_tests_has_mutations() -> None:
    assert set(MUTATIONS) == {name for name, claim in CLAIMS.items() if not claim.untested}
    assert all(MUTATIONS.values())


@each_case("claim", MUTATIONS)
def test_each_mutation_changes_one_place_of_the_product(claim: str) -> None:
    for mutation in MUTATIONS[claim]:
        assert not mutation.path.startswith(("tests/", "docs/"))
        assert mutation.old != mutation.new
        text = mutation.text(REPOSITORY)
        if mutation.path.endswith(".py"):
            ast.parse(text)
        else:
            json.loads(text)


def test_a_text_that_is_missing_or_repeated_is_an_error() -> None:
    for old in ("no such text anywhere", "e"):
        with pytest.raises(ValueError, match="and not once"):
            Mutation("pyproject.toml", old, "x").text(REPOSITORY)


def test_a_test_with_claims_as_parameters_catches_for_the_claims_that_fail() -> None:
    outcome = Outcome({"t": {"4.45-historical": "why"}, "u": {"": "why"}, "v": {"R1": "why"}}, 1.0)
    assert [outcome.catches("t", claim) for claim in ("4.45", "4.46")] == [True, False]
    assert [outcome.catches(test, "4.46") for test in ("u", "v", "w")] == [True, True, False]
