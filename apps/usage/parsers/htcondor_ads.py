"""Read HTCondor's job ads in each form that its commands print: long, JSON, JSON lines and XML, and its history file.

An ad is given with the attributes that usage needs, by their names in lower case (HTCondor's names have no case), and
with equal values in every form. Source: HTCondor's manual, "condor_history" and "HTCondor's ClassAd Mechanism".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from apps.usage.parsers.base import Parsed, RecordBatch, RecordRow, Rejection, excerpt
from apps.usage.parsers.field_values import BadRecord
from apps.usage.parsers.json_items import MOST_ITEM_BYTES, Item, JsonItems
from apps.usage.parsers.json_lines import loaded
from apps.usage.parsers.lines import MOST_LINE_BYTES, Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.xml_records import Node, XmlLimits, parse_xml


class Expression(NamedTuple):
    """What isn't a plain value: HTCondor would evaluate it."""

    text: str


Value = int | float | str | bool | Expression | None
Ad = Mapping[str, Value]
RowsOfAd = Callable[[Ad, Notes], list[RecordRow]]

MOST_AD_BYTES = MOST_LINE_BYTES  # an ad, or a line of one
MOST_AD_ATTRIBUTES = 20_000  # in XML; a usual ad has 130
LONGEST_AD_VALUE = 4_096  # characters; usage needs none that is longer
MOST_OWN_RESOURCES = 64  # *Provisioned of an ad
CUT_OFF = "The last job breaks off: export it again."
_NEEDED = frozenset(
    name.lower()
    for name in (
        *("ClusterId", "ProcId", "GlobalJobId", "Owner", "User", "AcctGroup", "AcctGroupUser", "AccountingGroup"),
        *("JobStatus", "LastJobStatus", "JobUniverse", "QDate", "JobStartDate", "JobCurrentStartDate", "ShadowBday"),
        *("CompletionDate", "EnteredCurrentStatus", "RemoteWallClockTime", "LastRemoteWallClockTime"),
        *("CumulativeSuspensionTime", "NumShadowStarts", "NumJobStarts", "MaxHosts", "EpochWriteDate"),
        *("RequestCpus", "RequestGPUs", "RequestMemory", "RequireGPUs", "ConcurrencyLimits"),
        *("AllowedJobDuration", "AllowedExecuteDuration", "x509userproxysubject", "x509UserProxyFirstFQAN"),
        *("MachineAttrGPUs_DeviceName0", "MachineAttrCUDADeviceName0", "GPUs_DeviceName", "CUDADeviceName"),
    )
)
PROVISIONED = "provisioned"
_PIECE_ADS = 2_000
_PIECE_BYTES = 16 * 1024**2
_XML_LIMITS = XmlLimits(2 * MOST_AD_ATTRIBUTES + 1, MOST_AD_BYTES, "classads")
_ATTRIBUTE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*", re.ASCII | re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_REAL = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_JSON_EXPRESSION = re.compile(r"/Expr\((.*)\)/", re.DOTALL)
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "undefined": None, "error": None}


def form_of(start: bytes) -> str:
    """long, json, jsonl or xml, by the first bytes of a file."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return {b"[": "json", b"{": "jsonl", b"<": "xml"}.get(text[:1], "long")


def parse_ads(stream: BinaryIO, form: str, rows_of: RowsOfAd, resume: Mapping[str, Any] | None) -> Iterator[Parsed]:
    """Parse the ads of a file in pieces. A rejection's line is that of the ad's first line, in JSON and XML its number.

    Raises:
        Invalid: the XML isn't one of ads.
    """
    if form == "json":
        yield from _parse_array(stream, rows_of, resume)
    elif form == "xml":
        take = partial(_rows_of_node, rows_of)
        yield from parse_xml(stream, frozenset(("c",)), take, resume, limits=_XML_LIMITS)
    else:
        reader = _Lines(rows_of) if form == "jsonl" else _Long(rows_of)
        is_long = form == "long"
        yield from parse_lines(stream, reader, resume, most_bytes=MOST_AD_BYTES, are_blanks_read=is_long)


def _is_needed(name: str) -> bool:
    """name: in lower case."""
    return name in _NEEDED or name.endswith(PROVISIONED)


class _Collected:
    """The needed attributes of one ad; of the resources that a site adds, the first."""

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        self.values: dict[str, Value] = dict(values or {})
        self._n_own = sum(name not in _NEEDED for name in self.values)

    def set(self, name: str, value: Value) -> None:
        """name: in lower case, one that is needed."""
        if name not in _NEEDED and name not in self.values:
            self._n_own += 1
            if self._n_own > MOST_OWN_RESOURCES:
                return
        text = value.text if isinstance(value, Expression) else value
        if isinstance(text, str) and len(text) > LONGEST_AD_VALUE:
            value = None
        self.values[name] = value


# --- Long: `name = value` a line; a blank line ends an ad, in the history file one that begins with ***
class _Long:
    def __init__(self, rows_of: RowsOfAd) -> None:
        self._rows_of = rows_of
        self._forget()

    def _forget(self) -> None:
        self._ad = _Collected()
        self._first_line = 0
        self._damage = ""

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        if not text or text.startswith(("***", "--")):
            return self._end(notes)
        match = _ATTRIBUTE.fullmatch(text)
        self._first_line = self._first_line or line
        if match is None:
            self._damage = self._damage or f"Line {line} isn't one of name = value."
            return []
        name = match[1].lower()
        if _is_needed(name):
            self._ad.set(name, _value_of(match[2]))
        return []

    def _end(self, notes: Notes) -> Rows:
        ad, line, damage = self._ad.values, self._first_line, self._damage
        self._forget()
        if not line:
            return []
        try:
            if damage:
                raise BadRecord("bad_line", damage)
            return [(line, row) for row in self._rows_of(ad, notes)]
        except BadRecord as bad:
            raise BadRecord(bad.code, bad.message, line) from bad

    def skip(self, line: int) -> None:
        """An attribute of over 4 MB, which usage doesn't need."""
        self._first_line = self._first_line or line

    def finish(self, notes: Notes) -> Rows:
        """An ad without its end may lack attributes. It stays, as a history file that grows may have the rest later."""
        if self._first_line:
            raise BadRecord("cut_off", CUT_OFF, self._first_line)
        return []

    def remember(self) -> dict[str, Any]:
        plain = {
            name: [value.text] if isinstance(value, Expression) else value for name, value in self._ad.values.items()
        }
        return {"ad": plain, "first_line": self._first_line, "damage": self._damage}

    def recall(self, remembered: Mapping[str, Any]) -> None:
        self._forget()
        values = remembered.get("ad", {})
        self._ad = _Collected({
            name: Expression(value[0]) if isinstance(value, list) else value for name, value in values.items()
        })  # fmt: skip
        self._first_line = int(remembered.get("first_line", 0))
        self._damage = str(remembered.get("damage", ""))


