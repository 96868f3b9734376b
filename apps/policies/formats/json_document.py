"""The document format as JSON: holds everything of a policy, with one entry per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext_noop

from apps.core.errors import Invalid, TooLarge
from apps.core.json_values import has_more_values
from apps.policies.files.document import Address, entry_values, head_values, read_document
from apps.policies.files.document_walk import WalkedNodes, walk_document
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.files.plain_leaves import Entries, columns_of_leaves
from apps.policies.formats.base import WHOLE_TREE, Format, line_finder
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MOST_POLICY_ENTRIES

MOST_POLICY_VALUES = 6 * MOST_POLICY_ENTRIES  # a file of 64 MB has no room for more in each of the most entries
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:\n]|[^\s{}\[\],:"]++')


def parse(text: str) -> Any:
    """Parse JSON text; raise Invalid with the line. Numbers that JSON can't represent are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise Invalid(f"The document is not JSON: line {error.lineno}: {error.msg}.", code="bad_document") from None
    except RecursionError:
        raise Invalid("The document is nested too deeply.", code="bad_document") from None
    except ValueError as error:
        raise Invalid(f"The document can't be read: {str(error)[:200]}.", code="bad_document") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a valid number here")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r:.60} is repeated in one object")
    return document


def read(text: str) -> ParsedDocument:
    if has_more_values(text.encode(), MOST_POLICY_VALUES):
        raise TooLarge(f"The document has more than {MOST_POLICY_VALUES:,} values.")
    return read_document(parse(text), line_finder(lambda: json_places(text)))


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    head = _encode(head_values(tree, settings))
    yield f'{head[:-1]},\n"root":'
    nodes = WalkedNodes(tree)
    is_first = True
    for step, level in walk_document(tree):
        begin = "\n" + " " * level
        if not isinstance(step, int):
            yield ("" if is_first else ",") + begin + f",{begin}".join(_leaves(tree, step))
            is_first = False
            continue
        if step < 0:
            yield "]}"
        else:
            entry = _encode(entry_values(tree, step, nodes.node(step, level)))
            yield ("" if is_first else ",") + begin
            yield f'{entry[:-1]}, "children": [' if tree.is_group[step] else entry
        is_first = step >= 0 and bool(tree.is_group[step])
    yield "}\n"


def _leaves(tree: TreeColumns, entries: Entries) -> list[str]:
    """`entry_values` of plain leaves."""
    columns = columns_of_leaves(tree, entries, _encode)
    names = map(_encode, columns.name)
    return [
        f'{{"uid": "{uid}", "name": {name}, "kind": {kind}, "shares": {shares}}}'
        for uid, name, kind, shares in zip(columns.uid, names, columns.kind, columns.shares, strict=True)
    ]


def json_places(text: str) -> Iterator[tuple[Address, int]]:
    """Yield the address (keys and indexes, outermost first) and line of each value in valid JSON text."""
    line = 1
    open_: list[list[Any]] = []  # [address, key or number of the next value]
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece == "\n":
            line += 1
        elif piece in "]}":
            open_.pop()
        elif piece == ",":
            top = open_[-1]
            top[1] = top[1] + 1 if isinstance(top[1], int) else None
        elif piece == ":":
            pass
        elif open_ and open_[-1][1] is None:
            open_[-1][1] = json.loads(piece)
        else:
            address = (*open_[-1][0], open_[-1][1]) if open_ else ()
            yield address, line
            if piece in "[{":
                open_.append([address, 0 if piece == "[" else None])


def with_sections(pieces: Iterator[str], sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document with further lists behind the root, one object a line."""
    last = ""
    for piece in pieces:
        yield last
        last = piece
    yield last.rstrip().removesuffix("}")
    for key, values in sections.items():
        lines = ",\n".join(_encode(each) for each in values)
        yield f",\n{json.dumps(key)}: [\n{lines}\n]"
    yield "}\n"


def _looks_like(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


FORMAT = Format(
    name="json",
    label=gettext_noop("JSON document"),
    reference="https://www.rfc-editor.org/rfc/rfc8259",
    sample="""\
{"policy": "grid", "root": {"name": "grid", "children": [
  {"name": "physics", "kind": "vo", "shares": 30, "children": [
    {"name": "alice", "kind": "user", "shares": 2},
    {"name": "bob", "kind": "user", "shares": "parent"}]},
  {"name": "reserve", "kind": "reserve", "shares": 20}]}}
""",
    media_type="application/json",
    suffix=".json",
    carries=WHOLE_TREE,
    read=read,
    write=write,
    looks_like=_looks_like,
    with_sections=with_sections,
    has_settings=True,
)
