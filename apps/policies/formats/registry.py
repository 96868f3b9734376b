"""The registry of file formats, including those of installed packages; decoding of files, and what exports drop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from apps.core.counts import counted
from apps.core.errors import DomainError, FieldProblem, Invalid
from apps.engine.installed import Installed, load_installed, require_name, require_texts
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats import (
    csv_table,
    gridengine,
    htcondor,
    json_document,
    sacctmgr,
    sacctmgr_script,
    yaml_document,
)
from apps.policies.formats.base import Format
from apps.policies.formats.decoding import text_of
from apps.policies.formats.slurm_listings import tree_hint
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import SPARSE, TreeColumns
from apps.policies.tree.names import new_uids

ENTRY_POINT_GROUP = "fairshare.policy_formats"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")  # part of a URL
_BUILT_IN: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (yaml_document, json_document, csv_table, sacctmgr, sacctmgr_script, gridengine, htcondor)
}
_HEAD = 64 * 1024  # characters by which a format is recognised
_WORDS = {
    "kind": "kinds",
    "shares": "exact shares",
    "inherit": "inherited shares",
    "is_group": "empty groups or leaves",
    "scope_code": "scopes",
    "scope_sources": "sources of scopes",
    "locked": "locks",
    "dates": "dates",
    "members": "membership rules",
    "mount": "mounts",
    "name": "exact names",
}
_MOST_DISTINCTIVE = (json_document.FORMAT, sacctmgr.FORMAT, gridengine.FORMAT, htcondor.FORMAT, sacctmgr_script.FORMAT)


@cache
def load_package_formats(ours: tuple[str, ...]) -> Installed[Format]:
    """Load formats of installed packages; invalid ones are listed with the reason. ours: names in use."""
    return load_installed(ENTRY_POINT_GROUP, _check, is_taken=lambda name: name in ours)


def _check(name: str, candidate: Any) -> Format:
    """Return a package's format with guarded functions; raise ValueError if it can't read or write its sample."""
    if type(candidate) is not Format:
        raise ValueError(f"it must be a Format, not a {type(candidate).__name__}")
    require_name(candidate, name)
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be 1–40 of a–z, 0–9 and -, beginning with a letter")
    require_texts(candidate, ("label", "reference", "sample", "media_type", "suffix"))
    carries: object = candidate.carries
    if not isinstance(carries, tuple) or not all(isinstance(each, str) for each in carries):
        raise ValueError("its carries must be a tuple of texts")
    checked = _guarded(candidate)
    if not checked.looks_like(candidate.sample) or checked.looks_like(""):
        raise ValueError("its looks_like must recognise its sample, and no empty text")
    try:
        # Raise ValueError unless the sample, written and read again, yields the same tree.
        first = checked.read(checked.sample).tree
        fitted = checked.fit(replace(first, uid=new_uids(len(first))))
        again = checked.read("".join(checked.write(fitted, PolicySettings()))).tree
        if _comparable_rows(again) != _comparable_rows(fitted):
            raise ValueError("what it writes of its sample reads as another tree")
    except DomainError as error:
        raise ValueError(f"its sample can't be read and written: {error.message}") from error
    return checked


def _comparable_rows(tree: TreeColumns) -> set[tuple[str, float, bool]]:
    """Return paths and shares, without the root, whose name is that of the policy."""
    rows = range(1, len(tree))
    return {(tree.path(i), float(tree.shares[i]), bool(tree.inherit[i])) for i in rows}


def _guarded(policy_format: Format) -> Format:
    """Wrap the functions of a package's format, so that their failures become Invalid with the format's name."""

    def called(function: Callable[..., Any], kind: type, *arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except DomainError:
            raise
        except Exception as error:  # whatever a package does in its functions
            raise _failed(policy_format, f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(result, kind):
            raise _failed(policy_format, f"gave a {type(result).__name__} in place of a {kind.__name__}")
        return result

    def read(text: str) -> ParsedDocument:
        result: ParsedDocument = called(policy_format.read, ParsedDocument, text)
        return result

    def fit(tree: TreeColumns) -> TreeColumns:
        result: TreeColumns = called(policy_format.fit, TreeColumns, tree)
        if len(result) != len(tree) or (result.uid is not tree.uid and (result.uid != tree.uid).any()):
            raise _failed(policy_format, "gave a tree of other entries")
        return result

    def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
        pieces = iter(called(policy_format.write, object, tree, settings))
        while (piece := called(next, object, pieces, None)) is not None:
            if not isinstance(piece, str):
                raise _failed(policy_format, f"gave a {type(piece).__name__} in place of text")
            yield piece

    def looks_like(text: str) -> bool:
        try:
            return policy_format.looks_like(text) is True
        except Exception:  # a failure means that it doesn't recognise the text
            return False

    return replace(policy_format, read=read, write=write, looks_like=looks_like, fit=fit)


def _failed(policy_format: Format, what: str) -> Invalid:
    return Invalid(f"The package of the policy format {policy_format.name} {what}.", code="package_failed")


_PACKAGED = load_package_formats(tuple(_BUILT_IN))
FORMATS: Mapping[str, Format] = {**_BUILT_IN, **_PACKAGED.objects}


def installed_formats() -> Installed[Format]:
    """Return formats of installed packages (entry points `fairshare.policy_formats`), and why others were refused."""
    return _PACKAGED


def list_formats() -> list[Format]:
    return list(FORMATS.values())


def get_format(name: str) -> Format:
    if name not in FORMATS:
        message = f"{name[:40]!r} is unknown; known are {', '.join(FORMATS)}"
        raise Invalid(f"format {message}.", code="unknown_format", fields=[FieldProblem("format", message)])
    return FORMATS[name]


def has_associations(name: str) -> bool:
    """Return whether groups in this format are Slurm accounts; false for formats that are no longer installed."""
    return name in FORMATS and FORMATS[name].has_associations


def maps_by(name: str) -> str:
    """Return the kind of the one rule that maps every account to this format's tree; "" for several rules."""
    return FORMATS[name].maps_by if name in FORMATS else ""


