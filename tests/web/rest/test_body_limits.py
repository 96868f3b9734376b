"""What a body may have, by route: every operation of the schema refuses more values than its cap before it parses."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from django.conf import LazySettings
from rest_framework import serializers

import apps
from apps.accounts import services as accounts
from apps.contrib.jobs.job_cases import MOST_CASE_JOBS
from apps.core import packing
from apps.core.errors import TooLarge
from apps.engine import codecs
from apps.federation.models import Mount
from apps.policies.changesets import quotas
from apps.policies.formats import json_document
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS
from apps.policies.tree import names
from apps.usage.parsers import lines, records_json
from apps.usage.parsers.json_items import MOST_ITEM_BYTES
from apps.web.rest import answers, parsing
from apps.web.rest.body_limits import DEFAULT, MB, MOST_LOOKUP_ACCOUNTS, limit_of, limits_by_route
from apps.web.rest.bounded_fields import MOST_ERRORS, MOST_OBJECT_NAMES, BoundedDictField, BoundedListField
from apps.web.rest.errors import Refusal
from tests.material import REPOSITORY
from tests.plugin_parts import added, installed_modules
from tests.rest_document import rest_document
from tests.rest_site import Caller, refused
from tests.small_site import Site

READ_BY_THEIR_FORMAT = {"put_document", "put_allocation_file", "export_against"}
UID = "00000000-0000-0000-0000-000000000001"


@cache
def described() -> dict[str, Any]:
    return rest_document()


@cache
def operations() -> list[tuple[str, str, str]]:
    """(operation id, method, path) of each operation with a body."""
    return [
        (operation["operationId"], method, filled(path, operation))
        for path, methods in described()["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    ]


def filled(path: str, operation: dict[str, Any]) -> str:
    kinds = {each["name"]: each["schema"] for each in operation.get("parameters", []) if each["in"] == "path"}

    def value(match: re.Match[str]) -> str:
        schema = kinds[match[1]]
        if schema.get("format") == "uuid":
            return UID
        if "enum" in schema:
            return str(schema["enum"][0])
        return "1" if schema["type"] == "integer" else "grid"

    return re.sub(r"{(\w+)}", value, path).removeprefix("/api/v1/")


@pytest.fixture
def admin(computed: Site) -> Caller:
    return Caller(user=computed.admin)


def parse(_body: bytes) -> Any:
    raise AssertionError("parsed")


@pytest.mark.parametrize("item", ["{}", '"x"', "0", "[]", '{"a":{"b":1}}'])
def test_no_operation_parses_a_body_with_more_values_than_its_cap(
    admin: Caller, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lacks a right or names nothing is refused for that, and without a parser as well."""
    found = {}
    named = operations()
    monkeypatch.setattr(parsing, "_decoder", parse)
    for module in (answers, records_json, *added("rest_operations", "PARSING_MODULES")):
        monkeypatch.setattr(module, "orjson", SimpleNamespace(loads=parse, JSONDecodeError=ValueError))
    for name, method, path in named:
        limit = limit_of(f"/api/v1/{path}")
        n_items = limit.n_values + 1
        body = f'{{"x":[{",".join([item] * n_items)}]}}'.encode()
        if name in READ_BY_THEIR_FORMAT or len(body) > limit.n_bytes:
            continue
        query = "?source=cluster" if name == "push_records" else ""
        answer = admin._send(method, path + query, body, "application/json", {"if-match": '"1"'})
        found[name] = answer.status_code, json.loads(answer.content)["code"]
    assert {
        name: answer
        for name, answer in found.items()
        if answer not in ((413, "too_large"), (413, "too_many_records")) and answer[0] not in (404, 415)
    } == {}
    assert len(found) > 50


@pytest.mark.product
def test_the_body_of_an_operation_without_a_declared_cap_has_at_most_a_thousand_values() -> None:
    caps = {name: limit_of(f"/api/v1/{path}").n_values for name, _method, path in operations()}
    assert {name for name, most in caps.items() if most > 1_000} == {
        "replace_mapping_rules",
        "add_mapping_rule",
        "assign_accounts",
        "look_up_priorities",
        "get_portal_usage",
        "make_change_set",
        "push_records",
        "rebase_change_set",
        "try_mapping",
        "update_change_set",
        *added("rest_operations", "LARGE_BODIES"),
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"[" + b"{}," * 800_000 + b"{}]"),
        ("application/x-ndjson", b"\n" * 5_000_000),
        ("application/x-ndjson", b"{}\n" * 50_001),
    ],
)
def test_a_push_of_too_many_values_or_lines_is_refused_before_they_are_parsed(
    admin: Caller, monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes
) -> None:
    monkeypatch.setattr(records_json, "_parse_with_duplicates", parse)
    loads, longest_block = orjson.loads, 5_000 * len("{},\n") + len("[\n]")
    monkeypatch.setattr("orjson.loads", lambda text: loads(text) if len(text) <= longest_block else parse(text))
    assert refused(admin.post("usage/records?source=cluster", body, kind))[:2] == (413, "too_many_records")


