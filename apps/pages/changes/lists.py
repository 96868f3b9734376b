"""The row of lists of a policy's changes: those of change sets by state, and the history of what was published."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

_LISTS = {  # in the order of the row
    "open": _("Open"),
    "mine": _("Mine"),
    "waiting": _("Waiting for me"),
    "history": _("History"),
    "withdrawn": _("Withdrawn"),
}


def list_links(policy: str, chosen: str) -> list[dict[str, object]]:
    """Key, name and URL of each list. A fragment of the page has those lists that have a query."""
    links: list[dict[str, object]] = []
    for key, name in _LISTS.items():
        route, query = ("history", "") if key == "history" else ("changes", f"?list={key}")
        url = reverse(f"pages:{route}", kwargs={"policy": policy})
        links.append({"key": key, "name": name, "url": url, "query": query, "is_chosen": key == chosen})
    return links
