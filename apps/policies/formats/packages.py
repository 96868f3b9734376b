"""Policy formats that other packages bring: tried out on their own sample, and what they give is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from apps.core.errors import DomainError, Invalid
from apps.engine.installed import Installed, load_installed, require_name, require_texts
from apps.policies.files.parsed_document import Declared
from apps.policies.formats.base import Format
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import new_uids

ENTRY_POINT_GROUP = "fairshare.policy_formats"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")  # it is part of an address


@cache
def brought_formats(ours: tuple[str, ...]) -> Installed[Format]:
    """Formats of other packages, and what was refused. ours: names that are taken."""
    return load_installed(ENTRY_POINT_GROUP, _check, is_taken=lambda name: name in ours)


def _check(name: str, given: Any) -> Format:
    """The format, or ValueError: it is complete, recognises its sample, reads it, and reads what it writes of it."""
    if type(given) is not Format:
        raise ValueError(f"it must be a Format, not a {type(given).__name__}")
    require_name(given, name)
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be 1–40 of a–z, 0–9 and -, beginning with a letter")
    require_texts(given, ("label", "reference", "sample", "media_type", "suffix"))
    carries: object = given.carries
    if not isinstance(carries, tuple) or not all(isinstance(each, str) for each in carries):
        raise ValueError("its carries must be a tuple of texts")
    checked = _guarded(given)
    if not checked.looks_like(given.sample) or checked.looks_like(""):
        raise ValueError("its looks_like must recognise its sample, and no empty text")
    try:
        _try(checked)
    except DomainError as error:
        raise ValueError(f"its sample can't be read and written: {error.message}") from error
    return checked


def _try(checked: Format) -> None:
    """ValueError unless the sample, written down and read again, is the same tree."""
    first = checked.read(checked.sample).tree
    fitted = checked.fit(replace(first, uid=new_uids(len(first))))
    again = checked.read("".join(checked.write(fitted, PolicySettings()))).tree
    if _said(again) != _said(fitted):
        raise ValueError("what it writes of its sample reads as another tree")


def _said(tree: TreeColumns) -> set[tuple[str, float, bool]]:
    """Paths and shares; the root is called like its policy, whatever a file calls it."""
    rows = range(1, len(tree))
    return {(tree.path(i), float(tree.shares[i]), bool(tree.inherit[i])) for i in rows}


def _guarded(given: Format) -> Format:
    """A failure of its code is a refusal of the file, with the format's name."""

    def called(function: Callable[..., Any], kind: type, *arguments: Any) -> Any:
        try:
            found = function(*arguments)
        except DomainError:
            raise
        except Exception as error:  # whatever a package does in its functions
            raise _failed(given, f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(found, kind):
            raise _failed(given, f"gave a {type(found).__name__} in place of a {kind.__name__}")
        return found

    def read(text: str) -> Declared:
        found: Declared = called(given.read, Declared, text)
        return found

    def fit(tree: TreeColumns) -> TreeColumns:
        found: TreeColumns = called(given.fit, TreeColumns, tree)
        if len(found) != len(tree) or (found.uid is not tree.uid and (found.uid != tree.uid).any()):
            raise _failed(given, "gave a tree of other entries")
        return found

    def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
        pieces = iter(called(given.write, object, tree, settings))
        while (piece := called(next, object, pieces, None)) is not None:
            if not isinstance(piece, str):
                raise _failed(given, f"gave a {type(piece).__name__} in place of text")
            yield piece

    def looks_like(text: str) -> bool:
        try:
            return given.looks_like(text) is True
        except Exception:  # it doesn't know the text, whatever else is wrong with it
            return False

    return replace(given, read=read, write=write, looks_like=looks_like, fit=fit)


def _failed(given: Format, what: str) -> Invalid:
    return Invalid(f"The package of the policy format {given.name} {what}.", code="package_failed")
