"""Each kept input of the fuzzers, and each seed, is read or refused as the product refuses, within time and memory."""

from __future__ import annotations

import pytest

from tests.fuzz.session import MODULES
from tests.fuzz.target import CORPUS, OutOfBounds, Target
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", list(TARGETS))
@pytest.mark.fault("F29")
def test_kept_inputs_and_seeds_are_taken_or_refused(name: str) -> None:
    target = TARGETS[name]
    failures = []
    for place, data in [*((f"seed {at}", seed) for at, seed in enumerate(target.seeds()))] + [
        (path.name, path.read_bytes()) for path in target.kept()
    ]:
        try:
            target.run(data)
        except Exception as error:  # whatever a reader raises that is no refusal
            failures.append(f"{place}: {type(error).__name__}: {error}")
    assert failures == []


def test_each_target_takes_a_seed_so_that_its_fuzzer_begins_with_what_is_right() -> None:
    assert [target.name for target in TARGETS.values() if not any(target.check(seed) for seed in target.seeds())] == []


def test_what_is_counted_of_each_target_is_known() -> None:
    assert {name.partition("-")[0] for name in TARGETS} == set(MODULES)


def test_each_kept_input_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)


def test_a_reader_that_is_slow_or_needs_much_memory_is_a_finding() -> None:
    slow = Target("slow", lambda data: sum(range(3_000_000)) > 0, list)
    with pytest.raises(OutOfBounds, match="1 bytes took"):
        slow.run(b"x", patience=1e-4)
    assert bytearray(300 << 20), "the process was larger before"
    large = Target("large", lambda data: len(bytearray(200 << 20)) > 0, list)
    with pytest.raises(OutOfBounds, match="MiB"):
        large.run(b"x", patience=1e3)
