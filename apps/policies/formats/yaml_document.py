"""The document format as YAML: holds everything of a policy.

YAML is parsed without recursion, because the usual loaders crash the process on 100,000 nested brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from django.utils.translation import gettext_noop

from apps.core.errors import Invalid, TooLarge
from apps.policies.files.document import entry_values, head_values, read_document
from apps.policies.files.document_walk import WalkedNodes, walk_document
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.files.plain_leaves import Entries, columns_of_leaves
from apps.policies.formats.base import WHOLE_TREE, Format, line_finder
from apps.policies.formats.json_document import MOST_POLICY_VALUES
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

_Parser: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_DEEPEST = 200  # 64 levels of entries need 130 of mappings and lists
_STRING = "tag:yaml.org,2002:str"
_READERS = ("null", "bool", "int", "float")

_resolver: Any = yaml.resolver.Resolver()
_constructor: Any = yaml.constructor.SafeConstructor()
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:[. ][A-Za-z0-9_-]+)*")  # matches no number or date
_PLAIN_LINES = re.compile(rf"{_PLAIN.pattern}(?:\n{_PLAIN.pattern})*")
_LETTERS = frozenset("abcdef")  # a uid that begins with one of them needs no quotes
_WORDS = frozenset(["y", "n", "yes", "no", "true", "false", "on", "off", "null", "none", "inf", "nan"])
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def load_yaml(text: bytes | str) -> Any:
    """Parse one document of mappings, lists, text, numbers, true, false and null; dates stay text.

    Raises:
        Invalid: with the line, for aliases (*name), tags and repeated keys.
        TooLarge: it has more values than a document may have.
    """
    line_end, comma = ("\n", ",") if isinstance(text, str) else (b"\n", b",")
    if text.count(line_end) + text.count(comma) > 2 * MOST_POLICY_VALUES:  # type: ignore[arg-type]
        raise _too_many()
    stack: list[_Open] = []
    result: Any = None
    n_documents = n_nodes = 0
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.NodeEvent):
            n_nodes += 1
            if n_nodes > 2 * MOST_POLICY_VALUES:  # each value of a mapping has a key
                raise _too_many()
        if isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
            if n_documents > 1:
                raise _refusal(event, "a second document begins; one is allowed")
        elif isinstance(event, yaml.AliasEvent):
            raise _refusal(event, "aliases (*name) aren't allowed")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if event.tag is not None:
                raise _refusal(event, f"the tag {event.tag} isn't allowed")
            if len(stack) >= _DEEPEST:
                raise _refusal(event, "is nested too deeply")
            stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else []))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            result = stack.pop().value
            _put(stack, result, event)
        elif isinstance(event, yaml.ScalarEvent):
            result = _scalar_value(event)
            _put(stack, result, event)
    return result


def _too_many() -> TooLarge:
    return TooLarge(f"The document has more than {MOST_POLICY_VALUES:,} values.")


def yaml_places(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the address (keys and indexes, outermost first) and line of each value in valid YAML text."""
    stack: list[_Place] = []
    for event in yaml.parse(text, Loader=_Parser):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            top = stack[-1] if stack else None
            if top is not None and top.awaits_key and isinstance(event, yaml.ScalarEvent):
                top.key, top.awaits_key = event.value, False
                continue
            address = () if top is None else (*top.address, top.step())
            yield address, line
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                stack.append(_Place(address, is_mapping=isinstance(event, yaml.MappingStartEvent)))


class _Place:
    """A mapping or list whose values are being enumerated."""

    __slots__ = ("address", "awaits_key", "is_mapping", "key", "n")

    def __init__(self, address: tuple[str | int, ...], *, is_mapping: bool) -> None:
        self.address, self.is_mapping, self.awaits_key = address, is_mapping, is_mapping
        self.key, self.n = "", -1

    def step(self) -> str | int:
        if self.is_mapping:
            self.awaits_key = True
            return self.key
        self.n += 1
        return self.n


class _Open:
    """A mapping or list that isn't complete, with the key whose value comes next."""

    __slots__ = ("has_key", "key", "value")

    def __init__(self, value: dict[Any, Any] | list[Any]) -> None:
        self.value = value
        self.key: Any = None
        self.has_key = False


def _put(stack: list[_Open], value: Any, event: yaml.Event) -> None:
    if not stack:
        return
    top = stack[-1]
    if isinstance(top.value, list):
        top.value.append(value)
    elif top.has_key:
        top.value[top.key] = value
        top.has_key = False
    else:
        if isinstance(value, dict | list):
            raise _refusal(event, "a key must be a word")
        if value in top.value:
            raise _refusal(event, f"the key {value!r:.60} is repeated")
        top.key, top.has_key = value, True


