"""Details on pages have seven significant digits; the lines of REST and the terminal have all of them."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.contrib.jobs.pages.calculator import STARTS
from apps.contrib.jobs.pages.tables import JobRow
from tests.pages.page import read
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def test_long_numbers_are_shortened_and_the_rest_stays() -> None:
    line = "tickets 83333.33333333333 = 1000000 × 0.08333333333333333 (2026-11-27, 0.25)"
    row = JobRow("1", "a", "", (), "", None, [line])
    assert row.short_lines == ["tickets 83333.33 = 1000000 × 0.08333333 (2026-11-27, 0.25)"]


def test_no_detail_of_the_calculator_has_the_digits_of_the_machine(computed_site: Site, client: Client) -> None:
    sign_in(client, computed_site.admin)
    for start in STARTS:
        lines = read(client.get(f"/jobs/calculator/?{start.query}")).texts("[data-testid=explanation] li")
        assert lines
        assert [line for line in lines if re.search(r"\d+\.\d{11,}", line)] == []
