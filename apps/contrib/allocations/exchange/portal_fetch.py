"""Fetch the answers of a portal's REST interface, page by page. The token goes to the portal alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from apps.contrib.allocations.exchange import coldfront, waldur
from apps.core.errors import TooLarge, Unavailable
from apps.core.outbound import Answer, Limits, Unreachable, fetch
from apps.core.typed_numbers import read_whole

Ask = Callable[[str, Mapping[str, str], Limits], Answer]
_MOST_PAGES = 1_000
_MOST_PAGE_BYTES = 32 * 2**20
_MOST_ITEMS = 50_000
_MOST_TEAMS = 2_000
_TOTAL_S = 60.0
_NEXT = re.compile(r'<([^<>]*+)>\s*+;\s*+rel="?next"?')
_REASONS = {
    400: "refused the request: check the address",
    401: "doesn't accept the token: make a new one there, and put it into the secret's file",
    403: "doesn't let the token's owner read this: ask its administrator for the right to view all projects",
    404: "has no such address: name the one before /api, and check that its REST plug-in is switched on",
    413: "refused the request as too large: ask its administrator for a smaller page",
    429: "was asked too often: try again later",
}


class PortalFailed(Unavailable):
    """The portal didn't answer as its REST interface does; the message says what to do."""

    code = "portal_failed"


def _ask(url: str, headers: Mapping[str, str], limits: Limits) -> Answer:
    return fetch(url, headers=headers, limits=limits)


def fetch_coldfront(url: str, token: str, ask: Ask = _ask) -> dict[str, Any]:
    """Projects and allocations, as `coldfront.read` reads them. url: of the site, before /api."""
    portal = _Portal(url, token, ask)
    switches = {
        coldfront.PROJECTS: {"project_users": "true", "allocations": "true"},
        coldfront.ALLOCATIONS: {"allocation_attributes": "true", "allocation_users": "true"},
    }
    return {name: portal.items(f"/api/{name}/?{urlencode(query)}") for name, query in switches.items()}


def fetch_waldur(url: str, token: str, ask: Ask = _ask) -> dict[str, Any]:
    """Resources and the team of each, as `waldur.read` reads them. url: of the site, before /api."""
    portal = _Portal(url, token, ask)
    resources = portal.items("/api/marketplace-resources/?page_size=100")
    shown = [each["uuid"] for each in resources if each.get("state") in waldur.ACTIVE and _is_uuid(each.get("uuid"))]
    if len(shown) > _MOST_TEAMS:
        raise TooLarge(f"The portal has {len(shown):,} resources: at most {_MOST_TEAMS:,} teams are fetched.")
    teams = {uuid: portal.items(f"/api/marketplace-resources/{uuid}/team/") for uuid in shown}
    return {waldur.RESOURCES: resources, waldur.TEAMS: teams}


def _is_uuid(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}|[0-9a-f-]{36}", value) is not None


class _Portal:
    def __init__(self, url: str, token: str, ask: Ask) -> None:
        self._base, self._ask = url.rstrip("/"), ask
        self._headers = {"Authorization": f"Token {token}", "Accept": "application/json"}

    def items(self, path: str) -> list[dict[str, Any]]:
        """All objects of a list, over its pages.

        Raises:
            PortalFailed: it answered with an error, a redirect, something else than such a list, or a part of it.
        """
        url: str | None = f"{self._base}{path}"
        objects: list[dict[str, Any]] = []
        visited: set[str] = set()
        n_stated: int | None = None
        while url is not None:
            if url in visited or len(visited) == _MOST_PAGES:
                raise PortalFailed(f"{self._base} lists its pages in a circle, or more than {_MOST_PAGES:,} of them.")
            visited.add(url)
            page, n_stated, url = self._page(url)
            objects += page
            if len(objects) > _MOST_ITEMS:
                raise TooLarge(f"{self._base} lists more than {_MOST_ITEMS:,} objects at {path}.")
        if n_stated is not None and n_stated != len(objects):
            raise PortalFailed(
                f"{self._base} announced {n_stated:,} objects at {path.partition('?')[0]} and sent "
                f"{len(objects):,}: nothing was imported, try again."
            )
        return objects

    def _page(self, url: str) -> tuple[list[dict[str, Any]], int | None, str | None]:
        """Objects of one page, how many there are in all if it says so, and the address of the next page."""
        answer = self._answer(url)
        try:
            body = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise PortalFailed(f"{self._base} sent no complete JSON: nothing was imported, try again.") from None
        headers = answer.headers
        count, onward = headers.get("x-result-count"), _NEXT.search(headers.get("link", ""))
        next_url = onward[1] if onward else None
        if isinstance(body, dict) and "results" in body:
            count, next_url, body = body.get("count"), body.get("next"), body["results"]
        if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
            raise PortalFailed(f"{self._base} sent no list of objects: check that the address is that of its REST.")
        n_stated = read_whole(str(count))
        return body, n_stated, None if not next_url else self._own(str(next_url))

    def _own(self, url: str) -> str:
        """The address of a next page, which must be of the same site: the token is for that one."""
        wanted, base = urlsplit(url), urlsplit(self._base)
        if (wanted.scheme, wanted.netloc) != (base.scheme, base.netloc):
            raise PortalFailed(
                f"{self._base} names a next page at {wanted.scheme}://{wanted.netloc}, where the token isn't sent: "
                "name the portal by that address."
            )
        return url

    def _answer(self, url: str) -> Answer:
        try:
            answer = self._ask(url, self._headers, Limits(n_bytes=_MOST_PAGE_BYTES, total_s=_TOTAL_S))
        except Unreachable as error:
            raise PortalFailed(f"{error.message} Nothing was imported, try again.") from error
        if 300 <= answer.status < 400:
            to = urlsplit(answer.headers.get("location", ""))
            where = f" to {to.scheme}://{to.netloc}" if to.netloc else ""
            raise PortalFailed(f"{self._base} redirects{where}: name the portal by its own address.")
        if answer.status != 200:
            reason = _REASONS.get(answer.status, f"answered with status {answer.status}: try again later")
            raise PortalFailed(f"{self._base} {reason}.")
        return answer