def test_a_document_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "MOST_POLICY_VALUES", 1_000)
    monkeypatch.setattr(json_document, "parse", parse)
    with pytest.raises(TooLarge):
        json_document.read('{"root":[' + "{}," * 1_001 + "{}]}")


def request_serializers() -> Iterator[type[serializers.Serializer[Any]]]:
    """Each class that a view names as its `request` or reads a body with."""
    folder = Path(apps.__path__[0])
    for path in installed_modules("pages", "contrib"):
        module = importlib.import_module(
            ".".join(("apps", *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        )
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            named = [each.value for each in call.keywords if each.arg == "request"]
            if isinstance(call.func, ast.Name) and call.func.id == "read_body":
                named.append(call.args[0])
            for each in named:
                kind = getattr(module, each.id, None) if isinstance(each, ast.Name) else None
                if isinstance(kind, type) and issubclass(kind, serializers.Serializer):
                    yield kind


def unbounded(field: Any, place: str) -> Iterator[str]:
    if isinstance(field, serializers.Serializer):
        for name, inner in field.fields.items():
            yield from unbounded(inner, f"{place}.{name}")
    elif isinstance(field, serializers.ListSerializer):
        yield place
    elif isinstance(field, serializers.ListField | serializers.DictField):
        if not isinstance(field, BoundedListField | BoundedDictField):
            yield place
        yield from unbounded(field.child, f"{place}[]")


def test_every_list_in_a_request_is_bounded() -> None:
    found = set(request_serializers())
    assert len(found) > 25
    assert [place for kind in found for place in unbounded(kind(), kind.__name__)] == []


class _Item(serializers.Serializer[Any]):
    name = serializers.CharField()


class _Lists(serializers.Serializer[Any]):
    items = BoundedListField(child=_Item(), max_length=50)
    named = BoundedDictField(child=serializers.IntegerField(), required=False)


def test_a_list_over_its_length_is_refused_before_its_items_are_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Item, "run_validation", None)
    with pytest.raises(Refusal) as refusal:
        _Lists(data={"items": [{}] * 51}).is_valid()
    assert (refusal.value.status, refusal.value.fields[0].where) == (413, "items")
    with pytest.raises(Refusal):
        _Lists(data={"items": [], "named": dict.fromkeys(map(str, range(MOST_OBJECT_NAMES + 1)))}).is_valid()


def test_the_first_ten_errors_of_a_list_are_answered() -> None:
    lists = _Lists(data={"items": [{"name": "x"}, *[{}] * 49], "named": {str(i): "x" for i in range(50)}})
    assert not lists.is_valid()
    assert list(lists.errors["items"]) == list(range(1, MOST_ERRORS + 1))
    assert len(lists.errors["named"]) == MOST_ERRORS


def test_a_list_of_wrong_rules_has_a_short_answer(admin: Caller) -> None:
    answer = admin.post("policies/grid/mappings/trial", {"rules": [{}] * 10_000})
    status, code, places = refused(answer)
    assert (status, code, len(places)) == (400, "invalid", 2 * MOST_ERRORS)
    assert len(answer.content) < 3_000


DOCUMENTED = {
    "forms without sign-in": [
        "pages:sign-in",
        "pages:second-step",
        "pages:oidc-start",
        "pages:sign-out",
        "pages:theme",
        "admin:login",
    ],
    "look-ups": ["api:priorities-lookup"],
    "explanations of jobs": ["api:jobs-explain"],
    "change sets": ["api:changesets", "api:changeset"],
    "choices of a rebase": ["api:changeset-rebase"],
    "documents, dumps to compare with": ["api:document", "api:document-against"],
    "usage records": ["api:usage-records"],
    "mapping rules, their trial, assignments": ["api:mapping-rules", "api:mapping-trial", "api:mapping-assignments"],
    "reports of agents, packed": ["api:scheduler-passes"],
    "answers of a portal": ["api:allocation-portal-usage"],
    "orders of shares, shares to take over": ["api:scheduler-share-orders", "api:scheduler-shares-take-over"],
    "experiments, their estimates": ["api:experiments", "api:experiment-estimate"],
    "logs for experiments": ["api:experiment-traces", "pages:lab-new"],
    "files of policies": ["pages:policy-files"],
    "files of usage and of the setup": ["pages:setup-tree", "pages:setup-log", "pages:upload"],
    "jobs pasted into a page": ["pages:jobs", "pages:jobs-result"],
    "edits of a draft on a page": ["pages:draft-operation", "pages:draft-paste"],
}


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """Cells of the first table below a heading, by the first one."""
    part = (REPOSITORY / "docs" / page).read_text(encoding="utf-8").split(heading, 1)[1]
    table = part[part.index("\n|---") + 1 :].partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first: rest for first, *rest in cells}


