"""Many texts as two arrays, and their index by hash."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from unittest.mock import patch

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from apps.core.name_index import NameIndex
from apps.core.strings import Strings, hash_of
from tests.examples import examples

_TEXTS = st.lists(st.text("abé日", max_size=20) | st.sampled_from(["", "alice", "bob", "x" * 1000]), max_size=40)


@examples(200)
@given(_TEXTS)
@example(["a", "", "a", "b", "b", ""])
@example(["x" * 8, "x" * 9, "x" * 16])
def test_texts_are_hashed_and_numbered_as_one_by_one(texts: list[str]) -> None:
    strings = Strings.of(texts)
    assert strings.hashes().tolist() == [hash_of(text) for text in texts]
    distinct, codes = strings.coded
    assert distinct == list(dict.fromkeys(texts))
    assert [distinct[code] for code in codes.tolist()] == texts
    slices = [slice(2, 5), slice(None), slice(-3, None), slice(5, 2), slice(None, None, 2), slice(1, 1)]
    assert [strings[part] for part in slices] == [texts[part] for part in slices]


@examples(200)
@given(st.lists(st.tuples(*[st.text("abé日", max_size=5)] * 2), max_size=20))
def test_texts_beside_others_are_both_in_one(pairs: list[tuple[str, str]]) -> None:
    left, right = (Strings.of([pair[at] for pair in pairs]) for at in range(2))
    assert list(left.beside(right)) == [one + other for one, other in pairs]


def test_texts_with_one_hash_have_numbers_of_their_own() -> None:
    with patch.object(Strings, "hashes", lambda self: np.zeros(len(self), np.uint64)):
        distinct, codes = Strings.of(["b", "a", "b"]).coded
    assert (distinct, codes.tolist()) == (["b", "a"], [0, 1, 0])


def test_a_hash_is_the_same_in_each_process() -> None:
    code = "from apps.core.strings import hash_of; print(hash_of('alice, é'))"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(there) == hash_of("alice, é") == 15_869_039_034_320_706_017


@examples(200)
@given(_TEXTS, _TEXTS)
def test_names_are_found_by_hash(names: list[str], asked: list[str]) -> None:
    index = NameIndex(names)
    again = NameIndex(names, index.hashes, index.order)
    for name in [*asked, *names, "\ud800"]:
        places = [at for at, each in enumerate(names) if each == name]
        assert index.find(name) == again.find(name) == places
    n_alike, first = index.find_only(asked)
    assert [min(names.count(name), 2) for name in asked] == n_alike.tolist()
    assert [names.index(name) if name in names else -1 for name in asked] == first.tolist()


_NAMES = st.lists(st.text("aAbßéÉ日K", max_size=6), max_size=20)


@examples(300)
@given(_NAMES, st.text("aAbsßéÉ日k", max_size=3))
@example(["ab", "ba"], "bb")
@example(["Straße", "STRASSE", "x"], "ss")
@example(["", "a", ""], "a")
def test_a_part_is_found_as_in_each_text(texts: list[str], part: str) -> None:
    found, begins = Strings.of(texts).find_part(part)
    wanted = part.casefold()
    assert found.tolist() == [place for place, text in enumerate(texts) if wanted in text.casefold()]
    assert begins.tolist() == [texts[place].casefold().startswith(wanted) for place in found.tolist()]


@examples(200)
@given(st.lists(st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=3)), max_size=20))
def test_texts_that_differ_are_found_place_by_place(pairs: list[tuple[str, str]]) -> None:
    texts, others = [text for text, _ in pairs], [other for _, other in pairs]
    differ = Strings.of(texts).differ(Strings.of(others))
    assert differ.tolist() == [text != other for text, other in pairs]


def test_texts_are_hashed_in_little_more_memory_than_their_hashes_take() -> None:
    texts = Strings.of(f"user-{number}" for number in range(400_000))
    tracemalloc.start()
    try:
        hashes = texts.hashes()
        assert tracemalloc.get_traced_memory()[1] < 3 * hashes.nbytes
    finally:
        tracemalloc.stop()
    assert [int(hashes[at]) for at in (0, 65_535, 65_536, 399_999)] == [
        hash_of(f"user-{at}") for at in (0, 65_535, 65_536, 399_999)
    ]
