"""The navigation: items of the core and of plug-ins in one order, and what is left without the plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import plugins
from apps.web.shell import live_state, nav_items
from tests.small_site import Site
from tests.web.shell.test_navigation import names, shell_of
from tests.worlds import fresh_process  # noqa: F401 - fixture

CACHED: list[Callable[[], object]] = [
    nav_items.plugin_items,
    nav_items.counters,
    nav_items.frame_parts,
    live_state.marks_sql,
    live_state._frame_sql,
]


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def clear() -> None:
        for function in CACHED:
            function.cache_clear()  # type: ignore[attr-defined]

    for module in (nav_items, live_state):
        monkeypatch.setattr(module, "plugins", lambda: ())
    clear()
    yield
    clear()


def test_items_of_plug_ins_stand_among_those_of_the_core(computed_site: Site) -> None:
    assert names(shell_of(computed_site.admin)) == {
        "": "Overview, My priority, Inbox, Notices, Job priorities, Try job priorities",
        "Policy": "Policy tree, Changes, History, Convergence, Allocations, Algorithm, Operators, Usage window, "
        "Access, Import and export",
        "Data": "Usage sources, Data quality, Accounts, Federation",
        "Operate": "Schedulers, Audit",
    }
    assert names(shell_of(computed_site.alice)) == {"": "My priority, My jobs, My group, Policy tree, Notices"}


@pytest.mark.usefixtures("no_plugins")
def test_without_plug_ins_their_items_counts_and_queries_are_gone(computed_site: Site) -> None:
    assert plugins.plugins()  # the frame alone forgets them
    shell = shell_of(computed_site.admin)
    with CaptureQueriesContext(connection) as queries:
        shown = names(shell)
        assert shell.live is not None
    assert shown == {
        "": "Overview, My priority, Inbox",
        "Policy": "Policy tree, Changes, History, Convergence, Algorithm, Usage window, Access, Import and export",
        "Data": "Usage sources, Data quality, Accounts, Federation",
        "Operate": "Audit",
    }
    assert names(shell_of(computed_site.alice)) == {"": "My priority, My jobs, My group, Policy tree"}
    assert shell.parts == {"topbar": [], "end": []}
    assert [query["sql"] for query in queries if "notices_" in query["sql"]] == []
