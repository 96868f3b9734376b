"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import API, HTMX, Row

ROWS = [
    # Search: names, by the entries that one sees (vera: groups; dora: her entry and the way there)
    Row(API + "search", "/api/v1/search?q=bob", "401 200 200 200 200 200 403 200 200 401 401",
        word='"path":"/physics/bob"', readers="pia admin dora reader"),
    Row("search/", "/search/?q=bob", "302 200 200 200 200 200 302 302 302 302 302", word='/bob/"',
        readers="pia admin dora"),
    Row("search/_results", "/search/_results?q=bob", "302 200 200 200 200 200 302 302 302 302 302", word='/bob/"',
        readers="pia admin dora", headers=HTMX),
    Row("search/_results", "/search/_results?last=grid:{bob}", "302 200 200 200 200 200 302 302 302 302 302",
        word='/bob/"', readers="pia admin dora", headers=HTMX),
]  # fmt: skip
HIDDEN = [  # an address, what it hides, and what does not exist
    ("/api/v1/search?q={}", "bob", "xyz"),
    ("/search/?q={}", "bob", "xyz"),
    ("/api/v1/search?q={}&only=jobs", "2", "77777"),
    ("/search/?q={}&in=jobs", "2", "77777"),
    ("/search/?q=why+is+alice+behind+{}", "bob", "xyz"),
    ("/search/?q=when+is+{}+on+target", "bob", "xyz"),
    ("/search/?q=what+changed+in+{}", "bob", "xyz"),
    ("/search/?q=who+is+over+target+in+{}", "bob", "xyz"),
]
