"""Every page of the sample grid has something to show: each user follows the links, and finds no empty state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from apps.accounts.models import User
from apps.cli.sample.grid import POLICY_SLUG
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from tests.every_page.test_every_page import DOWNLOAD, PAGES, is_opened
from tests.examples import first
from tests.pages.page import Page, text_of
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
MOST_OF_A_ROUTE = 3  # addresses that are opened until one has something to show
NO_PAGES = ("api/", "admin/", "static/", "sign-out", "jsi18n")
# Pages of entries at which something is to see; of others the walk opens the first that it reaches.
STORY = {
    "admin": {"members": "/climate/guests", "entry-core-hours": "/genomics", "adjustments": "/genomics/assembly"},
    "maria": {"members": "/climate/guests", "entry-core-hours": "/climate", "adjustments": "/climate/seasonal"},
    "kimberg": {"entry-core-hours": "/climate/seasonal", "adjustments": "/climate/seasonal/kimberg"},
}
# Empty states that are right: by route, for whom and why.
RIGHT: Mapping[str, tuple[tuple[str, ...], str]] = {
    "federation/mounts/<int:mount>/difference/": (("admin",), "nothing is held: the newest document is published"),
    "notices/": (("maria", "kimberg"), "nothing waits for them: most kinds of notices are for who decides"),
    "notices/webhooks/<int:webhook>/": (("admin", "maria"), "the sample sends nothing to anybody"),
    "notices/webhooks/": (("kimberg",), "webhooks are for who divides a group"),
    "policy/<slug:policy>/members/<uuid:uid>/": (("kimberg",), "names of others are not shown"),
    "policy/<slug:policy>/changes/": (("kimberg",), "drafts and requests are of those who may change something"),
    "policy/<slug:policy>/access/": (("kimberg",), "roles are shown to who has or gives one"),
    "audit/": (("kimberg",), "has done nothing"),
    "policy/<slug:policy>/allocations/rules/": (("admin",), "the sample has no rules: each is a decision of its own"),
    "policy/<slug:policy>/lab/": (("admin",), "the sample has no experiments: one is made by a click"),
}


# Pages that no link leads the administrator to, and why.
NOT_LINKED = {
    "federation/mounts/<int:mount>/fetches/": "linked once there are more fetches than the mount's page shows",
    "federation/usage/<int:subscription_id>/fetches/": "linked once there are more fetches than its page shows",
    "group/": "leads managers of one group to its page",
    "me/card/": "shown in frames of other origins' pages",
    "policy/<slug:policy>/edit": "leads to one's newest draft",
    "policy/<slug:policy>/edit/goal/<uuid:uid>/": "linked beside the shares of a draft's entry, in its panel",
    "policy/<slug:policy>/lab/<int:experiment>/": "the sample has no experiments",
    "policy/<slug:policy>/files/<int:change_set>/": "no file waits for a decision",
    "schedulers/<slug:name>/limits/": "linked where a scheduler carries limits",
    "schedulers/<slug:name>/shares/": "linked where a scheduler carries shares",
    "sign-in/done/": "the end of a sign-in in a window of its own",
    "setup/": "the first steps of an empty site",
    "usage/overlaps/": "linked where two sources report the same hours",
}


@dataclass
class Visits:
    """Empty states by route, a list for each address."""

    empty: dict[str, list[list[str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def dead(self) -> dict[str, list[str]]:
        """Routes of which every address that was opened shows an empty state."""
        return {route: found[0] for route, found in self.empty.items() if all(found)}


def walk(client: Client, starts: Sequence[str]) -> Visits:
    """Follow every link from one page to the next; a route has been seen once an address of it has no empty state."""
    visits, waiting, known = Visits(), list(starts), set(starts)
    while waiting:
        address = waiting.pop(0)
        route = resolve(urlsplit(address).path).route
        opened = visits.empty[route]
        if len(opened) == MOST_OF_A_ROUTE or [] in opened:
            continue
        answer = client.get(address)
        assert answer.status_code in (200, 302, 303), (address, Page(answer.content.decode()).text("main"))
        if answer.status_code != 200 or not answer.headers["Content-Type"].startswith("text/html"):
            del visits.empty[route]
            continue
        page = Page(answer.content.decode())
        opened.append([text_of(node) for node in page.all("main .empty")])
        for href in page.values("href", "body"):
            target = urlsplit(urljoin(address, href))
            if not urlsplit(href).scheme and target.path not in known and is_page(target.path):
                known.add(target.path)
                waiting.append(f"{target.path}?{target.query}" if target.query else target.path)
    return visits


def is_page(path: str) -> bool:
    try:
        route = resolve(path).route
    except Resolver404:
        return False
    return not route.startswith(NO_PAGES) and not DOWNLOAD.search(route)


def story_pages(username: str) -> list[str]:
    tree = load_tree(Policy.objects.get(slug=POLICY_SLUG))
    pages = []
    for name, path in STORY[username].items():
        i = tree.index_of_path(path)
        assert i is not None, path
        place = {"policy": POLICY_SLUG, "uid": tree.uuid(i)}
        pages.append(reverse(f"pages:{name}", kwargs=place | ({"name": tree.name[i]} if "hours" in name else {})))
    return pages


@pytest.mark.deep
@pytest.mark.product
@pytest.mark.parametrize("username", first(1, ["admin", "maria", "kimberg"]))
def test_no_page_is_empty(sample_grid: None, username: str) -> None:
    store.poll()
    client = Client()
    client.force_login(User.objects.get(username=username))
    visits = walk(client, ["/", *story_pages(username)])
    assert visits.dead.keys() == {route for route, (people, _why) in RIGHT.items() if username in people}
    if username == "admin":
        pages = {row.route for row in PAGES if is_opened(row)}
        assert pages - visits.empty.keys() == NOT_LINKED.keys()
