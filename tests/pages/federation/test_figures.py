"""The Sankey diagram of the grid view: amounts add up, at most eight nodes a column, nothing of what isn't shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pages.federation.figures import MOST_FLOW_NODES, Flows, flow_figure
from apps.web.figures import Figure
from tests.examples import examples
from tests.web.figures.schema import colored

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
    flow = figure.extra["flow"]
    assert sum(link["amount"] for link in flow["links"]) == pytest.approx(flows.total, abs=0.1)
    for end, bars in (("source", flow["sources"]), ("target", flow["targets"])):
        assert len(bars) <= MOST_FLOW_NODES
        for at, bar in enumerate(bars):
            links = [link["amount"] for link in flow["links"] if link[end] == at]
            assert sum(links) == pytest.approx(bar["amount"], abs=0.01), "a bar is as high as its bands"
            assert colored(bar["color"])
    assert len(figure.table.raw) == n_entries, "the table has every entry, also those that are drawn together"


def test_hidden_entries_are_only_counted() -> None:
    figure = drawn(Flows(("here",), ("p1",), [[5.0]], n_hidden=2))
    assert "2" in figure.sentence
    assert [row[0] for row in figure.table.raw] == ["p1"]
