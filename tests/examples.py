"""How many examples a property test draws: few and always the same in `make test`, new ones in `make night`.

Profiles go by target; whether CI is set changes nothing. `fixed` is loaded unless `--hypothesis-profile` names
another. `fresh` draws four times as many, new ones in each run. It prints what fails as `@reproduce_failure`; without
`--hypothesis-seed` it keeps it in `.hypothesis` and tries it first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, core, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.vendor.pretty import RepresentationPrinter

FIXED, FRESH = "fixed", "fresh"
_ORDINARY = 100
_FEWEST = 12  # as far as a test asks for so many
_TIMED = (HealthCheck.too_slow,)  # a busy machine is no finding


def register_profiles() -> None:
    """Before hypothesis' plugin for pytest reads its options, so that they win."""
    basis = settings(settings.get_profile("default"), deadline=None, suppress_health_check=_TIMED)
    settings.register_profile(
        FIXED, basis, max_examples=_count(_ORDINARY, FIXED), derandomize=True, database=None, print_blob=False
    )
    settings.register_profile(FRESH, basis, max_examples=_count(_ORDINARY, FRESH), print_blob=True)
    settings.load_profile(FIXED)
    _draw_without_constants_of_the_code()
    show_values()


def _draw_without_constants_of_the_code() -> None:
    """Else what is drawn would depend on which modules happen to be imported, and on every literal in them.

    A failure of `fresh` comes again by its seed, also where its test runs alone.
    """
    none = providers._local_constants

    def constants() -> Constants:
        return none

    providers._get_local_constants = constants


def show_values() -> None:
    """Undo what an import of schemathesis does to the whole process: failing examples are printed without values."""
    core.RepresentationPrinter = RepresentationPrinter  # type: ignore[attr-defined]


def examples(
    count: int, *, steps: int | None = None, suppress: Iterable[HealthCheck] = (), fixed: int | None = None
) -> settings:
    """Settings of a test that ordinarily draws so many; steps: of each run of a state machine, at most.

    fixed: how many in the profile of this name, for a test whose examples are long and go through much each.
    """
    asked = settings(
        max_examples=_count(count, settings.get_current_profile_name(), fixed),
        suppress_health_check=[*_TIMED, *(check for check in suppress if check not in _TIMED)],
        deadline=None,
    )
    return asked if steps is None else settings(asked, stateful_step_count=steps)


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of one rule: so many in `make test`, the others in `make night` too."""
    return [case if number < count else _deep(case) for number, case in enumerate(cases)]


def _deep(case: Any) -> Any:
    values = case.values if hasattr(case, "marks") else case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, id=getattr(case, "id", None), marks=[*getattr(case, "marks", ()), pytest.mark.deep])


def new_uid() -> UUID:
    """A uid as uuid4 makes them, yet the same whenever an example runs again: hypothesis seeds `random`."""
    return UUID(int=random.getrandbits(128), version=4)


def _count(count: int, profile: str, fixed: int | None = None) -> int:
    few = fixed or max(count // 8, min(count, _FEWEST))
    return {FIXED: few, FRESH: min(4 * few, count)}.get(profile, count)
