"""What reads foreign text takes time by its length, not by the square of it: one match holds the interpreter's lock.

Patterns are tried alone, on texts that hypothesis draws from each of them, and readers on what repeats in their inputs.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import time
from collections import defaultdict
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
_METHODS = ("fullmatch", "match", "search", "findall", "finditer", "sub", "subn", "split")
_USE = re.compile(rf"(\w+)\)?\.({'|'.join(_METHODS)})\b")
_UNBOUNDED = re.compile(r"[*+]|,\}")


def patterns() -> dict[str, tuple[re.Pattern[str], set[str]]]:
    """All patterns that modules hold, and those within calls of `re`, by name, with the methods that are called."""
    held = dict[int, tuple[str, re.Pattern[str]]]()
    methods = defaultdict[int, set[str]](set)
    inline = dict[str, tuple[re.Pattern[str], set[str]]]()
    for path in sorted((*REPOSITORY.glob("apps/**/*.py"), *REPOSITORY.glob("agent/**/*.py"))):
        if "migrations" in path.parts or path.name == "__main__.py":
            continue
        source = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        inline |= {f"{name}:{line}": found for line, found in _inline(source)}
        used = _USE.findall(source)
        for own, value in vars(importlib.import_module(name)).copy().items():
            several = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
            for each in (value,) if several is None else tuple(several):
                if isinstance(each, re.Pattern):
                    held.setdefault(id(each), (f"{name}.{own}", _of_text(each)))
                    methods[id(each)] |= {method for called, method in used if several is not None or called == own}
    listed = {name: (pattern, methods[key]) for key, (name, pattern) in held.items()}
    return {name: each for name, each in (listed | inline).items() if each[1] and _UNBOUNDED.search(each[0].pattern)}


def _inline(source: str) -> Iterator[tuple[int, tuple[re.Pattern[str], set[str]]]]:
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(str() | bytes() as text), *_]):
                if method in _METHODS:
                    flags = next((ast.unparse(word.value) for word in call.keywords if word.arg == "flags"), "0")
                    pattern = re.compile(text, eval(flags, {"re": re}))  # noqa: S307 - our own
                    yield call.lineno, (_of_text(pattern), {method})


def _of_text(pattern: re.Pattern[Any]) -> re.Pattern[str]:
    """One of bytes takes the same steps on text."""
    if isinstance(pattern.pattern, str):
        return pattern
    return re.compile(pattern.pattern.decode("latin-1"), pattern.flags | re.ASCII)


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
    slow = {name: text for name, each in patterns().items() if (text := slow_text(*each))}
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
