"""Many cases of one rule in one test: all are tried, and a failure names each case that failed, with its reason.

For cases that take a millisecond and share no state: a test of its own for each would be collected in each worker, set
up and reported. Where cases change a database, a file or the process, `pytest.mark.parametrize` separates them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_OUTCOMES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
_MOST_LETTERS = 80  # of a value in the name of a case
_SHOWN = 30
Test = Callable[..., None]
Names = Callable[[Any], object] | Sequence[object] | None


class CasesFailed(AssertionError):
    """failed: the names of the cases with their errors."""

    def __init__(self, n_cases: int, failed: Sequence[tuple[str, BaseException]]) -> None:
        self.n_cases, self.failed = n_cases, failed
        lines = [f"{len(failed)} of {n_cases} cases failed:"]
        lines += [f"{name}: {_reason(error)}" for name, error in failed[:_SHOWN]]
        if len(failed) > _SHOWN:
            lines.append("and " + ", ".join(name for name, _error in failed[_SHOWN:]))
        super().__init__("\n".join(lines))


def each_case(names: str | Sequence[str], cases: Iterable[Any], ids: Names = None) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, with which it shares its arguments: several make every combination.

    A case may not be skipped, and has no marks. Raises TypeError for one that has, ValueError for cases of another
    length than their names or for none.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labelled = [_case(arguments, n, case, ids) for n, case in enumerate(cases)]
    if not labelled:
        raise ValueError("A test of no cases tests nothing.")

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in arguments]
        if len(left) + len(arguments) != len(signature.parameters):
            raise TypeError(f"{test.__name__} doesn't take {', '.join(arguments)}.")

        @functools.wraps(test)
        def tried(**fixtures: Any) -> None:
            __tracebackhide__ = True
            n_cases, failed = 0, []
            for label, values in labelled:
                try:
                    test(**fixtures, **values)
                    n_cases += getattr(test, "n_cases", 1)
                except CasesFailed as below:
                    n_cases += below.n_cases
                    failed += [(f"{label}-{name}", error) for name, error in below.failed]
                except _OUTCOMES as error:
                    n_cases += 1
                    failed.append((label, error))
            if failed:
                raise CasesFailed(n_cases, failed) from failed[0][1]

        tried.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        tried.n_cases = len(labelled) * getattr(test, "n_cases", 1)  # type: ignore[attr-defined]
        return tried

    return decorate


def _case(arguments: Sequence[str], n: int, case: Any, ids: Names) -> tuple[str, dict[str, Any]]:
    own = getattr(case, "id", None) if hasattr(case, "marks") else None
    if getattr(case, "marks", ()):
        raise TypeError(f"Case {n} has marks, which are a test's: use pytest.mark.parametrize.")
    values = tuple(case.values) if hasattr(case, "marks") else (case,) if len(arguments) == 1 else tuple(case)
    if len(values) != len(arguments):
        raise ValueError(f"Case {n} has {len(values)} values for {', '.join(arguments)}.")
    if own is None and isinstance(ids, Sequence):
        own = ids[n]
    texts = [_text(value, ids if callable(ids) else None) for value in values]
    return f"[{n} {own if own is not None else '-'.join(texts)}]", dict(zip(arguments, values, strict=True))


def _text(value: Any, name: Callable[[Any], object] | None) -> str:
    chosen = name(value) if name is not None else None
    text = str(chosen) if chosen is not None else getattr(value, "__name__", None) or ascii(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": \n")
