"""The formats of usage, as their registry lists them."""

from __future__ import annotations

from apps.usage.parsers.registry import FORMATS
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_every_format_lists_its_fields_and_a_sample(site: Site) -> None:
    answer = Caller(token=site.token("usage:write", source_slug="cluster-a")).get("usage/formats")
    assert answer.status_code == 200
    body = {one["name"]: one for one in answer.json()["results"]}
    assert list(body) == list(FORMATS)
    for name, collector in FORMATS.items():
        assert body[name]["fields"] == [{"name": each.name, "meaning": each.meaning} for each in collector.fields]
        assert body[name]["sample"] == collector.sample
        assert (body[name]["needs_zone"], body[name]["is_listing"]) == (collector.needs_zone, collector.is_listing)


def test_anonymous_requests_are_refused(db: None) -> None:
    assert refused(Caller().get("usage/formats")) == (401, "not_authenticated", [])
