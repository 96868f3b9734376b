"""What a description of REST v1 breaks of a former one, by the rules of docs/rest.md (Versions).

`python -m tests.web.rest.locked_schema` adds what is new to docs/schema-1.json, which tests compare with. It keeps what
is there: what v1 once had, it has.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from apps.web.rest.deprecations import PREFIX, Deprecated, braced_route, deprecated

KEPT = Path(__file__).resolve().parents[3] / "docs/schema-1.json"
_METHODS = ("get", "put", "post", "patch", "delete")
COMMAND = "make record-schema"
IS_GONE = "it is gone"
_FOR_PEOPLE = ("description", "summary", "title", "example", "examples", "externalDocs", "tags")
_LOWER, _UPPER = ("minimum", "minLength", "minItems"), ("maximum", "maxLength", "maxItems")

Document = dict[str, Any]


def shape_of(document: Document) -> Document:
    """A description without its texts for people, which may change, and without problem documents, which are alike."""
    paths = _bare(document["paths"])
    for operations in paths.values():
        for method in _METHODS:
            if method in operations:
                answers = operations[method]["responses"]
                operations[method]["responses"] = {code: each for code, each in answers.items() if code[0] in "23"}
    return {"paths": paths, "components": {"schemas": _bare(document["components"]["schemas"])}}


def _bare(part: Any, *, is_names: bool = False) -> Any:
    if isinstance(part, list):
        return [_bare(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _bare(each, is_names=name == "properties")
        for name, each in part.items()
        if is_names or name not in _FOR_PEOPLE
    }


def breaks(old: Document, new: Document) -> list[tuple[str, str]]:
    """What a client of the old one can't rely on any more: the operation, and a sentence."""
    return list(_Comparison(old, new).breaks())


def unannounced(broken: Iterable[tuple[str, str]], rows: Iterable[Deprecated], *, at: date) -> list[tuple[str, str]]:
    """Without what the table of deprecations lets go by that day."""
    over = [row for row in rows if row.ends_on <= at]
    return [
        (operation, sentence)
        for operation, sentence in broken
        if not any(_is_about(row, operation, sentence) for row in over)
    ]


def _is_about(row: Deprecated, operation: str, sentence: str) -> bool:
    method, _, path = operation.partition(" ")
    if path != f"/{PREFIX}{braced_route(row.route)}" or (row.methods and method not in row.methods):
        return False
    if row.parameter:
        return sentence == f"parameter {row.parameter} is gone"
    return not row.field or sentence.endswith(f".{row.field} is gone")


