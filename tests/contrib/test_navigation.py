"""The navigation: items of the core and of plug-ins in one order, and what is left without the plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core import plugins
from apps.web.shell import live_state, navigation, places
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.web.shell.test_navigation import labels, names, shell_of
from tests.worlds import fresh_process  # noqa: F401 - fixture

CACHED: list[Callable[[], object]] = [
    places.all_tabs,
    places.tabs_of,
    places.keyed_tabs,
    places.counters,
    places.tab_of,
    navigation.frame_parts,
    live_state.marks_sql,
    live_state._frame_sql,
]


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def clear() -> None:
        for function in CACHED:
            function.cache_clear()  # type: ignore[attr-defined]

    monkeypatch.setattr(plugins, "plugins", lambda: ())
    for module in (navigation, live_state):
        monkeypatch.setattr(module, "plugins", lambda: ())
    clear()
    yield
    clear()


def test_tabs_of_plug_ins_stand_behind_the_neighbour_that_they_name(computed_site: Site) -> None:
    admin = computed_site.admin
    assert labels(shell_of(admin, "/notices/")) == "To decide, Notices"
    assert labels(shell_of(admin, "/policy/grid/allocations/")) == (
        "Allocations, Calendar, Capacity, Units, Rules, Import and export"
    )
    schedulers = "Overview, Queue, Explain a job, Priority calculator, Now"
    assert labels(shell_of(admin, "/schedulers/")) == schedulers
    assert labels(shell_of(admin, "/audit/")).endswith("Federation, Audit, Notification rules")


def test_pages_below_one_tab_name_each_other(computed_site: Site) -> None:
    admin = sign_in(Client(), computed_site.admin)
    for address in ("/notices/rules/", "/notices/mail/"):
        shell = admin.get(address).context["shell"]
        assert [item.label for item in shell.tabs.items if item.current] == ["Notification rules"]
        assert [item.label for item in shell.views] == ["Notification rules", "E-mail notices", "Webhooks"]
        assert [item.url for item in shell.views if item.current == "page"] == [address]
    uid = computed_site.uid("/physics")
    shell = admin.get(f"/policy/grid/n/{uid}/physics/statements/").context["shell"]
    assert labels(shell).endswith("Access, History, Statements")


@pytest.mark.usefixtures("no_plugins")
def test_without_plug_ins_their_places_counts_and_queries_are_gone(computed_site: Site) -> None:
    shell = shell_of(computed_site.admin)
    with CaptureQueriesContext(connection) as queries:
        shown = names(shell)
        assert shell.live is not None
    assert shown == ["Home, Inbox", "Policy, Convergence, People", "Data, Settings"]
    assert names(shell_of(computed_site.alice)) == ["Home, My jobs, My group"]
    assert shell.parts == {"topbar": [], "end": []}
    assert [query["sql"] for query in queries if "notices_" in query["sql"]] == []
