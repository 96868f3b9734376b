"""Two keys that open a page: g and a letter."""

from __future__ import annotations

from functools import lru_cache

from django.urls import reverse

KEYS_COOKIE = "keys"  # "off": no single keys (WCAG 2.1.4)

_OF_POLICY = {"t": "policy", "c": "changes", "v": "convergence", "a": "allocations", "r": "history"}
_PAGES = {"o": "overview", "m": "my-priority", "i": "inbox", "n": "notices", "s": "sources", "h": "audit"}


@lru_cache(maxsize=64)
def _by_url(policy_slug: str) -> dict[str, str]:
    found = {reverse(f"dashboard:{name}"): f"g {key}" for key, name in _PAGES.items()}
    if policy_slug:
        for key, name in _OF_POLICY.items():
            found[reverse(f"dashboard:{name}", kwargs={"policy": policy_slug})] = f"g {key}"
    return found


def shortcut_of(url: str, policy_slug: str) -> str:
    """ "g t" for the address of the policy tree; empty for a page without keys."""
    return _by_url(policy_slug).get(url, "")
