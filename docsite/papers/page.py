"""Generated parts of the appendix papers.md, and its drawings: from claims, marks of tests, and the last records."""

from __future__ import annotations

from collections.abc import Iterator

from docsite.markdown import code, table
from docsite.marked_tests import function_of, marked_tests
from docsite.papers import depth_figures, gridwide_figures, operator_figures, records, sweep_table
from docsite.papers.claim import Claim
from docsite.papers.claims import PAPERS
from docsite.papers.figure import Figure
from docsite.papers.measuring import STEP_H
from docsite.papers.records import Records, Value

MARK = "paper"
_LEAST = 1e-9  # less is a last digit
_HEAD = ("claim", "place", "what the paper says", "where", "test", "ours (published)", "deviation")


def drawings() -> Iterator[tuple[str, str]]:
    """Path below docs/pictures and SVG of each figure that is a plot."""
    for figure in _figures():
        if figure.drawing:
            yield figure.path, figure.drawing


def sections() -> str:
    """Of each paper: its claims with their tests, what has no test and why, and its figures."""
    stored = records.load()
    parts = []
    for paper in PAPERS:
        tested = {name: claim for name, claim in paper.claims.items() if not claim.untested}
        rows = [_row(name, claim, stored) for name, claim in tested.items()]
        parts += [f"## {paper.title}", table(_HEAD, rows)]
        untested = [(name, one.place, one.text, one.untested) for name, one in paper.claims.items() if one.untested]
        if untested:
            parts.append(table(("claim", "place", "what the paper says", "why it has no test"), untested))
        parts += [_section(figure) for figure in _figures() if figure.paper == paper.name]
    parts += ["## Future work of the operators paper: a sweep", sweep_table.section(stored["sweep"])]
    return "\n\n".join(parts)


def _figures() -> tuple[Figure, ...]:
    stored = records.load()
    return (
        *operator_figures.figures(),
        *depth_figures.figures(),
        *gridwide_figures.figures(stored, STEP_H),
    )


def _row(name: str, claim: Claim, stored: Records) -> tuple[str, ...]:
    values = [
        value
        for test, measured in sorted(stored["tests"]["values"].items())
        if function_of(test) in _tests(name)
        for value in measured
        if value["claim"] == name
    ]
    tests = "<br>".join(code(test.removeprefix("tests/")) for test in _tests(name))
    ours = "<br>".join(map(_ours, values)) or "as stated"
    deviation = "; ".join(filter(None, (_deviation(values), claim.deviation))) or "none"
    return name, claim.place, claim.text, claim.where, tests, ours, deviation


def _tests(name: str) -> list[str]:
    return marked_tests(MARK).get(name, [])


def _ours(value: Value) -> str:
    text = f"{value['name']}: {_number(value['ours'])} {value['unit']}".rstrip()
    return text if value["published"] is None else f"{text} ({_number(value['published'])})"


def _number(value: float) -> str:
    """Six digits, and for more than thousands all whole ones."""
    return f"{value:,.6g}" if abs(value) < 1e5 else f"{value:,.2f}".removesuffix(".00")


def _deviation(values: list[Value]) -> str:
    """The largest from what the paper prints; its tests pass, so that without a printed number there is none."""
    gaps = [abs(value["ours"] - value["published"]) for value in values if value["published"] is not None]
    return f"{max(gaps):,.3g}" if gaps and max(gaps) > _LEAST else ""


def _section(figure: Figure) -> str:
    picture = f"![{figure.title}](../pictures/{figure.path})\n\n" if figure.drawing else ""
    return (
        f"### Figure {figure.number}: {figure.title}\n\n{picture}"
        f"- Paper: {figure.said}\n- Here ({figure.where}): {figure.ours}"
    )
