"""The Sankey diagram of the grid view: amounts add up, at most eight nodes a column, nothing of what isn't shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pages.federation.figures import MOST_NODES, Flows, flow_figure
from apps.web.figures import Figure
from tests.examples import examples
from tests.web.figures.schema import check_schema

AMOUNTS = st.floats(0, 1e9, allow_nan=False).map(lambda n: round(n, 3))


def drawn(flows: Flows) -> Figure:
    return flow_figure(flows, name="vo", policy="grid", period="ever")


@examples(60)
@given(st.data(), st.integers(1, 12), st.integers(1, 12))
def test_bands_add_up_to_delivered_usage(data: st.DataObject, n_sites: int, n_entries: int) -> None:
    table = [[data.draw(AMOUNTS) for _ in range(n_sites)] for _ in range(n_entries)]
    flows = Flows(tuple(f"site {n}" for n in range(n_sites)), tuple(f"entry {n}" for n in range(n_entries)), table)
    figure = drawn(flows)
    if not flows.total:
        assert figure.empty
        return
    sankey = figure.traces[0]
    assert sum(sankey["link"]["value"]) == pytest.approx(flows.total)
    sources = set(sankey["link"]["source"])
    assert len(sources) <= MOST_NODES
    assert len(sankey["node"]["label"]) - len(sources) <= MOST_NODES
    assert len(figure.table.raw) == n_entries, "the table has every entry, also those that are drawn together"
    check_schema(figure)


def test_hidden_entries_are_only_counted() -> None:
    figure = drawn(Flows(("here",), ("p1",), [[5.0]], n_hidden=2))
    assert "2" in figure.sentence
    assert [row[0] for row in figure.table.raw] == ["p1"]
