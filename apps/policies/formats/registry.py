"""The formats there are, what of a policy each drops, and bytes into text."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.engine.installed import Installed
from apps.policies.files.parsed_document import Declared
from apps.policies.formats import csv_table, gridengine, json_document, sacctmgr, sacctmgr_script, yaml_document
from apps.policies.formats.base import Format
from apps.policies.formats.packages import brought_formats
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import SPARSE, TreeColumns

_OURS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (yaml_document, json_document, csv_table, sacctmgr, sacctmgr_script, gridengine)
}
_BROUGHT = brought_formats(tuple(_OURS))
FORMATS: Mapping[str, Format] = {**_OURS, **_BROUGHT.found}
MOST_BYTES = 512 * 1024 * 1024
_MOST_EXPANSION = 100
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_WORDS = {
    "kind": "kinds",
    "shares": "exact shares",
    "inherit": "inherited shares",
    "is_group": "empty groups or leaves",
    "scope_code": "scopes",
    "scope_sources": "sources of scopes",
    "locked": "locks",
    "dates": "dates",
    "members": "rules for members",
    "mount": "mounts",
    "name": "exact names",
}


def installed_formats() -> Installed[Format]:
    """Formats that other packages bring (entry points `fairshare.policy_formats`), and what was refused."""
    return _BROUGHT


def list_formats() -> list[Format]:
    return list(FORMATS.values())


def get_format(name: str) -> Format:
    if name not in FORMATS:
        message = f"{name[:40]!r} is unknown; known are {', '.join(FORMATS)}"
        raise Invalid(f"format {message}.", code="unknown_format", fields=[FieldProblem("format", message)])
    return FORMATS[name]


def has_associations(name: str) -> bool:
    """Whether groups of trees in this format are Slurm's accounts; not for a format that is gone."""
    return name in FORMATS and FORMATS[name].has_associations


def guess_format(text: str) -> Format | None:
    """The format that a text is probably in."""
    return next((each for each in (*_SUREST, *FORMATS.values()) if each.looks_like(text)), None)


_SUREST = (json_document.FORMAT, sacctmgr.FORMAT, gridengine.FORMAT, sacctmgr_script.FORMAT)


def read_file(format: Format, content: bytes) -> Declared:
    """What a file declares, or Invalid: with lines and paths, or with the format that it seems to be in."""
    text = text_of(content)
    try:
        return format.read(text)
    except Invalid as error:
        other = guess_format(text)
        if other is None or other is format or format.looks_like(text) or other.read is format.read:
            raise
        message = f"{error.message} It looks like {other.label}: use --format {other.name}."
        raise Invalid(message, code="wrong_format", fields=error.fields[:5]) from None


def write_file(format: Format, tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    return format.write(format.fit(tree), settings)


def text_of(content: bytes) -> str:
    """UTF-8, with or without a byte order mark, packed with gzip or not; line ends as they come."""
    if len(content) > MOST_BYTES:
        raise TooLarge(f"A file has at most {MOST_BYTES // 2**20} MB.")
    if content.startswith(b"\x1f\x8b"):
        content = _unpacked(content)
    if content.startswith(_UTF16):
        raise _unreadable("is UTF-16", 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(f"isn't UTF-8: byte 0x{content[error.start]:02X} in line {line}", line) from None
    if "\0" in text:
        raise _unreadable("is no text: it has zero bytes", text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unpacked(content: bytes) -> bytes:
    most = min(MOST_BYTES, max(len(content) * _MOST_EXPANSION, 1 << 20))
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(content, most)
    except zlib.error:
        raise Invalid("The file is damaged: it can't be unpacked.", code="corrupt_gzip") from None
    if unpacker.unconsumed_tail:
        raise TooLarge("The file expands too much when it is unpacked.", code="expands_too_much")
    if not unpacker.eof:
        raise Invalid("The file is damaged: it ends too early.", code="corrupt_gzip")
    return text


def _unreadable(message: str, line: int) -> Invalid:
    said = f"The file {message}; save it as UTF-8 (a spreadsheet calls it CSV UTF-8) and send it again."
    return Invalid(said, code="bad_encoding", fields=[FieldProblem(f"line {line}", message)])


def dropped(format: Format, tree: TreeColumns) -> list[str]:
    """What of this tree an export in the format leaves out, in words, with how many entries and the first of them."""
    fitted = format.fit(tree)
    found = [] if format.has_settings else ["the policy's settings"]
    if fitted is tree:
        return found
    if "uid" not in format.carries:
        found.append("uids: moves and new names read back as one entry gone and another one new")
    for column in ("shares", "inherit", "is_group", "scope_code", "locked"):
        differs = np.flatnonzero(getattr(fitted, column) != getattr(tree, column))
        if column == "shares":
            differs = np.flatnonzero((fitted.shares != tree.shares) & ~tree.inherit)
        found += _said(tree, column, differs.tolist())
    for sparse in SPARSE:
        found += _said(tree, sparse, [i for i in getattr(tree, sparse) if i not in getattr(fitted, sparse)])
    for texts in ("kind", "name"):
        pairs = zip(getattr(fitted, texts), getattr(tree, texts), strict=True)
        found += _said(tree, texts, [i for i, (a, b) in enumerate(pairs) if a != b and (i or texts == "kind")])
    return found


def _said(tree: TreeColumns, column: str, entries: list[int]) -> list[str]:
    if not entries:
        return []
    first = ", ".join(tree.path(i) for i in entries[:3]) + (", …" if len(entries) > 3 else "")
    return [f"{_WORDS[column]} of {len(entries):,} entr{'y' if len(entries) == 1 else 'ies'}: {first}"]