def guess_format(text: str) -> Format | None:
    """Return the format that a text is probably in by its first lines, or None."""
    return next((each for each in (*_MOST_DISTINCTIVE, *FORMATS.values()) if each.looks_like(text[:_HEAD])), None)


def read_file(format: Format, content: bytes) -> ParsedDocument:
    """Read a file; raise Invalid with lines and paths, or with the format that it seems to be in."""
    text = text_of(content)
    try:
        return format.read(text)
    except Invalid as error:
        if hint := tree_hint(text[:_HEAD]):
            raise Invalid(f"{error.message} {hint}", code="wrong_format", fields=error.fields[:5]) from None
        other = guess_format(text)
        if other is None or other is format or format.looks_like(text[:_HEAD]) or other.read is format.read:
            raise
        message = f"{error.message} It looks like {other.label}: use --format {other.name}."
        raise Invalid(message, code="wrong_format", fields=error.fields[:5]) from None


def write_file(format: Format, tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    return format.write(format.fit(tree), settings)


def dropped(format: Format, tree: TreeColumns) -> list[str]:
    """Describe what an export in the format drops of this tree, with the number of entries and the first of them."""
    fitted = format.fit(tree)
    losses = [] if format.has_settings else ["the policy's settings"]
    if fitted is tree:
        return losses
    if "uid" not in format.carries:
        losses.append("uids: moved and renamed entries are read back as one entry removed and another one added")
    for column in ("shares", "inherit", "is_group", "scope_code", "locked"):
        differs = np.flatnonzero(getattr(fitted, column) != getattr(tree, column))
        if column == "shares":
            differs = np.flatnonzero((fitted.shares != tree.shares) & ~tree.inherit)
        losses += _describe(tree, column, differs.tolist())
    for sparse in SPARSE:
        losses += _describe(tree, sparse, [i for i in getattr(tree, sparse) if i not in getattr(fitted, sparse)])
    for texts in ("kind", "name"):
        pairs = zip(getattr(fitted, texts), getattr(tree, texts), strict=True)
        losses += _describe(tree, texts, [i for i, (a, b) in enumerate(pairs) if a != b and (i or texts == "kind")])
    return losses


def _describe(tree: TreeColumns, column: str, entries: list[int]) -> list[str]:
    if not entries:
        return []
    first = ", ".join(tree.path(i) for i in entries[:3]) + (", …" if len(entries) > 3 else "")
    return [f"{_WORDS[column]} of {counted(len(entries), 'entry', 'entries')}: {first}"]