@pytest.mark.product
def test_documented_limits_of_bodies_are_enforced() -> None:
    found = rows("security.md", "Values are all")
    assert (found.pop("all others")) == [DEFAULT.size, f"{DEFAULT.n_values:,}"]
    assert found.keys() == DOCUMENTED.keys()
    assert sorted(name for names in DOCUMENTED.values() for name in names) == sorted(limits_by_route())
    from apps.contrib.jobs.pages import pasted_jobs

    pasted = {"jobs pasted into a page": pasted_jobs.MOST_PASTED_VALUES}
    for label, (size, n_values) in found.items():
        for name in DOCUMENTED[label]:
            assert size in (limits_by_route()[name].size, "`FAIRSHARE_UPLOAD_BYTES`"), label
            if n_values.replace(",", "").isdigit():
                assert n_values == f"{pasted.get(label, limits_by_route()[name].n_values):,}", label


@pytest.mark.product
def test_documented_limits_are_those_of_the_code(settings: LazySettings) -> None:
    from apps.contrib.schedulers.api.views import MOST_UNPACKED

    found = rows("limits.md", "## Numbers")
    assert found == {
        "depth of a tree": [f"{names.MAX_DEPTH} levels"],
        "entries of a policy": [f"{names.MOST_POLICY_ENTRIES:,}; pages are built and measured for 100,000"],
        "children of one entry": [f"{names.MOST_CHILDREN_OF_ENTRY:,}"],
        "shares": [f"0, or {names.LEAST_SHARES:g} to {names.MOST_ENTRY_SHARES:g}".replace("+", "")],
        "resolution of `aequus`": [f"{codecs.MIN_RESOLUTION} to {codecs.MAX_RESOLUTION:,}"],
        "accounts in one look-up": [f"{MOST_LOOKUP_ACCOUNTS:,}"],
        "jobs in one call of `jobs/explain`": [f"{MOST_CASE_JOBS:,}"],
        "operations of a change set": [f"{MOST_APPLIED_OPERATIONS:,}"],
        "open drafts of one person": [str(quotas.MOST_DRAFTS)],
        "proposals of one person that wait for a decision": [str(quotas.MOST_PROPOSALS)],
        "operations in all open change sets of one person": [f"{quotas.MOST_OPEN_OPERATIONS:,}"],
        "records in one push": [f"{records_json.MOST_POSTED_RECORDS:,}"],
        "body of a REST request": [
            f"{limits_by_route()['api:document'].size} for documents, change sets and records; "
            "[others](security.md#how-bodies-are-read)"
        ],
        "upload of usage": [f"`FAIRSHARE_UPLOAD_BYTES` ({settings.FAIRSHARE_UPLOAD_BYTES // 1024**3} GiB)"],
        "age of records": ["1970 to 2200; a run of at most ten years"],
        "snapshots kept": ["all for 2 hours, hourly for 30 days, daily for a year"],
        "grain of usage": ["an hour: usage of an hour has one age"],
        "newest priorities": [f"every `FAIRSHARE_TICK_S` ({settings.FAIRSHARE_TICK_S} s)"],
        "life of a token": [f"{accounts.DAYS} days by default"],
        "valid tokens of one person": [str(accounts.MOST_TOKENS)],
        "lines of a policy's file": [
            f"{2 * names.MOST_POLICY_ENTRIES:,} of a table, a dump or commands; counted before the file is read"
        ],
    }
    fetched = Mount._meta.get_field("most_bytes").default
    for page, sentence in [
        ("schedulers.md", f"at most {MOST_UNPACKED // MB} MB unpacked"),
        ("federation.md", f"| `most_bytes` | {fetched // MB} MB |"),
        ("usage.md", f"A line has at most {lines.MOST_LINE_BYTES // MB} MB, a job of JSON {MOST_ITEM_BYTES // MB} MB"),
        ("usage.md", f"over {packing.MOST_UNPACKING} times its size"),
    ]:
        assert sentence in (REPOSITORY / "docs" / page).read_text(encoding="utf-8"), page