def _value_of(text: str) -> Value:
    """A value as ClassAds are written."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text) if math.isfinite(float(text)) else None
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"')  # the one escape of this form
    word = text.lower()
    return _CONSTANTS[word] if word in _CONSTANTS else Expression(text)


# --- JSON, as an array or one ad a line
class _Lines(SingleLines):
    def __init__(self, rows_of: RowsOfAd) -> None:
        self._rows_of = rows_of

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        return [(line, row) for row in self._rows_of(_ad_of_json(text), notes)]


def _parse_array(stream: BinaryIO, rows_of: RowsOfAd, resume: Mapping[str, Any] | None) -> Iterator[Parsed]:
    state = resume or {"offset": 0, "number": 0}
    stream.seek(state["offset"])
    items = JsonItems(stream, "", offset=state["offset"], number=state["number"])
    held: list[Item] = []
    n_bytes, number, offset = 0, int(state["number"]), int(state["offset"])
    for item in items:
        held.append(item)
        n_bytes, number, offset = n_bytes + len(item.data), item.number, item.end_offset
        if len(held) == _PIECE_ADS or n_bytes > _PIECE_BYTES:
            yield _piece(held, rows_of, number, offset)
            held, n_bytes = [], 0
    last = _piece(held, rows_of, number, offset)
    if items.problem:
        why = f"{items.problem} Jobs from the {number + 1}. on are not in it: export them again."
        last.rejections.append(Rejection(number + 1, "cut_off", why))
    if last.n_lines or last.rejections:
        yield last


def _piece(items: Sequence[Item], rows_of: RowsOfAd, number: int, offset: int) -> Parsed:
    rows: Rows = []
    rejections: list[Rejection] = []
    notes: Notes = Counter()
    for item in items:
        try:
            if not item.is_whole:
                raise BadRecord("too_large", f"The job has over {MOST_ITEM_BYTES // 1024**2} MB.")
            ad = _ad_of_json(item.data.decode("utf-8", "surrogateescape"))
            rows += [(item.number, row) for row in rows_of(ad, notes)]
        except BadRecord as bad:
            rejections.append(Rejection(item.number, bad.code, bad.message, excerpt(item.data)))
    batch = RecordBatch.from_rows([row for _, row in rows], [place for place, _ in rows])
    return Parsed(batch, rejections, dict(notes), {"offset": offset, "number": number}, len(items), offset)


def _ad_of_json(text: str) -> Ad:
    value = loaded(text)
    if not isinstance(value, dict):
        raise BadRecord("not_an_object", "A job is a JSON object.")
    ad = _Collected()
    for name, item in value.items():
        lower = name.lower()
        if _is_needed(lower):
            ad.set(lower, _plain(item))
    return ad.values


def _plain(value: Any) -> Value:
    if isinstance(value, str):
        expression = _JSON_EXPRESSION.fullmatch(value)
        return Expression(expression[1]) if expression else value
    return value if isinstance(value, bool | int | float) else None


# --- XML: <c> is an ad, <a n="name"> an attribute, with one element that names the type of its value
def _rows_of_node(rows_of: RowsOfAd, node: Node, notes: Notes) -> list[RecordRow]:
    ad = _Collected()
    for attribute in node.children:
        name = attribute.attributes.get("n", "").lower()
        if attribute.name == "a" and attribute.children and _is_needed(name):
            ad.set(name, _value_of_node(attribute.children[0]))
    return rows_of(ad.values, notes)


def _value_of_node(node: Node) -> Value:
    if node.name == "s":
        return _unescaped(node.text)
    if node.name in ("i", "r"):
        value = _value_of(node.text.strip())
        return None if isinstance(value, Expression) else value
    if node.name == "b":
        return node.attributes.get("v", "").lower() in ("t", "true")
    return Expression(node.text.strip()) if node.name == "e" else None


def _unescaped(text: str) -> str:
    """Backslashes and bytes that aren't ASCII are escaped as in C."""
    if "\\" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda match: _byte(match[1]), data).decode("utf-8", "surrogateescape")


def _byte(escape: bytes) -> bytes:
    if escape.isdigit() and len(escape) == 3:
        return bytes((int(escape, 8) & 0xFF,))
    return _ESCAPES.get(escape, escape)
