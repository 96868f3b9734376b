"""How many examples a property test draws: few and always the same in `make test`, many random ones in `make test-all`.

Profiles go by target; whether CI is set changes nothing. `fixed` is loaded unless `--hypothesis-profile` names
another; with any but the two (`default`: random) a test draws just what it asks for.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from uuid import UUID

from hypothesis import HealthCheck, core, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.vendor.pretty import RepresentationPrinter

FIXED, DEEP = "fixed", "deep"
_ORDINARY = 100
_FEWEST = 25  # as far as a test asks for so many
_TIMED = (HealthCheck.too_slow,)  # a busy machine is no finding


def register_profiles() -> None:
    """Before hypothesis' plugin for pytest reads its options, so that they win."""
    plain = {"deadline": None, "suppress_health_check": _TIMED, "report_multiple_bugs": True}
    settings.register_profile(
        FIXED, max_examples=_count(_ORDINARY, FIXED), derandomize=True, database=None, print_blob=False, **plain
    )
    settings.register_profile(
        DEEP, max_examples=_count(_ORDINARY, DEEP), derandomize=False, print_blob=True,
        database=DirectoryBasedExampleDatabase(".hypothesis/examples"), **plain,
    )  # fmt: skip
    settings.load_profile(FIXED)
    show_values()


def show_values() -> None:
    """Undo what an import of schemathesis does to the whole process: failing examples are printed without values."""
    core.RepresentationPrinter = RepresentationPrinter  # type: ignore[attr-defined]


def examples(count: int, *, steps: int | None = None, suppress: Iterable[HealthCheck] = ()) -> settings:
    """Settings of a test that ordinarily draws so many; steps: of each run of a state machine, at most."""
    asked = settings(
        max_examples=_count(count, settings.get_current_profile_name()),
        suppress_health_check=[*_TIMED, *(check for check in suppress if check not in _TIMED)],
        deadline=None,
    )
    return asked if steps is None else settings(asked, stateful_step_count=steps)


def new_uid() -> UUID:
    """A uid as uuid4 makes them, yet the same whenever an example runs again: hypothesis seeds `random`."""
    return UUID(int=random.getrandbits(128), version=4)


def _count(count: int, profile: str) -> int:
    if profile == FIXED:
        return max(count // 4, min(count, _FEWEST))
    return 4 * count if profile == DEEP else count
