"""An address on a site of `bench.full_site` for every page and REST route that answers GET.

The routes and how each is asked come from the matrix of access rights, which is complete because its test says so. Rows
that name an object which the site has not, such as a mount of a peer, are left out by name.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from bench.recompute import SLUG

GROUP, MEMBER, OTHER = "/d0/g25", "/d0/g25/u25-0", "/d0/g25/u25-1"
_ALICE, _BOB = "u25-0", "u25-1"
N_REVISIONS = 4  # the matrix compares the third with the fourth
# In place of the policy, the source and the entries of the matrix. Of people, alice alone has an account here.
_MOVED = (
    (re.compile(r"(?<=policy[/=])grid(?=[/&?]|$)|(?<=policies/)grid(?=[/?]|$)"), SLUG),
    (re.compile(r"/physics/alice(?=[&?]|$)"), MEMBER),
    (re.compile(r"/physics/bob(?=[&?]|$)"), OTHER),
    (re.compile(r"=/physics(?=[&?]|$)"), f"={GROUP}"),
    (re.compile(r"(?<=[/=])alice(?=[/&?]|$)"), _ALICE),
    (re.compile(r"(?<=[/=])bob(?=[/&?]|$)"), _BOB),
    (re.compile(r"(?<=/)physics(?=/)"), "g25"),
    (re.compile(r"cluster-a(?=[/&?]|$)"), SLUG),
)


class Address(NamedTuple):
    """route: as in the table of routes. is_fragment: asked by a page that is open already."""

    route: str
    path: str
    is_rest: bool
    is_fragment: bool


class Readers(NamedTuple):
    """Who asks: the cookie of an administrator who has the account of `MEMBER`, and a token that may read all."""

    cookie: str
    token: str

    def headers(self, address: Address) -> dict[str, str]:
        who = {"Authorization": f"Bearer {self.token}"} if address.is_rest else {"Cookie": self.cookie}
        return who | ({"HX-Request": "true"} if address.is_fragment else {})


def addresses(objects: dict[str, Any]) -> tuple[list[Address], list[str]]:
    """One for each route, and the routes that are left out because the site lacks what they name."""
    from tests.test_idor_matrix import ROWS

    chosen: dict[str, Address] = {}
    left_out: dict[str, None] = {}
    for row in ROWS:
        if row.method != "get" or row.route in chosen:
            continue
        address = _address(row, objects)
        if address is None:
            left_out[row.route] = None
        else:
            chosen[row.route] = address
    return list(chosen.values()), [route for route in left_out if route not in chosen]


def _address(row: Any, objects: dict[str, Any]) -> Address | None:
    try:
        path = row.path.format(**objects)
    except KeyError:
        return None
    for pattern, instead in _MOVED:
        path = pattern.sub(instead, path)
    is_fragment = "HX-Request" in row.headers
    return Address(row.route, path, row.route.startswith("api/"), is_fragment)


def make_objects() -> tuple[dict[str, Any], Readers]:
    """Three more revisions, a draft, and readers; returns what rows of the matrix call them."""
    from django.conf import settings
    from django.test import Client

    from apps.accounts.actor import COMMAND, Actor
    from apps.accounts.models import User
    from apps.accounts.services import NewToken, make_token
    from apps.core.clock import now
    from apps.policies.models import Policy
    from apps.policies.publishing.direct import publish_operations
    from apps.policies.records import NewChangeSet
    from apps.policies.services import make_change_set
    from apps.policies.tree.stored import load_tree
    from apps.runs.models import Run
    from apps.usage.models import Record, Source

    at = now()
    admin = User.objects.create_superuser(MEMBER.rpartition("/")[2])
    Source.objects.filter(slug=SLUG).update(names_people=True)
    tree = load_tree(Policy.objects.get(slug=SLUG))
    uids = {"root": "/", "physics": GROUP, "bob": OTHER, "alice": MEMBER}
    objects: dict[str, Any] = {name: tree.uuid(tree.index_of_path(path) or 0) for name, path in uids.items()}
    actor = Actor(user=admin, via="page")
    for number in range(2, N_REVISIONS + 1):
        operations = [{"op": "set_shares", "entry": GROUP, "shares": number}]
        publish_operations(policy_slug=SLUG, operations=operations, reason="bench", at=at, actor=actor)
    draft = NewChangeSet(operations=[{"op": "set_shares", "entry": OTHER, "shares": 3}], reason="bench")
    objects["change_set"] = make_change_set(policy_slug=SLUG, new=draft, at=at, actor=actor).pk
    objects["record"] = Record.objects.order_by("pk").values_list("pk", flat=True)[0]
    objects["run"] = Run.objects.latest("pk").pk
    token, text = make_token(NewToken(name="bench", scopes=["admin"], user=admin), at=at, actor=COMMAND)
    objects["token"] = token.pk
    client = Client(headers={"host": "localhost"})
    client.force_login(admin, backend=settings.AUTHENTICATION_BACKENDS[1])
    name = settings.SESSION_COOKIE_NAME
    return objects, Readers(f"{name}={client.cookies[name].value}", text)