def _scalar_value(event: yaml.ScalarEvent) -> Any:
    if event.tag not in (None, "!"):
        raise _refusal(event, f"the tag {event.tag} isn't allowed")
    text: str = event.value
    if not event.implicit[0]:
        return text  # quoted
    tag = _resolver.resolve(yaml.ScalarNode, text, event.implicit)
    kind = tag.rpartition(":")[2]
    if tag == _STRING or kind not in _READERS or ":" in text:
        return text  # with a colon also what YAML 1.1 read to base 60, in time by the square of its length
    try:
        return getattr(_constructor, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
    except ValueError:
        raise _refusal(event, f"{text!r:.60} is not a valid number here") from None


def _refusal(event: yaml.Event, message: str) -> Invalid:
    line = event.start_mark.line + 1 if event.start_mark else 1
    return Invalid(f"The document is not supported YAML: line {line}: {message}.", code="bad_document")


def parse(text: str) -> Any:
    """Parse YAML text; raise Invalid with the line."""
    try:
        return load_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Invalid(f"The document is not YAML: line {line}: {error.problem}.", code="bad_document") from None
    except RecursionError:
        raise Invalid("The document is nested too deeply.", code="bad_document") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Invalid(f"The document can't be read: {str(error)[:200]}.", code="bad_document") from None


def read(text: str) -> ParsedDocument:
    return read_document(parse(text), line_finder(lambda: yaml_places(text)))


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    yield yaml.dump(head_values(tree, settings), sort_keys=False, allow_unicode=True, Dumper=_Dumper)
    yield "root:\n"
    nodes = WalkedNodes(tree)
    for step, level in walk_document(tree):
        if not isinstance(step, int):
            yield _leaves(tree, step, level)
        elif step >= 0:
            yield _entry(entry_values(tree, step, nodes.node(step, level)), level, _children(tree, step))


def _leaves(tree: TreeColumns, entries: Entries, level: int) -> str:
    """`_entry` of plain leaves."""
    columns = columns_of_leaves(tree, entries, _scalar)
    uids = (uid if uid[0] in _LETTERS else f'"{uid}"' for uid in columns.uid)
    names = columns.name if _are_plain(columns.name) else map(_text, columns.name)
    indent = _indent(level)
    return "".join(
        f"{indent[:-2]}- uid: {uid}\n{indent}name: {name}\n{indent}kind: {kind}\n{indent}shares: {shares}\n"
        for uid, name, kind, shares in zip(uids, names, columns.kind, columns.shares, strict=True)
    )


def _are_plain(names: Sequence[str]) -> bool:
    """Whether YAML reads each of them as text without quotes."""
    text = "\n".join(names)
    is_line_each = text.count("\n") < len(names)
    return is_line_each and _PLAIN_LINES.fullmatch(text) is not None and _WORDS.isdisjoint(map(str.lower, names))


def with_sections(pieces: Iterator[str], sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document with further lists behind the root, one object a line."""
    yield from pieces
    for key, values in sections.items():
        yield f"{key}:\n"
        yield from (f"- {flow_line(each)}\n" for each in values)


def flow_line(values: Mapping[str, Any]) -> str:
    """Plain values by name as one line of YAML, in its flow style."""
    return "{" + ", ".join(f"{name}: {_flow_scalar(value)}" for name, value in values.items()) + "}"


def _flow_scalar(value: Any) -> str:
    """Texts in quotes: in the flow style, commas and brackets end a plain one."""
    return json.dumps(value) if isinstance(value, str) else _scalar(value)


def _children(tree: TreeColumns, i: int) -> str:
    return "" if not tree.is_group[i] else "children:" if tree.n_children[i] else "children: []"


def _entry(values: Mapping[str, Any], level: int, children: str) -> str:
    indent = _indent(level)
    lines = [f"{key}: {_scalar(value)}" for key, value in values.items()]
    lines += [children] if children else []
    text = f"\n{indent}".join(lines)
    return f"{indent[:-2]}- {text}\n" if level else f"{indent}{text}\n"


def _indent(level: int) -> str:
    return "  " * max(level, 1) + ("  " if level else "")


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text  # YAML reads 1e-05 as text
    return str(yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=1 << 30)).strip()


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, which reading refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^(root|policy|settings):", text, re.MULTILINE))


FORMAT = Format(
    name="yaml",
    label=gettext_noop("YAML document"),
    reference="https://yaml.org/spec/1.1/",
    sample="""\
policy: grid
root:
  name: grid
  children:
    - name: physics
      kind: vo
      shares: 30
      children:
        - name: alice
          kind: user
          shares: 2
        - name: bob
          kind: user
          shares: parent
    - name: reserve
      kind: reserve
      shares: 20
""",
    media_type="application/yaml",
    suffix=".yaml",
    carries=WHOLE_TREE,
    read=read,
    write=write,
    looks_like=_looks_like,
    with_sections=with_sections,
    has_settings=True,
)
