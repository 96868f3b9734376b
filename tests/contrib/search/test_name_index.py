"""The order of matches, against a plain reading of the rule; and names of any letters."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from apps.contrib.search.name_index import Match, NameIndex, fold, match_of
from apps.core.strings import Strings

NAMES = ["climate", "storm-climate", "acclimate", "Clim", "c-l-i-m", "ocean", "Åsa Ek", "straße", "sea_ice", "ice"]


def index_of(names: list[str]) -> NameIndex:
    return NameIndex(names, np.arange(len(names)))


def found(names: list[str], query: str, most: int = 20) -> list[tuple[str, Match]]:
    return [(names[place], match) for place, match in index_of(names).find(fold(query), most=most)]


def test_prefixes_rank_before_word_starts_and_substrings() -> None:
    assert found(NAMES, "clim") == [
        ("Clim", Match.BEGINS),
        ("climate", Match.BEGINS),
        ("storm-climate", Match.WORD_BEGINS),
        ("acclimate", Match.CONTAINS),
    ]
    assert found(NAMES, "ice") == [("ice", Match.BEGINS), ("sea_ice", Match.WORD_BEGINS)]


def test_subsequence_matches_rank_last() -> None:
    assert found(NAMES, "cmt") == [
        ("climate", Match.LETTERS),
        ("acclimate", Match.LETTERS),
        ("storm-climate", Match.LETTERS),
    ]
    assert found(NAMES, "cx") == []


@pytest.mark.parametrize(("query", "name"), [("åsa", "Åsa Ek"), ("EK", "Åsa Ek"), ("STRASSE", "straße")])
def test_case_and_diacritics_are_ignored_in_search(query: str, name: str) -> None:
    assert [hit for hit, _match in found(NAMES, query)] == [name]


def test_empty_index_and_empty_query_find_nothing() -> None:
    assert index_of([]).find("a", most=5) == []
    assert index_of(["a"]).find("", most=5) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_best_results_equal_a_full_sort(seed: int) -> None:
    """With more matches than are checked one by one: 4,000 names of few letters."""
    pick = random.Random(seed)
    names = ["".join(pick.choices("ab-_c", k=pick.randint(1, 6))) for _ in range(4_000)]
    index = index_of(names)
    for query in ("a", "ab", "-", "b_a", "cc-c", "abcabc"):
        ranked = sorted(
            (match, len(name), place) for place, name in enumerate(names) if (match := _plain(name, query)) is not None
        )
        hits = index.find(query, most=12)
        assert [(match, len(names[place]), place) for place, match in hits] == ranked[:12], query
        assert hits.n in (None, len(ranked))


def _plain(name: str, query: str) -> Match | None:
    match = match_of(name, query)
    return None if match == Match.LETTERS else match


def test_an_index_of_many_names_is_built_without_an_object_for_each() -> None:
    names = Strings.of(f"user-{number}" for number in range(200_000))
    tracemalloc.start()
    try:
        index = NameIndex(names, np.arange(len(names)))
        assert tracemalloc.get_traced_memory()[1] < 9 * len(names.utf8)
    finally:
        tracemalloc.stop()
    assert index.find("user-199999", most=5) == [(199_999, Match.BEGINS)]
