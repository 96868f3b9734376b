"""Many texts as two arrays, and their index by hash."""

from __future__ import annotations

import subprocess
import sys
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
    assert [names.count(name) for name in asked] == n_alike.tolist()
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
