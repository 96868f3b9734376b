"""A list is declared once; what its faces can't show is refused where it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.template import engines
from django.template.base import Template
from django.template.exceptions import TemplateSyntaxError

from apps.web.listings.listing import Column, Listing, answer_serializer, csv_rows, table_of
from apps.web.shell.requests import csv_response
from apps.web.templatetags import listings
from tests.instants import AT


@dataclass(frozen=True)
class Job:
    name: str
    hours: float | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Row:
    job: Job
    user: str


JOBS = Listing(
    columns=(
        Column("user", str, on="answer csv table", title="User"),
        Column("job", str, "job.name", "Its number", on="answer csv table", title="Job"),
        Column(
            "hours", float | None, "job.hours", on="answer csv table", title="Hours", write=lambda hours: f"{hours} h"
        ),
        Column("at", datetime | None, "job.at", on="csv"),
        Column("state", str, lambda row: row.user.upper(), on="csv card", title="State"),
    ),
    orders={"answer": "job hours"},
)
ROW = Row(Job("7", 2.5, AT), "eva")
EMPTY = Row(Job("=1+1"), "<b>")


def drawn(listing: Listing, rows: list[Any], face: str = "table") -> str:
    page = engines["django"].from_string('{% load listings %}{% table jobs labelledby="title" %}')
    return " ".join(page.render({"jobs": table_of(listing, rows, face)}).split())


def test_each_face_has_its_columns_in_its_order() -> None:
    assert JOBS.names("csv") == ["user", "job", "hours", "at", "state"]
    assert JOBS.names("answer") == ["job", "hours", "user"], "columns that the order doesn't name follow"
    assert JOBS.names("card") == ["state"]
    assert JOBS.names("file") == []


def test_rest_sends_values_and_describes_them() -> None:
    serializer = answer_serializer(JOBS, "ListedJob")
    assert serializer.__name__ == "ListedJobSerializer"
    assert [dict(row) for row in serializer([ROW, EMPTY], many=True).data] == [
        {"job": "7", "hours": 2.5, "user": "eva"},
        {"job": "=1+1", "hours": None, "user": "<b>"},
    ]
    fields = serializer().fields
    assert (fields["job"].help_text, fields["hours"].allow_null) == ("Its number", True)


def test_a_file_has_plain_values_instants_in_utc_and_no_formulas() -> None:
    at = AT.astimezone(timezone(timedelta(hours=2)))
    rows = csv_rows(JOBS.on("csv"), [Row(Job("7", 2.5, at), "eva"), EMPTY])
    lines = b"".join(csv_response("jobs.csv", JOBS.names("csv"), rows)).decode().splitlines()
    assert lines[0] == '"user","job","hours","at","state"'
    assert lines[1] == f'"eva","7",2.5,"{AT:%Y-%m-%dT%H:%M:%SZ}","EVA"'
    assert lines[2] == '"<b>","\'=1+1","","","<B>"'


def test_a_table_writes_values_as_text_and_escapes_them() -> None:
    text = drawn(JOBS, [ROW, EMPTY])
    assert '<th scope="col">Job</th> <th scope="col" class="num">Hours</th>' in text
    assert '<td data-label="Job">7</td> <td class="num" data-label="Hours">2.5 h</td>' in text
    assert '<td data-label="User">&lt;b&gt;</td>' in text
    assert '<td class="num" data-label="Hours"></td>' in text, "a value that is missing is empty"


def test_a_cell_of_the_template_is_drawn_in_place_of_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = "{% load listings %}{% cell job %}<th>{{ row.user }}: {{ value }}</th>{% endcell %}"
    monkeypatch.setattr(listings, "get_template", lambda _name: engines["django"].from_string(cells))
    assert '<td data-label="User">&lt;b&gt;</td><th>&lt;b&gt;: =1+1</th>' in drawn(
        Listing(JOBS.columns, cells="x"), [EMPTY]
    )
    default = cells + "{% cell default %}<td>{{ column.name }}</td>{% endcell %}"
    monkeypatch.setattr(listings, "get_template", lambda _name: engines["django"].from_string(default))
    assert "<td>user</td><th>eva: 7</th><td>hours</td>" in drawn(Listing(JOBS.columns, cells="x"), [ROW])


def test_a_cell_without_a_name_is_refused() -> None:
    with pytest.raises(TemplateSyntaxError, match="name of a column"):
        Template("{% load listings %}{% cell %}{% endcell %}")


@pytest.mark.parametrize(
    ("columns", "orders", "message"),
    [
        ((Column("a", str, on="page"),), {}, "a: page is no face; faces: answer, file"),
        ((Column("a", str), Column("a", int)), {}, "two columns have the name a"),
        ((Column("a", str), Column("a", str, "job.name", on="csv")), {}, "two columns have the name a"),
        (
            (Column("a", str, "job.name"), Column("b", str, "job.name", on="csv")),
            {},
            "two columns have the value job.name",
        ),
        ((Column("a", str, on="table"),), {}, "a needs a title"),
        ((Column("a", str, on="card"),), {}, "a needs a title"),
        ((Column("a", str, lambda row: row),), {}, "a: a column of REST is read by a path"),
        ((Column("a", str),), {"answer": "a b"}, "answer has no column b"),
        ((Column("a", str, on="csv"),), {"answer": "a"}, "answer has no column a"),
    ],
)
def test_a_declaration_that_a_face_cannot_show_is_refused(
    columns: tuple[Column, ...], orders: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Listing(columns, orders=orders)


def test_a_table_may_show_more_than_the_value() -> None:
    column = Column("job", str, "job.name", on="csv table", title="Job", show=lambda row: f"{row.user}: {row.job.name}")
    assert list(csv_rows([column], [ROW])) == [["7"]]
    assert '<td data-label="Job">eva: 7</td>' in drawn(Listing((column,)), [ROW])
