"""A quantity has one name in REST, in files and in Python; where Python's differs, a line here says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest
from rest_framework import serializers

from apps.contrib.allocations.pages.presenters import csv_header as allocation_header
from apps.contrib.lab.experiments_api import COLUMNS as EXPERIMENT_COLUMNS
from apps.contrib.notices.statement_views import HEADER as STATEMENT_HEADER
from apps.core.code_paths import REPOSITORY
from apps.pages.audit.views import _COLUMNS as AUDIT_COLUMNS
from apps.pages.convergence.presenters import CSV_HEADER as CONVERGENCE_HEADER
from apps.pages.sources.api.bucket_tables import COLUMNS as BUCKET_COLUMNS
from apps.web.listings.charge_listing import CHARGES
from apps.web.listings.tree_listing import TREE
from apps.web.rest.deprecations import renamed_fields
from tests.web.rest.locked_schema import kept

# Attributes of Python that answers have under another name: (attribute, name).
OTHERS = {
    "a key, where the answer names the object": (
        *(("id", "change_set"), ("id", "grant"), ("slug", "policy"), ("slug", "source")),
        *(("number", "revision"), ("number", "from"), ("number", "to"), ("username", "person")),
        *(("username", "granted_by"), ("uid", "entry"), ("uid", "entry_uid"), ("entry_uid", "entry")),
        *(("root", "entry"), ("level_path", "level")),
        *(("deciding_path", "deciding"), ("snapshot_id", "snapshot"), ("text", "month"), ("symbol", "unit")),
        *(("allocation_uid", "allocation"), ("group_uid", "group"), ("name", "scheduler")),
    ),
    "a column that keeps a name or key beside a reference": (
        *((f"{name}_name", name) for name in ("author", "actor", "user", "group", "scheduler")),
        *((f"{name}_slug", name) for name in ("policy", "source")),
        *((f"{name}_id", name) for name in ("change_set", "held", "run")),
        *(("subtree_uid", "subtree"), ("asks_entry_uid", "asks"), ("decided_name", "decided_by")),
        *(("base_number", "base_revision"), ("head_number", "head_revision"), ("revision_number", "revision")),
        *(("broken_id", "broken_row"), ("key_fingerprint", "key"), ("unmapped_names", "unmapped")),
    ),
    "the contract's name": (
        *(("start_at", "start"), ("end_at", "end"), ("submit_at", "submit"), ("watermark", "cursor")),
        *(("rows", "results"), ("next_cursor", "next")),
    ),
    "a column from before the name": (("made_at", "created_at"), ("created_at", "at")),
    "a part, under the name of the whole that it is sent in": (
        *(("progress_done", "done"), ("progress_total", "total"), ("slack", "tolerance"), ("kept", "effective")),
        *(("rows", "entries"), ("fields", "changes"), ("shown", "changes"), ("ordered", "differences")),
        *(("furthest_moves", "moves"), ("past_shares", "so_far"), ("now", "as_of")),
    ),
    "the sentence of a code, which Python has beside it": (
        *(("messages", "sentences"), ("reason_text", "reason"), ("sentence", "reason")),
    ),
    "of ranks before and after, in a record of ranks": (
        *(("before", "rank_before"), ("after", "rank_after"), ("expected", "rank_expected")),
        *(("without", "ranks_without"), ("before", "scheduler"), ("after", "policy")),
    ),
}
# Names in files of pages that no answer has.
ONLY_IN_FILES = {
    "day": "of a row; answers have a list of days",
    "month": "of a statement",
    "before_first": "of a day; answers have `before_first` by day",
    "missing_sources": "of a day; answers have `missing`",
    "inherits": "answers have null as shares",
    "actual_global": "of an entry",
    "deviation_global_points": "where the page shows fractions of the total",
    "details": "JSON",
    **dict.fromkeys(
        (f"{name}_h" for name in ("entitled", "used", "lent", "missed", "unclear", "borrowed", "adjusted")),
        "hours of the metric; answers have seconds",
    ),
}


def all_serializers() -> Iterator[tuple[str, type[serializers.Serializer[Any]]]]:
    """Component and class of every serializer of ours."""
    for path in (REPOSITORY / "apps").rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        if "import serializers" in code or "record_serializer(" in code:
            import_module(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))
    waiting, seen = list(serializers.Serializer.__subclasses__()), set[type]()
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each not in seen and getattr(serializers, each.__name__, None) is not each:
            seen.add(each)
            yield each.__name__.removesuffix("Serializer"), each


def other_names(found: Iterable[tuple[str, type[serializers.Serializer[Any]]]]) -> dict[tuple[str, str], list[str]]:
    """Pairs of an attribute and the name under which answers have it, where they differ, to components."""
    old = {(row.component, name) for row in renamed_fields() for name in row.names}
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for component, serializer in found:
        declared: dict[str, Any] = vars(serializer)["_declared_fields"]
        for name, field in declared.items():
            attribute = str(vars(field)["_kwargs"].get("source") or name).rpartition(".")[2]
            if attribute not in (name, "*") and (component, name) not in old:
                pairs[attribute, name].append(component)
    return dict(pairs)


def test_no_attribute_is_answered_under_a_new_second_name() -> None:
    allowed = {pair for pairs in OTHERS.values() for pair in pairs}
    answered = other_names(all_serializers())
    assert {pair: components for pair, components in answered.items() if pair not in allowed} == {}
    assert allowed - set(answered) == set(), "no longer needed"


def test_a_second_name_is_seen() -> None:
    class NewSerializer(serializers.Serializer[Any]):
        usage_local = serializers.FloatField()
        counts = serializers.FloatField(source="job.usage_local")

    class ChargeSerializer(serializers.Serializer[Any]):
        counts_local = serializers.FloatField(source="usage_local")

    pairs = [("New", NewSerializer), ("Charge", ChargeSerializer)]
    assert other_names(pairs) == {("usage_local", "counts"): ["New"]}, "the old name of a charge is announced"


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("charges", CHARGES.names("csv")),
        ("tree", [*TREE.names("csv"), *TREE.names("file")]),
        ("allocations", allocation_header()),
        ("statements", STATEMENT_HEADER),
        ("convergence", CONVERGENCE_HEADER),
        ("audit", AUDIT_COLUMNS),
        ("usage", [column.name for column in BUCKET_COLUMNS]),
        ("experiment", [column.name for column in EXPERIMENT_COLUMNS]),
    ],
)
def test_a_file_has_the_names_of_rest(file: str, names: Iterable[str]) -> None:
    old = {name for row in renamed_fields() for name in row.names} - _names_of_rest(without_old=True)
    assert set(names) - _names_of_rest() - set(ONLY_IN_FILES) == set()
    assert old.isdisjoint(names), "a file has the new name"


def _names_of_rest(*, without_old: bool = False) -> set[str]:
    old = {(row.component, name) for row in renamed_fields() for name in row.names} if without_old else set()
    schemas = kept()["components"]["schemas"]
    return {
        name
        for component, schema in schemas.items()
        for name in schema.get("properties", {})
        if (component.removesuffix("Request"), name) not in old
    }


# Answers of look-ups, whose `entry` is a path by contract, and what repeats a request: a path or a uid, as it was sent.
PATHS_BY_CONTRACT = [
    "Choice",
    "Explained",
    "MyAccount",
    "MyExplanation",
    "MyStep",
    "Priority",
    "QueuedJob",
    "QueuedJobStart",
    "Side",
    "WalkStep",
]
AS_SENT = ("Conflict", "LedgerRules", "StatedRule")


def test_entry_is_a_uid_and_path_a_path() -> None:
    old = {row.component for row in renamed_fields() if "entry" in row.names}
    texts = set()
    for component, schema in kept()["components"]["schemas"].items():
        field = schema.get("properties", {}).get("entry", {})
        if field.get("type") == "string" and field.get("format") != "uuid" and not component.endswith("Request"):
            texts.add(component)
    assert texts == {*PATHS_BY_CONTRACT, *AS_SENT, *old}
