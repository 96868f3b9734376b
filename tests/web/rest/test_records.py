"""Serializers of answers made from records: types, paths through absent values, named tuples and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import pytest
from rest_framework import serializers

from apps.priorities.sentences import Message, build_message
from apps.web.rest.cursors import CursorField, encode_cursor
from apps.web.rest.records import record_serializer


class Reading(NamedTuple):
    at: datetime
    value: Annotated[float, "In core-hours"]


@dataclass(frozen=True)
class Gauge:
    name: str
    newest: Reading | None
    setting: Any = None


@dataclass(frozen=True)
class Desk:
    gauge: Gauge | None
    readings: Sequence[Reading] = ()
    messages: Sequence[Message] = ()


AT = datetime(2026, 11, 27, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("gauge", "name", "value"),
    [(None, None, None), (Gauge("a", None), "a", None), (Gauge("a", Reading(AT, 1.5)), "a", 1.5)],
)
def test_a_path_through_an_absent_value_leads_to_null(
    gauge: Gauge | None, name: str | None, value: float | None
) -> None:
    made = record_serializer(Desk, only="name value", renamed={"name": "gauge.name", "value": "gauge.newest.value"})
    assert made(Desk(gauge)).data == {"name": name, "value": value}
    assert made().fields["value"].allow_null
    assert made().fields["value"].help_text == "In core-hours"


def test_named_tuples_are_records_too() -> None:
    assert record_serializer(Reading)(Reading(AT, 2.0)).data == {"at": "2026-11-27T09:00:00Z", "value": 2.0}
    made = record_serializer(Desk, only="readings")
    assert made(Desk(None, [Reading(AT, 2.0)])).data["readings"] == [{"at": "2026-11-27T09:00:00Z", "value": 2.0}]


def test_messages_are_sent_with_key_values_and_text() -> None:
    message = build_message("past.reconstructed", at=AT)
    made = record_serializer(Desk, only="sentences", renamed={"sentences": "messages"})
    assert made(Desk(None, messages=[message])).data["sentences"] == [message.json()]


def test_values_of_any_type_are_sent_as_they_are() -> None:
    made = record_serializer(Gauge, only="setting")
    for value in (None, 3, "parent", {"a": [1]}):
        assert made(Gauge("a", None, value)).data == {"setting": value}


def test_the_cursor_of_the_next_page_is_null_on_the_last_page() -> None:
    class Page(serializers.Serializer[Any]):
        next = CursorField()

    assert Page({"next": None}).data == {"next": None}
    assert Page({"next": "100"}).data == {"next": encode_cursor(100)}
