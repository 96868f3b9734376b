"""No page and no file gives core-hours where the policy's metric is another: a unit stands beside its number.

What is in core-hours whatever the metric is left out: allocations in units, raw usage of sources, mapping and peers,
resources of one job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.policies.publishing.direct import publish_operations
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.every_page.test_every_page import FIGURE, is_page
from tests.pages.page import Page
from tests.rights_world import Row, World
from tests.test_idor_matrix import ACTORS, ROWS
from tests.worlds import fresh_process  # noqa: F401 - fixture

RAW = re.compile(r"allocations|core-hours|mappings|federation|help|usage|lab/|audit|inbox|notices|charges|files/")
WRONG = re.compile(r"core.h(?:ours?)?\b", re.IGNORECASE)
GROUPS = ("/policy/grid/n/{physics}/physics/", "/policy/grid/adjustments/{physics}/")  # the matrix has users' pages
CHOICES = "script, style, template, [hidden], option, form"  # what may be chosen is no unit of what is shown


def shown(world: World, rows: Iterator[Row]) -> Iterator[tuple[str, str]]:
    """Address and text of each page and file."""
    client = world.client("admin")
    for path in (
        *GROUPS,
        *(row.path for row in rows if "?at=" not in row.path),
    ):  # of former revisions with their metric
        path = path.format(**world.objects)
        answer = client.get(path)
        if answer.status_code != 200:
            continue
        body = answer.getvalue().decode("utf-8", "replace")
        if answer["Content-Type"].startswith("text/html"):
            page = Page(body)
            for node in page.all(CHOICES):
                node.decompose()
            body = page.one("main").text(separator=" ")
        yield path, body


def rows_of(part: re.Pattern[str]) -> Iterator[Row]:
    readable = (row for row in ROWS if is_page(row) and row.statuses.split()[ACTORS.index("admin")] == "200")
    return (
        row for row in readable if not RAW.search(row.route) and not FIGURE.search(row.route) and part.search(row.route)
    )


@pytest.mark.product
@pytest.mark.parametrize(
    ("weights", "part"),
    [
        ({"billing": 1.0}, "/<uuid:uid>|tree"),
        *(
            pytest.param(each, "", marks=pytest.mark.deep)
            for each in ({"billing": 1.0}, {"gpu_s": 1.0}, {"node_s": 2.0})
        ),
    ],
)
def test_no_amount_in_the_metric_is_in_core_hours(world: World, weights: dict[str, float], part: str) -> None:
    change = {"op": "set_policy", "settings": {"metric": {"weights": weights}}}
    publish_operations(policy_slug="grid", operations=[change], reason="another metric", at=clock.now(), actor=COMMAND)
    work_run_now(request_recompute(policy_slug="grid", at=clock.now(), actor=COMMAND).pk)
    store.poll()
    texts = dict(shown(world, rows_of(re.compile(part))))
    assert len(texts) > 5
    wrong = {
        path: match[0] for path, text in texts.items() if (match := re.search(r".{0,60}" + WRONG.pattern, text, re.I))
    }
    assert wrong == {}
