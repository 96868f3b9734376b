"""Our own document as YAML: everything that a policy is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from apps.core.errors import Invalid
from apps.policies.files.document import entry_values, head_values, read_document, walk
from apps.policies.files.parsed_document import Declared
from apps.policies.files.yaml_text import load_yaml, yaml_places
from apps.policies.formats.base import Format, line_finder
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:[. ][A-Za-z0-9_-]+)*")  # never a number or a date
_WORDS = frozenset(["y", "n", "yes", "no", "true", "false", "on", "off", "null", "none", "inf", "nan"])
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def parse(text: str) -> Any:
    """The objects in a text, or Invalid with the line."""
    try:
        return load_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Invalid(f"The document is no YAML: line {line}: {error.problem}.", code="bad_document") from None
    except RecursionError:
        raise Invalid("The document is nested too deeply.", code="bad_document") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Invalid(f"The document can't be read: {str(error)[:200]}.", code="bad_document") from None


def read(text: str) -> Declared:
    return read_document(parse(text), line_finder(lambda: yaml_places(text)))


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    yield yaml.dump(head_values(tree, settings), sort_keys=False, allow_unicode=True, Dumper=_Dumper)
    yield "root:\n"
    nodes = list(tree.nodes())
    for i, level in walk(tree):
        if i >= 0:
            yield _entry(entry_values(tree, i, nodes[i]), level, _children(tree, i))


def _children(tree: TreeColumns, i: int) -> str:
    return "" if not tree.is_group[i] else "children:" if tree.n_children[i] else "children: []"


def _entry(values: Mapping[str, Any], level: int, children: str) -> str:
    indent = "  " * max(level, 1) + ("  " if level else "")
    lines = [f"{key}: {_scalar(value)}" for key, value in values.items()]
    lines += [children] if children else []
    text = f"\n{indent}".join(lines)
    return f"{indent[:-2]}- {text}\n" if level else f"{indent}{text}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text  # 1e-05 would be read as text
    return str(yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=1 << 30)).strip()


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


class _Dumper(yaml.SafeDumper):
    """Without references, which reading refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^(root|policy|settings):", text, re.MULTILINE))


FORMAT = Format(
    name="yaml",
    label="YAML document",
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
    carries=(
        "settings",
        "uid",
        "name",
        "kind",
        "shares",
        "inherit",
        "scope",
        "locks",
        "dates",
        "rules for members",
        "mounts",
    ),
    read=read,
    write=write,
    looks_like=_looks_like,
    has_settings=True,
)