class _Comparison:
    def __init__(self, old: Document, new: Document) -> None:
        self._old, self._new = old, new

    def breaks(self) -> Iterator[tuple[str, str]]:
        for path, operations in self._old["paths"].items():
            for method in _METHODS:
                if method not in operations:
                    continue
                name, now = f"{method.upper()} {path}", self._new["paths"].get(path, {}).get(method)
                if now is None:
                    yield name, IS_GONE
                    continue
                for sentence in dict.fromkeys(self._of_operation(operations[method], now)):
                    yield name, sentence

    def _of_operation(self, old: Document, new: Document) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"its name in clients is {new['operationId']}, no longer {old['operationId']}"
        yield from self._of_parameters(old, new)
        yield from self._of_request(old.get("requestBody"), new.get("requestBody"))
        for status, answer in old.get("responses", {}).items():
            if status not in new.get("responses", {}):
                yield f"it no longer answers {status}"
                continue
            now = new["responses"][status].get("content", {})
            for kind, content in answer.get("content", {}).items():
                if kind not in now:
                    yield f"it no longer answers {kind}"
                else:
                    at = f"answer {status}"
                    yield from self._of_schema(
                        content.get("schema", {}), now[kind].get("schema", {}), at, is_sent=False
                    )

    def _of_parameters(self, old: Document, new: Document) -> Iterator[str]:
        before = {(each["in"], each["name"]): each for each in old.get("parameters", [])}
        now = {(each["in"], each["name"]): each for each in new.get("parameters", [])}
        for key, each in before.items():
            at = f"parameter {key[1]}"
            if key not in now:
                yield f"{at} is gone"
                continue
            if now[key].get("required") and not each.get("required"):
                yield f"{at} is required"
            yield from self._of_schema(each.get("schema", {}), now[key].get("schema", {}), at, is_sent=True)
        for key, each in now.items():
            if each.get("required") and key not in before:
                yield f"parameter {key[1]} is new and required"

    def _of_request(self, old: Document | None, new: Document | None) -> Iterator[str]:
        if new is not None and new.get("required") and not (old or {}).get("required"):
            yield "a body is required"
        for kind, content in (old or {}).get("content", {}).items():
            now = (new or {}).get("content", {})
            if kind not in now:
                yield f"it no longer takes {kind}"
            else:
                yield from self._of_schema(content.get("schema", {}), now[kind].get("schema", {}), "body", is_sent=True)

    def _of_schema(
        self, old: Any, new: Any, at: str, *, is_sent: bool, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> Iterator[str]:
        """is_sent: by a client, so that less may not be taken; else read by it, so that no more may come."""
        if isinstance(old, dict) and isinstance(new, dict) and "$ref" in old and "$ref" in new:
            pair = (old["$ref"], new["$ref"])
            if pair in seen:
                return
            seen = seen | {pair}
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        yield from _of_values(old, new, at, is_sent=is_sent)
        yield from self._of_fields(old, new, at, is_sent=is_sent, seen=seen)
        for name in ("items", "additionalProperties"):
            if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
                yield from self._of_schema(old[name], new[name], f"{at}[]", is_sent=is_sent, seen=seen)
        for name in ("oneOf", "anyOf"):
            before, now = old.get(name), new.get(name)
            if not before or not now:
                continue
            if is_sent and len(now) < len(before):
                yield f"{at} takes fewer kinds"
            for one, other in zip(before, now, strict=False):
                yield from self._of_schema(one, other, at, is_sent=is_sent, seen=seen)

    def _of_fields(
        self, old: Document, new: Document, at: str, *, is_sent: bool, seen: frozenset[tuple[str, str]]
    ) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        were, are = set(old.get("required", ())), set(new.get("required", ()))
        for name, each in before.items():
            field = f"{at}.{name}"
            if name not in now:
                yield f"{field} is gone"
                continue
            yield from self._of_schema(each, now[name], field, is_sent=is_sent, seen=seen)
        for name in sorted((are - were) if is_sent else (were - are) & now.keys()):
            yield f"{at}.{name} is " + ("required" if is_sent else "no longer always there")


def _of_values(old: Document, new: Document, at: str, *, is_sent: bool) -> Iterator[str]:
    if (before := old.get("type")) is not None and before != (now := new.get("type")):
        is_wider = before == "integer" and now == "number" and is_sent
        if not is_wider and not (now is None and is_sent):
            yield f"{at} is {now}, no longer {before}"
    if old.get("format") != new.get("format") and (not is_sent or new.get("format")):
        yield f"{at} has the format {new.get('format')}, no longer {old.get('format')}"
    if bool(old.get("nullable")) != bool(new.get("nullable")) and bool(old.get("nullable")) == is_sent:
        yield f"{at} " + ("takes no null" if is_sent else "may be null")
    if not is_sent:
        return
    if "default" in old and old["default"] != new.get("default"):
        yield f"{at} has the default {new.get('default')}, not {old['default']}"
    taken, left = old.get("enum"), new.get("enum")
    if taken is None and left is not None:
        yield f"{at} takes only some values"
    if taken and left and (gone := [each for each in taken if each not in left]):
        yield f"{at} no longer takes {', '.join(map(str, gone))}"
    for bounds, is_narrower in ((_LOWER, float.__gt__), (_UPPER, float.__lt__)):
        for name in bounds:
            if name in new and (name not in old or is_narrower(float(new[name]), float(old[name]))):
                yield f"{at} has {name} {new[name]}, not {old.get(name, 'none')}"
    if new.get("pattern") and new.get("pattern") != old.get("pattern"):
        yield f"{at} has another pattern"


def _resolved(schema: Any, document: Document) -> Document:
    """What a reference refers to; parts that all apply, as one."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**_resolved(document["components"]["schemas"][name], document), **_own(schema, "$ref")}
    if "allOf" in schema:
        merged: Document = {}
        for part in schema["allOf"]:
            resolved = _resolved(part, document)
            merged = {
                **merged,
                **resolved,
                "properties": {**merged.get("properties", {}), **resolved.get("properties", {})},
                "required": [*merged.get("required", ()), *resolved.get("required", ())],
            }
        return {**merged, **_own(schema, "allOf")}
    return schema


def _own(schema: Document, left_out: str) -> Document:
    return {name: each for name, each in schema.items() if name != left_out}


def present() -> Document:
    from django.core.management import call_command

    printed = io.StringIO()
    call_command("spectacular", format="openapi-json", stdout=printed)
    return shape_of(json.loads(printed.getvalue()))


def kept() -> Document:
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def broken_promises(described: Document) -> list[tuple[str, str]]:
    """What a description takes away from v1 without the notice that docs/rest.md promises."""
    return unannounced(breaks(kept(), described), deprecated(), at=datetime.now(UTC).date())


def written(document: Document) -> str:
    """JSON with a line for each route and each schema, so that a change shows which."""

    def lines(parts: Document) -> str:
        return ",\n".join(f"{json.dumps(name)}: {json.dumps(parts[name], sort_keys=True)}" for name in sorted(parts))

    schemas = lines(document["components"]["schemas"])
    return f'{{"paths": {{\n{lines(document["paths"])}\n}}, "components": {{"schemas": {{\n{schemas}\n}}}}}}\n'


def main() -> int:
    from tests.start import make_var, set_up_django

    os.environ.setdefault("FAIRSHARE_VAR", make_var())
    os.environ["FAIRSHARE_TESTING"] = "1"
    set_up_django()
    described = present()
    broken = broken_promises(described) if KEPT.exists() else []
    if broken:
        print("\n".join(f"{operation}: {sentence}." for operation, sentence in broken), file=sys.stderr)
        return 1
    KEPT.write_text(written(described), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
