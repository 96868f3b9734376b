"""A CSV that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io

import pytest

from apps.web.shell.requests import csv_response, escape_formula
from tests.each_case import each_case


@each_case(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\tx",
        "\rx",
        "  =1",
        "\u3000=1",
        "\uff1d1+1",
        "\uff0b1",
        " \uff0d1",
        "\n=1",
        "\u200b=1+1",
        "\ufeff+1",
        " \u00ad-1",
        "\u2060\u2060@x",
        "\x00=1",
        "\x1f =1",
        "\u200b\uff1d1",
        "\ufe0f\t1",
    ],
)
def test_text_that_starts_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "end before start", "a=b", "1-2", "'=1", "é", "a\u200b=b"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert escape_formula(text) == text


def test_a_csv_keeps_numbers_and_quotes_all_text() -> None:
    response = csv_response("x.csv", ["line", "text"], [(-3, '=cmd|"/c calc"!A1'), (4, 'two\nlines, and "quotes"')])
    body = b"".join(response.streaming_content).decode()  # type: ignore[arg-type]
    assert '\r\n-3,"' in body
    rows = list(csv.reader(io.StringIO(body, newline="")))
    assert rows == [["line", "text"], ["-3", '\'=cmd|"/c calc"!A1'], ["4", 'two\nlines, and "quotes"']]
    assert response["Content-Disposition"] == 'attachment; filename="x.csv"'
    assert "no-store" in response["Cache-Control"]
