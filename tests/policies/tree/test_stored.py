"""Trees of revisions: loaded once by all threads, mapped from files where they are large, and never from wrong ones."""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import kept_briefly, mapped_columns
from apps.core.cache_sizes import own_bytes
from apps.core.errors import NotFound
from apps.core.kept_briefly import KeptBriefly
from apps.engine.algorithms.inputs import prepare
from apps.engine.tree import FairshareTree
from apps.policies.files.document import read_document
from apps.policies.models import Policy, Revision
from apps.policies.tree import files
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.stored import _TreeCache, load_tree, tree_cache

N_THREADS = 8
LONGEST_S = 60.0  # of a test that fails


def tree_of(*names: str) -> TreeColumns:
    root = {"name": "p", "children": [{"name": name, "shares": 1} for name in names]}
    return unpack_tree(*pack_tree(read_document({"policy": "p", "root": root}).tree))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Every tree is large."""
    monkeypatch.setattr(files, "_LEAST_MAPPED_ENTRIES", 1)
    monkeypatch.setattr(mapped_columns, "MAPPED_BYTES", 1)
    monkeypatch.setattr(files, "directory", lambda: tmp_path / "trees")
    tree_cache.clear()
    yield tmp_path / "trees"
    tree_cache.clear()


def test_threads_that_ask_for_one_tree_load_it_once() -> None:
    cache, tree, together, is_loading = _TreeCache(), tree_of("a"), Barrier(N_THREADS), Event()
    n_loads = 0

    def load() -> TreeColumns:
        nonlocal n_loads
        n_loads += 1
        is_loading.set()
        return tree

    def ask(_number: int) -> TreeColumns:
        together.wait()
        return cache.load_once(tree.digest, load)

    with ThreadPoolExecutor(N_THREADS) as threads:
        assert all(each is tree for each in threads.map(ask, range(N_THREADS)))
    assert is_loading.is_set()
    assert n_loads == 1
    assert len(cache.loading) == 0, "nothing is left of it"


def test_a_tree_can_be_freed_while_its_thread_holds_the_locks_of_caches() -> None:
    """The garbage collector searches wherever an object is made, and what ends then must wait for nothing."""
    cache, kept, was_computed = _TreeCache(), KeptBriefly[TreeColumns](3), list[bool]()

    def leave_unreachable() -> FairshareTree:
        tree = tree_of("a")
        prepare(tree.engine_tree())
        vars(tree)["itself"] = tree
        cache.put(tree)
        kept.get("tree", lambda: tree, size=1)
        cache._trees.clear()
        kept.clear()
        return tree.engine_tree()

    def free() -> None:
        engine_tree = leave_unreachable()
        was_computed.append("_prepared" in vars(engine_tree))
        with cache._lock, cache.loading._finding, kept._lock, kept_briefly._making._finding:
            gc.collect()
        was_computed.append("_prepared" in vars(engine_tree))

    thread = Thread(target=free, daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    assert was_computed == [True, False]
    assert len(cache._in_use) == 0


def test_a_load_that_fails_is_tried_by_the_next_thread() -> None:
    cache, tree = _TreeCache(), tree_of("a")
    together, outcomes = Barrier(2), iter([NotFound("gone"), None])

    def load() -> TreeColumns:
        error = next(outcomes)
        if error:
            raise error
        return tree

    def ask(_number: int) -> TreeColumns | None:
        together.wait()
        try:
            return cache.load_once(tree.digest, load)
        except NotFound:
            return None

    with ThreadPoolExecutor(2) as threads:
        assert [each for each in threads.map(ask, range(2)) if each] == [tree]
    assert len(cache.loading) == 0


@pytest.mark.django_db
def test_a_large_tree_is_mapped_by_the_next_process_without_its_blob(policy: Policy, folder: Path) -> None:
    with CaptureQueriesContext(connection) as queries:
        first = load_tree(policy)
    assert len([query for query in queries.captured_queries if '"tree" FROM' in query["sql"]]) == 1
    assert mapped_columns.is_mapped(first.parent)
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    tree_cache.clear()  # as a process that starts
    with CaptureQueriesContext(connection) as queries:
        again = load_tree(policy)
    assert again.same_as(first)
    assert [query for query in queries.captured_queries if '"tree" FROM' in query["sql"]] == []


@pytest.mark.django_db
@pytest.mark.parametrize("damage", ["cut", "changed", "of another tree", "not a file"])
def test_a_file_that_is_wrong_is_made_again(policy: Policy, folder: Path, damage: str) -> None:
    tree = load_tree(policy)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "changed":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "of another tree":
        other = tree_of("a", "b")
        files.map_tree(other.digest, lambda: other)
        (folder / f"{other.digest[:32]}.tree").rename(path)
    else:
        path.mkdir()
    tree_cache.clear()
    assert load_tree(policy).same_as(tree)
    if damage != "not a file":
        assert path.read_bytes() == content


@pytest.mark.django_db
def test_a_folder_that_cannot_be_made_costs_memory_and_no_answer(policy: Policy, folder: Path) -> None:
    folder.write_text("in the way")
    tree = load_tree(policy)
    assert not mapped_columns.is_mapped(tree.parent)
    assert tree.digest == Revision.objects.get(policy=policy, number=policy.head_number).tree_digest


def test_files_used_least_recently_are_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_TREE_FILES", 2)
    trees = [tree_of(*"abcd"[: n + 1]) for n in range(4)]
    for at, tree in enumerate(trees[:2]):
        files.map_tree(tree.digest, lambda tree=tree: tree)  # type: ignore[misc]
        os.utime(folder / f"{tree.digest[:32]}.tree", (at, at))
    files.map_tree(trees[0].digest, lambda: pytest.fail("it has a file"))  # used now, after the second
    files.map_tree(trees[2].digest, lambda: trees[2])
    assert {path.stem for path in folder.iterdir()} == {trees[0].digest[:32], trees[2].digest[:32]}
    monkeypatch.setattr(files, "_MOST_TREE_FILE_BYTES", 1)
    files.map_tree(trees[3].digest, lambda: trees[3])
    assert {path.stem for path in folder.iterdir()} == {trees[3].digest[:32]}, "the newest stays, however large"


def test_mapped_trees_take_less_of_the_cache_than_own_ones(folder: Path) -> None:
    own = tree_of(*map(str, range(999)))
    own.engine_tree()
    mapped = files.map_tree(own.digest, lambda: own)
    assert own_bytes(own) - own_bytes(mapped) > 80 * len(own)


def test_what_pages_derive_from_a_tree_counts_for_the_cache() -> None:
    first, second = (tree_of(*(f"{name}{n}" for n in range(999))) for name in "ab")
    cache = _TreeCache(most_bytes=own_bytes(first, second))
    digests = [first.digest, second.digest]
    cache.put(first)
    cache.put(second)
    assert list(cache._trees) == digests
    prepare(second.engine_tree())
    cache.shrink()
    assert list(cache._trees) == digests[1:]
    del first
    assert cache.get(digests[0]) is None
    assert cache.get(digests[1]) is second


def test_a_tree_that_a_snapshot_has_is_not_loaded_again() -> None:
    served, other = tree_of("a"), tree_of("b")
    cache = _TreeCache(most_trees=1)
    cache.put(served)
    cache.put(other)
    assert list(cache._trees) == [other.digest]
    assert cache.load_once(served.digest, lambda: pytest.fail("it is here")) is served
