"""Load objects that other packages provide through entry points, check them, and reject invalid ones by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

# All supported groups of entry points.
GROUPS = (
    "fairshare.algorithms",
    "fairshare.operators",
    "fairshare.accounting_formats",
    "fairshare.policy_formats",
)
Brought = TypeVar("Brought")


@dataclass(frozen=True)
class Refused:
    """A rejected entry point and the reason; everything else works as if its package weren't installed."""

    group: str
    name: str
    package: str
    reason: str


@dataclass(frozen=True)
class Installed(Generic[Brought]):
    """Accepted objects by name, the package of each, and rejected entry points."""

    objects: Mapping[str, Brought]
    package: Mapping[str, str]
    refused: tuple[Refused, ...]


def load_installed(
    group: str, check: Callable[[str, object], Brought], *, is_taken: Callable[[str], bool]
) -> Installed[Brought]:
    """Load a group of entry points. check(name, object) returns the object or raises ValueError with the problem."""
    loaded: dict[str, Brought] = {}
    package: dict[str, str] = {}
    refused = []
    for point in sorted(entry_points(group=group), key=lambda point: (package_of(point), point.name)):
        try:
            if is_taken(point.name):
                raise ValueError(f"the name {point.name!r} is taken by one of ours")
            if point.name in loaded:
                raise ValueError(f"the name {point.name!r} is taken by the package {package[point.name]}")
            loaded[point.name] = check(point.name, _loaded(point))
            package[point.name] = package_of(point)
        except ValueError as error:
            refused.append(Refused(group, point.name, package_of(point), str(error)))
    return Installed(loaded, package, tuple(refused))


def unknown_groups(known: Iterable[str]) -> list[EntryPoint]:
    """Entry points of a group `fairshare.…` that isn't one of `known`, for example because its name is misspelt."""
    groups = {each for each in entry_points().groups if each.startswith("fairshare.")} - set(known)
    return [point for group in sorted(groups) for point in entry_points(group=group)]


def package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module.partition(".")[0]


def rejection_note(installed: Installed[Brought], name: str) -> str:
    """Addition to the message about an unknown name: the package that wanted to provide it and why it was rejected."""
    refused = next((each for each in installed.refused if each.name == name), None)
    return "" if refused is None else f" (package {refused.package} was refused: {refused.reason})"


def require_texts(thing: object, names: Iterable[str]) -> None:
    """Raise ValueError if an attribute is missing or not a non-empty string."""
    for name in names:
        value = getattr(thing, name, None)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"its {name} must be a text that isn't empty")


def require_name(thing: object, name: str) -> None:
    """Raise ValueError if an object's name differs from that of its entry point."""
    if getattr(thing, "name", None) != name:
        raise ValueError(f"it calls itself {getattr(thing, 'name', None)!r:.60}, its entry point {name!r}")


def _loaded(point: EntryPoint) -> object:
    try:
        loaded: object = point.load()
    except (Exception, SystemExit) as error:  # packages may raise anything on import
        raise ValueError(f"{point.value} can't be imported: {type(error).__name__}: {error}") from error
    if isinstance(loaded, type):
        raise ValueError(f"{point.value} is a class: the entry point must name an instance")
    return loaded
