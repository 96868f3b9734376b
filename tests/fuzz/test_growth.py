"""What reads foreign text takes time by its length, not by the square of it: one match holds the interpreter's lock.

Patterns are tried alone, on texts that hypothesis draws from each of them, and readers on what repeats in their inputs.
"""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.core.code_paths import REPOSITORY
from tests.examples import examples
from tests.fuzz.targets import TARGETS

pytestmark = [pytest.mark.deep, pytest.mark.product]
SHORT = 1_000  # characters
LEAST_S = 0.001  # of the processor, below which no growth is measured
MOST_S = 0.5  # for so short a text
MOST_GROWN = 8.0  # in time, by four times the length: by the square it would be 16
_BEFORE, _BETWEEN, _AFTER = "([{,;:=\"'\\<#-", " \t\n", "\0!"
_USE = re.compile(r"(\w+)\)?\.(fullmatch|match|search|findall|finditer|sub|subn|split)\b")
_UNBOUNDED = re.compile(r"[*+]|,\}")


def patterns() -> Iterator[tuple[str, re.Pattern[str], set[str]]]:
    """Names of all patterns of text that modules hold, and of the methods that these modules call."""
    seen = set[int]()
    for path in sorted((*REPOSITORY.glob("apps/**/*.py"), *REPOSITORY.glob("agent/**/*.py"))):
        if "migrations" in path.parts or path.name == "__main__.py":
            continue
        name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        used = _USE.findall(path.read_text(encoding="utf-8"))
        for own, value in vars(importlib.import_module(name)).copy().items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str) and id(value) not in seen:
                seen.add(id(value))
                methods = {method for called, method in used if called == own}
                if methods and _UNBOUNDED.search(value.pattern):
                    yield f"{name}.{own}", value, methods


def seconds(work: Callable[[str], Any], text: str) -> float:
    began = time.process_time()
    work(text)
    return time.process_time() - began


def grown(work: Callable[[str], Any], text_of: Callable[[int], str]) -> float:
    """How many times as long the work takes with four times as much; 0 where it takes no time to speak of."""
    first = seconds(work, text_of(SHORT))
    if not LEAST_S <= first <= MOST_S:
        return 0.0 if first < LEAST_S else math.inf
    short, long = (min(seconds(work, text_of(n)) for _ in range(3)) for n in (SHORT, 4 * SHORT))
    return long / short if short >= LEAST_S else 0.0


def _worked(pattern: re.Pattern[str], method: str) -> Callable[[str], Any]:
    if method in ("sub", "subn"):
        return lambda text: getattr(pattern, method)("", text)
    work = getattr(pattern, method)
    return (lambda text: sum(1 for _ in work(text))) if method == "finditer" else work


def slow_text(pattern: re.Pattern[str], methods: set[str]) -> str:
    """A text for which one of the methods takes more than linear time; "" where none was drawn."""
    works, found = [_worked(pattern, method) for method in sorted(methods)], list[str]()

    @examples(400, suppress=HealthCheck)
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        whole = data.draw(st.from_regex(pattern))[:60]
        at = data.draw(st.integers(0, len(whole)))
        own = whole[at : at + data.draw(st.integers(1, 3))] or " "
        repeated = data.draw(st.sampled_from([*_BETWEEN, *_BEFORE, own]))
        behind = data.draw(st.sampled_from([*_AFTER, "y", whole[at:]]))
        for work in () if found else works:
            times = grown(work, lambda n: whole[:at] + repeated * (n // len(repeated)) + behind)
            if times > MOST_GROWN:
                found.append(f"{times:.0f} times: {whole[:at]!r}, then {repeated!r}, then {behind!r}")

    draw()
    return "".join(found[:1])


@pytest.mark.timeout(900)
def test_no_pattern_takes_more_than_linear_time() -> None:
    slow = {name: text for name, pattern, methods in patterns() if (text := slow_text(pattern, methods))}
    assert slow == {}


@pytest.mark.parametrize("name", TARGETS)
def test_no_reader_takes_more_than_linear_time(name: str) -> None:
    """Also line by line, and behind the beginning of a good input."""
    target, slow = TARGETS[name], list[str]()
    heads = {"", *(seed[: seed.find(b"\n") + 1].decode(errors="replace") for seed in target.seeds()[:2])}
    units = [*_BEFORE, *_BETWEEN, "x", "1", "1:", "]", *map("".join, product('\\"[{,=', "\n "))]

    def text_of(head: str, unit: str, behind: str) -> Callable[[int], str]:
        return lambda n: head + unit * (4 * n // len(unit)) + behind

    for drawn in product(sorted(heads), units, ("y", "")):
        times = grown(lambda text: target.check(text.encode()), text_of(*drawn))
        if times > MOST_GROWN:
            slow.append(f"{times:.0f} times: {drawn}")
    assert slow == []


def test_growth_by_the_square_is_seen() -> None:
    assert grown(re.compile(r"\s*a\s*=\s*(.*?)\s*").fullmatch, lambda n: "a=x" + " " * n + "y") > MOST_GROWN
    assert grown(re.compile(r"\s*+a\s*+=\s*+(.*)").fullmatch, lambda n: "a=x" + " " * n + "y") <= MOST_GROWN
