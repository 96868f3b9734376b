"""The navigation: items of the core in one order."""

from __future__ import annotations

from django.http import HttpRequest
from django.test import RequestFactory

from apps.accounts.models import User
from apps.web.shell.navigation import Shell
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def shell_of(user: User) -> Shell:
    request: HttpRequest = RequestFactory().get("/")
    request.user = user
    request.resolver_match = None
    return Shell(request)


def names(shell: Shell) -> dict[str, str]:
    return {section.title: ", ".join(item.label for item in section.items) for section in shell.sections}


def test_items_of_the_core_are_in_one_order(computed_site: Site) -> None:
    shown = names(shell_of(computed_site.admin))
    wanted = {
        "": "Overview, My priority, Inbox",
        "Policy": "Policy tree, Changes, History, Convergence, Algorithm, Usage window, Access, Import and export",
        "Data": "Usage sources, Data quality, Accounts, Federation",
        "Operate": "Audit",
    }
    for section, labels in wanted.items():
        assert [label for label in shown[section].split(", ") if label in labels.split(", ")] == labels.split(", ")


def test_shortcuts_are_not_given_twice(computed_site: Site) -> None:
    keys = [item.keys for section in shell_of(computed_site.admin).sections for item in section.items if item.keys]
    assert sorted(keys) == sorted(set(keys))
    assert "g o" in keys
