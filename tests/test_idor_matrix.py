"""Who gets what from every route: complete by construction, because a route without a row here fails.

A row is a request, the status for each actor, and (where it reveals something) a word that only some of them may read.
The objects of the requests are in /physics, except where a row says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.accounts.models import AuditEvent
from apps.pages.mapping.members.forms import seen_tag
from tests.each_case import each_case
from tests.examples import first
from tests.plugin_parts import added
from tests.rights_world import (
    API,
    BESIDES,
    EDIT,
    HTMX,
    JSON,
    NODE,
    OPEN,
    POLICY,
    SHARES,
    Row,
    World,
    cache_navigation_counts,
)
from tests.worlds import fresh_process, restore_caches  # noqa: F401 - fixture

ACTORS = (
    "anonymous",
    "nobody",  # signed in, without any right
    "alice",  # member: her account is at /physics/alice
    "pia",  # authority of /physics
    "ben",  # authority of /biology, the sibling
    "admin",
    "narrow",  # a token of the administrator for priorities:read
    "reader",  # a token of pia for policies:read
    "aside",  # a token of the administrator for policies:read and policies:write, bound to /biology
    "expired",
    "revoked",
)
PUBLIC = {"/api/v1/schema", "/fairshare", "/fairshare-agent.pyz", "/fairshare-callout.py"}  # may be kept by caches
NO_LONGER = ("rex", "exa")  # they read what `nobody` reads, word for word
OWN_MARKS = re.compile(
    r"\b(?:nobody|rex|exa)\b|aria-hidden=\"true\">[A-Z]{2}<|name=\"ticket\" value=\"[^\"]+\"|\"request_id\":\"\w+\""
    r"|<dd>\d+\xa0s</dd>"  # an age in seconds: the clock continues between two requests
)
TURNS = (("nobody", "rex"), ("vera",), ("nobody", "exa"), ("dora",))  # who asks for a row where time is short
FORM_TOKEN = re.compile("[A-Za-z0-9]{64}")


FEDERATION = API + "federation/"
REST_MOUNT = FEDERATION + "mounts/<int:mount>"
REST_SUBSCRIPTION = FEDERATION + "subscriptions/<int:subscription>"
STEPS = ("pause", "resume", "freeze", "unfreeze", "reset-history")
WHY = {"reason": "agreed"}
CHANGE_SET = POLICY + "/changesets/<int:change_set>"
ACCESS = "policy/<slug:policy>/access/"
MAPPING = POLICY + "/mappings"
MAPPED = {"If-Match": "{of_mapping}"}
ALICE = {"namespace": "a", "user": "alice", "group": "physics"}
GRANT = POLICY + "/grants/<int:grant>"
CHANGE = "changes/<int:change_set>"
HISTORY = "policy/<slug:policy>/history"
ACCOUNTS = "policy/<slug:policy>/mappings/"
MEMBERS = "policy/<slug:policy>/members/<uuid:uid>/"
IMPORT = "usage/imports/<int:import_id>"
SOURCE = "usage/sources/<slug:slug>/"
GROUP = "policy/<slug:policy>/group/<uuid:uid>"
MOUNT = "federation/mounts/<int:mount>/"
ANSWER = "inbox/<int:change_set>"
SEEN = {"If-Match": "{seen}"}

FEDERATED = "302 403 403 403 403 200 302 302 302 302 302"
TAKEN = "federation/usage/<int:subscription_id>/"
PUBLISHED = "federation/published/"
PUBLISHED_SUBTREE = PUBLISHED + "subtrees/<str:name>/"
PUBLISHED_FEED = PUBLISHED + "feeds/<str:name>/"

ROWS = [
    # --- Health
    Row("healthz", "/healthz", OPEN),
    Row("readyz", "/readyz", OPEN),
    Row("metrics", "/metrics", "401 401 401 401 401 401 403 403 403 401 401"),
    # --- The client for terminals: all may have it, for login nodes have no browser
    Row("fairshare", "/fairshare", OPEN),
    # --- REST: what says how to ask
    Row(API + "schema", "/api/v1/schema", OPEN),
    Row(API + "^docs/?$", "/api/v1/docs", OPEN),
    Row(API + "docs/<slug:name>", "/api/v1/docs/list_audit", OPEN),
    Row(API + "^.*$", "/api/v1/no/such/thing", "404 404 404 404 404 404 404 404 404 404 404"),
    # --- REST: publications (of /physics, to tokens of the scope `federation`; of /physics/bob, to all)
    Row(API + "publications/<str:name>", "/api/v1/publications/physics",
        "404 404 404 404 404 200 404 404 404 401 401", word='"name":"alice"', readers="admin"),
    Row(API + "publications/<str:name>", "/api/v1/publications/open.bob",
        "200 200 200 200 200 200 200 200 200 401 401", besides="rex 200 exa 200"),
    Row(API + "feeds/<str:name>", "/api/v1/feeds/physics", "404 404 404 404 404 200 404 404 404 401 401",
        word='"feed":"physics"', readers="admin"),
    # --- REST: federation administered (a mount in another policy, usage of /physics from elsewhere)
    Row(FEDERATION + "publications", "/api/v1/federation/publications", "401 403 403 403 403 200 403 403 403 401 401",
        word='"name":"physics"', readers="admin"),
    Row(FEDERATION + "publications", "/api/v1/federation/publications", "401 403 403 403 403 201 403 403 403 401 401",
        "post", {"policy": "grid", "entry": "/physics", "name": "physics"}),
    Row(FEDERATION + "publications/<str:name>", "/api/v1/federation/publications/physics",
        "401 403 403 403 403 200 403 403 403 401 401", word='"name":"physics"', readers="admin"),
    Row(FEDERATION + "publications/<str:name>", "/api/v1/federation/publications/open.bob?reason=x",
        "401 403 403 403 403 204 403 403 403 401 401", "delete"),
    Row(FEDERATION + "feeds", "/api/v1/federation/feeds", "401 403 403 403 403 200 403 403 403 401 401",
        word='"name":"physics"', readers="admin"),
    Row(FEDERATION + "feeds", "/api/v1/federation/feeds", "401 403 403 403 403 201 403 403 403 401 401",
        "post", {"policy": "grid", "entry": "/physics", "name": "physics", "capacity_cores": 10}),
    Row(FEDERATION + "feeds/<str:name>", "/api/v1/federation/feeds/physics",
        "401 403 403 403 403 200 403 403 403 401 401", word='"name":"physics"', readers="admin"),
    Row(FEDERATION + "feeds/<str:name>", "/api/v1/federation/feeds/physics",
        "401 403 403 403 403 204 403 403 403 401 401", "delete"),
    Row(FEDERATION + "peers", "/api/v1/federation/peers", "401 403 403 403 403 200 403 403 403 401 401",
        word="vo-a.example", readers="admin"),
    Row(FEDERATION + "grid", "/api/v1/federation/grid?policy=grid&entry=/physics",
        "401 404 200 200 404 200 403 200 404 401 401", word='"/physics/bob"', readers="pia admin dora reader",
        besides="vera 200 dora 200"),
    Row(FEDERATION + "keys", "/api/v1/federation/keys", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(FEDERATION + "keys", "/api/v1/federation/keys", "401 403 403 403 403 201 403 403 403 401 401", "post", WHY),
    Row(FEDERATION + "mounts", "/api/v1/federation/mounts", "401 200 200 200 200 200 403 200 200 401 401",
        word='"publication":"vo-a"', readers="admin"),
    Row(FEDERATION + "mounts", "/api/v1/federation/mounts", "401 404 404 404 404 409 403 403 404 401 401", "post",
        {"policy": "other", "entry": "/vo-a-here", "url": "https://vo-b.example/x", "issuer": "vo-b.example",
         "publication": "x", "fingerprint": "ab" * 32, **WHY}),
    Row(FEDERATION + "mounts/preview", "/api/v1/federation/mounts/preview",
        "401 404 404 404 404 422 403 403 403 401 401", "post", {"policy": "grid", "url": "http://169.254.169.254/"}),
    Row(REST_MOUNT, "/api/v1/federation/mounts/{mount}", "401 404 404 404 404 200 403 404 404 401 401",
        word='"publication":"vo-a"', readers="admin"),
    Row(REST_MOUNT, "/api/v1/federation/mounts/{mount}", "401 404 404 404 404 200 403 403 404 401 401", "patch",
        {"most_points": 3, **WHY}),
    Row(REST_MOUNT + "/fetches", "/api/v1/federation/mounts/{mount}/fetches",
        "401 404 404 404 404 200 403 404 404 401 401", word="applied", readers="admin"),
    Row(REST_MOUNT + "/fetch", "/api/v1/federation/mounts/{mount}/fetch",
        "401 404 404 404 404 202 403 403 404 401 401", "post", {}),
    Row(REST_MOUNT + "/trust-key", "/api/v1/federation/mounts/{mount}/trust-key",
        "401 404 404 404 404 200 403 403 404 401 401", "post", {"fingerprint": "ab" * 32, **WHY}),
    Row(REST_MOUNT + "/unmount", "/api/v1/federation/mounts/{mount}/unmount",
        "401 404 404 404 404 204 403 403 404 401 401", "post", WHY),
    *(
        Row(f"{REST_MOUNT}/{step}", f"/api/v1/federation/mounts/{{mount}}/{step}",
            "401 404 404 404 404 200 403 403 404 401 401", "post", WHY)
        for step in STEPS
    ),
    Row(FEDERATION + "subscriptions", "/api/v1/federation/subscriptions",
        "401 200 200 200 200 200 403 200 200 401 401", word='"feed":"usage-there"', readers="admin"),
    Row(FEDERATION + "subscriptions", "/api/v1/federation/subscriptions",
        "401 404 404 404 404 409 403 403 403 401 401", "post",
        {"policy": "grid", "entry": "/physics", "url": "https://site-b.example/x", "issuer": "site-b.example",
         "feed": "usage-there", "fingerprint": "ab" * 32, "capacity_cores": 10, **WHY}),
    Row(FEDERATION + "subscriptions/preview", "/api/v1/federation/subscriptions/preview",
        "401 404 404 404 404 422 403 403 403 401 401", "post",
        {"policy": "grid", "entry": "/physics", "url": "http://169.254.169.254/"}),
    Row(REST_SUBSCRIPTION, "/api/v1/federation/subscriptions/{subscription}",
        "401 404 404 404 404 200 403 404 404 401 401", word='"feed":"usage-there"', readers="admin"),
    Row(REST_SUBSCRIPTION, "/api/v1/federation/subscriptions/{subscription}",
        "401 404 404 404 404 200 403 403 404 401 401", "patch", {"every_s": 60, **WHY}),
    Row(REST_SUBSCRIPTION + "/held-hours", "/api/v1/federation/subscriptions/{subscription}/held-hours",
        "401 404 404 404 404 200 403 404 404 401 401"),
    Row(REST_SUBSCRIPTION + "/agree-capacity", "/api/v1/federation/subscriptions/{subscription}/agree-capacity",
        "401 404 404 404 404 200 403 403 404 401 401", "post", {"cores": 20, **WHY}),
    Row(REST_SUBSCRIPTION + "/fetches", "/api/v1/federation/subscriptions/{subscription}/fetches",
        "401 404 404 404 404 200 403 404 404 401 401"),
    Row(REST_SUBSCRIPTION + "/fetch", "/api/v1/federation/subscriptions/{subscription}/fetch",
        "401 404 404 404 404 202 403 403 404 401 401", "post", {}),
    Row(REST_SUBSCRIPTION + "/trust-key", "/api/v1/federation/subscriptions/{subscription}/trust-key",
        "401 404 404 404 404 200 403 403 404 401 401", "post", {"fingerprint": "cd" * 32, **WHY}),
    Row(REST_SUBSCRIPTION + "/unsubscribe", "/api/v1/federation/subscriptions/{subscription}/unsubscribe",
        "401 404 404 404 404 204 403 403 404 401 401", "post", WHY),
    *(
        Row(f"{REST_SUBSCRIPTION}/{step}", f"/api/v1/federation/subscriptions/{{subscription}}/{step}",
            "401 404 404 404 404 200 403 403 404 401 401", "post", WHY)
        for step in STEPS
    ),
    # --- REST: policies
    Row(API + "policies", "/api/v1/policies", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(POLICY, "/api/v1/policies/grid", "401 200 200 200 200 200 403 200 200 401 401"),
    Row(POLICY + "/revisions", "/api/v1/policies/grid/revisions", "401 200 200 200 200 200 403 200 200 401 401"),
    Row(POLICY + "/document", "/api/v1/policies/grid/document", "401 403 403 403 403 200 403 403 403 401 401",
        word="bob", readers="admin"),
    Row(POLICY + "/document/against", "/api/v1/policies/grid/document/against?format=sacctmgr-script",
        "401 403 403 403 403 200 403 403 403 401 401", "post", "Cluster - 'demo'\nParent - 'root'\n", word="bob",
        readers="admin"),
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?depth=9", "401 404 200 200 200 200 403 200 200 401 401",
        word="bob", readers="pia admin reader dora",
        besides="vera 200 dora 200"),
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?path=/physics/bob",
        "401 404 404 200 404 200 403 200 404 401 401", word='"bob"', readers="pia admin reader dora",
        besides="dora 200"),
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?format=csv", "401 404 200 200 200 200 403 200 200 401 401",
        word="bob", readers="pia admin reader dora", besides="vera 200 dora 200"),
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?since=999999", "401 404 410 410 410 410 403 410 410 401 401",
        besides="vera 410 dora 410"),
    # --- REST: the past (present grants; /physics/gone was archived in revision 4, /physics/left moved to /biology)
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?depth=9&at=3", "401 404 200 200 200 200 403 200 200 401 401",
        word='"gone"', readers="pia admin reader", besides="vera 200 dora 200"),
    Row(POLICY + "/tree", "/api/v1/policies/grid/tree?path=/physics/left&at=3",
        "401 404 404 404 404 200 403 404 404 401 401"),
    Row(POLICY + "/revisions/<int:revision>/diff", "/api/v1/policies/grid/revisions/3/diff",
        "401 200 200 200 200 200 403 200 200 401 401", word='"gone"', readers="pia admin reader"),
    Row(POLICY + "/revisions/<int:revision>/diff", "/api/v1/policies/grid/revisions/3/diff?to=4",
        "401 200 200 200 200 200 403 200 200 401 401", word='"left"', readers="admin"),
    Row(POLICY + "/entries/<uuid:entry>", "/api/v1/policies/grid/entries/{bob}",
        "401 404 404 200 404 200 403 200 404 401 401", word="in force", readers="pia admin reader dora",
        besides="dora 200"),
    Row(POLICY + "/entries/<uuid:entry>", "/api/v1/policies/grid/entries/{gone}",
        "401 404 404 200 404 200 403 200 404 401 401"),
    Row(POLICY + "/entries/<uuid:entry>", "/api/v1/policies/grid/entries/{left}?at=3",
        "401 404 404 404 404 200 403 404 404 401 401"),
    # --- REST: priorities
    Row(POLICY + "/priorities", "/api/v1/policies/grid/priorities?account=bob",
        "401 200 200 200 200 200 200 403 403 401 401", word="/physics/bob", readers="pia admin narrow dora"),
    Row(POLICY + "/priorities/lookup", "/api/v1/policies/grid/priorities/lookup",
        "401 200 200 200 200 200 200 403 403 401 401", "post", {"accounts": ["bob"]},
        word="/physics/bob", readers="pia admin narrow dora"),
    Row(POLICY + "/priorities/all", "/api/v1/policies/grid/priorities/all",
        "401 200 200 200 200 200 200 403 403 401 401", word="/physics/bob", readers="pia admin narrow dora"),
    Row(POLICY + "/priorities/all", "/api/v1/policies/grid/priorities/all?format=csv",
        "401 200 200 200 200 200 200 403 403 401 401", word="/physics/bob", readers="pia admin narrow dora"),
    Row(POLICY + "/explain", "/api/v1/policies/grid/explain?account=bob",
        "401 200 200 200 200 200 200 403 403 401 401", word="/physics/bob", readers="pia admin narrow dora"),
    Row(API + "me", "/api/v1/me", "401 200 200 200 200 200 403 403 403 401 401",
        word="/physics/alice", readers="alice"),
    Row(API + "me/explain", "/api/v1/me/explain", "401 200 200 200 200 200 403 403 403 401 401",
        word="/physics/alice", readers="alice"),
    Row(POLICY + "/explain", "/api/v1/policies/grid/explain?account=bob&at=2",
        "401 200 200 200 200 200 200 403 403 401 401", word="/physics/bob", readers="pia admin narrow dora"),
    Row(POLICY + "/compare", "/api/v1/policies/grid/compare?one=bob&other=alice",
        "401 404 404 200 404 200 200 200 404 401 401", word="/physics/bob", readers="pia admin narrow reader"),
    Row(POLICY + "/compare", "/api/v1/policies/grid/compare?other=/physics/bob",
        "401 404 404 404 404 404 404 404 404 401 401"),
    Row(POLICY + "/snapshots", "/api/v1/policies/grid/snapshots", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(POLICY + "/recompute", "/api/v1/policies/grid/recompute",
        "401 403 403 202 202 202 403 403 403 401 401", "post",
        besides="dora 202"),
    # --- REST: change sets (one of pia's, about /physics/bob)
    Row(POLICY + "/changesets", "/api/v1/policies/grid/changesets", "401 200 200 200 200 200 403 200 200 401 401",
        word="because of bob", readers="pia admin reader",
        besides="exa 200"),
    Row(POLICY + "/changesets", "/api/v1/policies/grid/changesets", "401 404 404 201 404 201 403 403 404 401 401",
        "post", {"base_revision": 2, "operations": [SHARES]},
        besides="dora 201"),
    Row(CHANGE_SET, "/api/v1/policies/grid/changesets/{change_set}", "401 404 404 200 404 200 403 200 404 401 401",
        word="because of bob", readers="pia admin reader"),
    Row(CHANGE_SET, "/api/v1/policies/grid/changesets/{change_set}", "401 404 404 200 404 200 403 403 404 401 401",
        "patch", {"reason": "more"}, headers={"If-Match": '"1"'}, remakes="change_set"),
    Row(CHANGE_SET + "/propose", "/api/v1/policies/grid/changesets/{change_set}/propose",
        "401 404 404 200 404 200 403 403 404 401 401", "post", remakes="change_set"),
    Row(CHANGE_SET + "/withdraw", "/api/v1/policies/grid/changesets/{change_set}/withdraw",
        "401 404 404 200 404 200 403 403 404 401 401", "post", remakes="change_set"),
    Row(CHANGE_SET + "/publish", "/api/v1/policies/grid/changesets/{change_set}/publish",
        "401 404 404 200 404 200 403 403 404 401 401", "post", remakes="change_set"),
    Row(CHANGE_SET + "/approve", "/api/v1/policies/grid/changesets/{proposed}/approve",
        "401 404 404 403 404 200 403 403 404 401 401", "post", remakes="proposed", besides="dora 403"),
    Row(CHANGE_SET + "/request-changes", "/api/v1/policies/grid/changesets/{proposed}/request-changes",
        "401 404 404 200 404 200 403 403 404 401 401", "post", {"reason": "less"}, remakes="proposed",
        besides="dora 403"),
    Row(CHANGE_SET + "/rebase", "/api/v1/policies/grid/changesets/{change_set}/rebase",
        "401 404 404 200 404 200 403 403 404 401 401", "post", remakes="change_set"),
    Row(CHANGE_SET + "/checks", "/api/v1/policies/grid/changesets/{change_set}/checks",
        "401 404 404 200 404 200 403 200 404 401 401"),
    Row(CHANGE_SET + "/effect", "/api/v1/policies/grid/changesets/{change_set}/effect",
        "401 404 404 200 404 200 403 200 404 401 401"),
    Row(CHANGE_SET + "/effect", "/api/v1/policies/grid/changesets/{change_set}/effect",
        "401 404 404 202 404 202 403 403 404 401 401", "post"),
    Row(CHANGE_SET + "/back-test", "/api/v1/policies/grid/changesets/{change_set}/back-test",
        "401 404 404 200 404 200 403 200 404 401 401"),
    Row(CHANGE_SET + "/back-test", "/api/v1/policies/grid/changesets/{change_set}/back-test",
        "401 404 404 403 404 202 403 403 404 401 401", "post"),
    Row(CHANGE_SET + "/comments", "/api/v1/policies/grid/changesets/{change_set}/comments",
        "401 404 404 200 404 200 403 200 404 401 401"),
    Row(CHANGE_SET + "/comments", "/api/v1/policies/grid/changesets/{change_set}/comments",
        "401 404 404 201 404 201 403 403 404 401 401", "post", {"text": "Why?"}),
    Row(CHANGE_SET + "/revert", "/api/v1/policies/grid/changesets/{published}/revert",
        "401 404 404 201 404 201 403 403 404 401 401", "post", remakes="published", besides="dora 201"),
    # --- REST: grants (one of nobody's at /physics/bob, which pia gave), and why a user may do something
    Row(POLICY + "/grants", "/api/v1/policies/grid/grants", "401 200 200 200 200 200 403 200 200 401 401",
        word="given to a guest", readers="pia admin reader dora",
        besides="rex 200"),
    Row(POLICY + "/grants", "/api/v1/policies/grid/grants", "401 404 404 201 404 201 403 403 404 401 401", "post",
        {"entry": "{bob}", "people": "oidc:team", "role": "viewer", "reason": "try"}, remakes="no_team",
        besides="vera 404 dora 201"),
    Row(GRANT, "/api/v1/policies/grid/grants/{grant}", "401 404 404 200 404 200 403 200 404 401 401",
        word="given to a guest", readers="pia admin reader dora", besides="dora 200"),
    Row(GRANT, "/api/v1/policies/grid/grants/{grant}", "401 404 404 200 404 200 403 403 404 401 401", "patch",
        {"reason": "other"}, headers=SEEN, remakes="grant", besides="dora 403"),
    Row(GRANT, "/api/v1/policies/grid/grants/{grant}", "401 404 404 204 404 204 403 403 404 401 401", "delete",
        headers=SEEN, remakes="grant", besides="dora 403"),
    Row(POLICY + "/access", "/api/v1/policies/grid/access?entry={bob}",
        "401 404 404 200 404 200 403 200 404 401 401", besides="dora 200"),
    Row(POLICY + "/access", "/api/v1/policies/grid/access?entry={bob}&person=dora",
        "401 404 404 200 404 200 403 200 404 401 401", word="bob is hers", readers="pia admin reader dora",
        besides="dora 200"),
    # --- REST: accounts attached by hand (bob's, by pia), and corrections of usage
    Row(POLICY + "/mappings", "/api/v1/policies/grid/mappings", "401 200 200 200 200 200 403 200 200 401 401",
        word="/physics/bob", readers="pia admin reader dora"),
    Row(POLICY + "/mappings", "/api/v1/policies/grid/mappings", "401 404 404 201 404 201 403 403 404 401 401", "post",
        {"account": {"namespace": "a", "user": "bob", "group": "physics"}, "entry": "/physics/bob", "reason": "x"},
        besides="dora 201"),
    Row(POLICY + "/mappings/<int:mapping>", "/api/v1/policies/grid/mappings/{attachment}",
        "401 404 404 200 404 200 403 200 404 401 401", word="bob is here", readers="pia admin reader dora",
        remakes="attachment", besides="dora 200"),
    Row(POLICY + "/mappings/<int:mapping>", "/api/v1/policies/grid/mappings/{attachment}",
        "401 404 404 204 404 204 403 403 404 401 401", "delete", {"reason": "x"}, remakes="attachment",
        besides="dora 204"),
    # --- REST: mapping rules (pia's, the last one), accounts without an entry, versions
    Row(MAPPING + "/rules", "/api/v1/policies/grid/mappings/rules", "401 404 403 200 200 200 403 200 200 401 401",
        word="pia-secret", readers="pia admin reader", besides="dora 200 vera 403"),
    Row(MAPPING + "/rules", "/api/v1/policies/grid/mappings/rules", "401 404 403 201 422 201 403 403 422 401 401",
        "post", {"kind": "glob", "user": "new*", "entry": "{physics}", "reason": "try"}, headers=MAPPED,
        remakes="mapping", besides="dora 403 vera 403"),
    Row(MAPPING + "/rules", "/api/v1/policies/grid/mappings/rules", "401 404 403 403 404 200 403 403 404 401 401",
        "put", {"rules": [{"kind": "glob", "user": "x*", "entry": "/physics"}], "reason": "try"}, headers=MAPPED,
        remakes="mapping", besides="dora 403 vera 403"),
    Row(MAPPING + "/rules/<int:position>", "/api/v1/policies/grid/mappings/rules/{rule_position}",
        "401 404 403 200 404 200 403 403 404 401 401", "patch",
        {"rule": {"kind": "glob", "user": "x*", "entry": "/physics/bob"}, "reason": "try"}, headers=MAPPED,
        remakes="mapping", besides="dora 404 vera 403"),
    Row(MAPPING + "/rules/<int:position>", "/api/v1/policies/grid/mappings/rules/{rule_position}?reason=try",
        "401 404 403 200 404 200 403 403 404 401 401", "delete", headers=MAPPED, remakes="mapping",
        besides="dora 404 vera 403"),
    Row(MAPPING + "/trial", "/api/v1/policies/grid/mappings/trial", "401 404 403 200 404 200 403 200 404 401 401",
        "post", {"rules": [{"kind": "glob", "user": "x*", "entry": "/physics"}]}, besides="dora 200 vera 403"),
    Row(MAPPING + "/trial", "/api/v1/policies/grid/mappings/trial", "401 404 403 200 404 200 403 200 404 401 401",
        "post", {"rules": [{"kind": "glob", "user": "*", "entry": "/physics"}]}, word="carol", readers="admin",
        besides="dora 200 vera 403"),
    Row(MAPPING + "/unmapped", "/api/v1/policies/grid/mappings/unmapped",
        "401 404 403 200 200 200 403 200 200 401 401", besides="dora 200 vera 403"),
    Row(MAPPING + "/assignments", "/api/v1/policies/grid/mappings/assignments",
        "401 404 403 201 404 201 403 403 404 401 401", "post",
        {"assignments": [{"account": ALICE, "entry": "/physics/bob"}], "reason": "try"}, headers=MAPPED,
        remakes="mapping", besides="dora 422 vera 403"),
    Row(MAPPING + "/versions", "/api/v1/policies/grid/mappings/versions",
        "401 404 403 200 200 200 403 200 200 401 401", word="pia-secret", readers="pia admin reader",
        besides="dora 200 vera 403"),
    Row(MAPPING + "/versions/<int:version>", "/api/v1/policies/grid/mappings/versions/{mapping}",
        "401 404 403 200 404 200 403 200 404 401 401", besides="dora 404 vera 403"),
    Row(MAPPING + "/versions/<int:version>/restore", "/api/v1/policies/grid/mappings/versions/{mapping_before}/restore",
        "401 404 403 201 404 201 403 403 404 401 401", "post", {"reason": "try"}, headers=MAPPED, remakes="mapping",
        besides="dora 404 vera 403"),
    Row(POLICY + "/adjustments", "/api/v1/policies/grid/adjustments", "401 200 200 200 200 200 403 200 200 401 401"),
    Row(POLICY + "/convergence", "/api/v1/policies/grid/convergence", "401 404 200 200 200 200 403 200 200 401 401",
        besides="vera 200 dora 200"),
    Row(POLICY + "/convergence", "/api/v1/policies/grid/convergence?entry={bob}",
        "401 404 404 200 404 200 403 200 404 401 401", word='"bob"', readers="pia admin reader dora",
        besides="dora 200"),
    Row(POLICY + "/charges", "/api/v1/policies/grid/charges?account=bob",
        "401 200 200 200 200 200 403 200 200 401 401", word='"job":"2"', readers="pia admin reader dora"),
    Row(POLICY + "/charges", "/api/v1/policies/grid/charges?job=1",
        "401 200 200 200 200 200 403 200 200 401 401", word='"user":"alice"', readers="alice pia admin reader"),
    # --- REST: the log (of what pia did at /physics/bob, and what the administrator did to /physics/left)
    Row(API + "audit", "/api/v1/audit?verb=policy.published", "401 200 200 200 200 200 403 200 200 401 401",
        word="in force", readers="pia admin reader dora", besides="dora 200"),
    Row(API + "audit", "/api/v1/audit?entry={left}", "401 200 200 200 200 200 403 200 200 401 401",
        word="people", readers="admin"),
    # --- REST: what can be set on a policy, which is the same for all users
    Row(API + "algorithms", "/api/v1/algorithms", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(API + "operators", "/api/v1/operators", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(API + "decay-functions", "/api/v1/decay-functions", "401 200 200 200 200 200 200 200 200 401 401"),
    # --- REST: usage
    Row(API + "usage/records", "/api/v1/usage/records?source=cluster-a",
        "401 403 403 403 403 200 403 403 403 401 401", "post", []),
    Row(API + "usage/sources", "/api/v1/usage/sources", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(API + "usage/sources/<slug:source>", "/api/v1/usage/sources/cluster-a",
        "401 200 200 200 200 200 404 404 404 401 401"),  # these tokens are bound to a policy
    Row(API + "usage/sources", "/api/v1/usage/sources",
        "401 403 403 403 403 409 403 403 403 401 401", "post", {"slug": "cluster-a", "name": "again"}),
    Row(API + "usage/sources/<slug:source>", "/api/v1/usage/sources/cluster-a",
        "401 403 403 403 403 412 403 403 403 401 401", "patch", {"name": "other"}, headers={"If-Match": '"1"'}),
    Row(API + "usage/sources/<slug:source>/collect", "/api/v1/usage/sources/cluster-a/collect",
        "401 403 403 403 403 409 403 403 403 401 401", "post"),
    Row(API + "usage/sources/<slug:source>/pause", "/api/v1/usage/sources/cluster-a/pause",
        "401 403 403 403 403 200 403 403 403 401 401", "post"),
    Row(API + "usage/sources/<slug:source>/resume", "/api/v1/usage/sources/cluster-a/resume",
        "401 403 403 403 403 200 403 403 403 401 401", "post"),
    Row(API + "usage/quality", "/api/v1/usage/quality?days=7", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(API + "usage/formats", "/api/v1/usage/formats", "401 200 200 200 200 200 200 200 200 401 401"),
    Row(API + "usage/buckets", "/api/v1/usage/buckets?source=cluster-a",
        "401 200 200 200 200 200 403 403 403 401 401", word="bob", readers="admin"),
    # --- REST: runs and tokens (pia's)
    Row(API + "runs/<int:run>", "/api/v1/runs/{run}", "401 404 404 200 404 200 404 200 404 401 401"),
    Row(API + "tokens", "/api/v1/tokens", "401 200 200 200 200 200 403 403 403 401 401",
        word="pia's own", readers="pia"),
    Row(API + "tokens", "/api/v1/tokens", "401 201 201 201 201 201 403 403 403 401 401", "post",
        {"name": "mine", "scopes": ["self:read"]}),
    Row(API + "tokens/<int:token>/rotate", "/api/v1/tokens/{token}/rotate",
        "401 404 404 200 404 200 403 403 403 401 401", "post", remakes="token"),
    Row(API + "tokens/<int:token>/revoke", "/api/v1/tokens/{token}/revoke",
        "401 404 404 204 404 204 403 403 403 401 401", "post", remakes="token"),
    # --- Pages: a token opens none of them
    # A user without a role is sent to their own priority.
    Row("", "/", "302 302 302 200 200 200 302 302 302 302 302", besides="vera 200 dora 200"),
    *(
        Row(f"_{card}", f"/_{card}", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX)
        for card in ("mine", "verdict", "attention", "recent")
    ),
    Row("_ends", "/_ends", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="rex 200"),
    Row("_children", "/_children?level={root}", "302 404 200 200 200 200 302 302 302 302 302", word=">physics<",
        readers="alice pia admin vera dora", headers=HTMX, besides="vera 200 dora 200"),
    Row("_children", "/_children?level={physics}", "302 404 200 200 404 200 302 302 302 302 302", word=">bob<",
        readers="pia admin dora", headers=HTMX, besides="vera 200 dora 200"),
    Row("overview/decide/", "/overview/decide/?policy=grid", "302 404 404 403 404 303 302 302 302 302 302", "post",
        {"step": "grant", "request": "{request}:2"}, besides="dora 403", remakes="request"),
    Row("overview/decide/", "/overview/decide/?policy=grid", "302 404 404 403 404 303 302 302 302 302 302", "post",
        {"step": "decline", "request": "{request}:2", "text": "no"}, besides="dora 403", remakes="request"),
    Row("_deviation", "/_deviation", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("overview/figures/deviation", "/overview/figures/deviation", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("overview/figures/deviation.<str:form>", "/overview/figures/deviation.csv",
        "302 200 200 200 200 200 302 302 302 302 302"),
    Row("_pins", "/_pins", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("policy/<slug:policy>/pins/<uuid:uid>/", "/policy/grid/pins/{bob}/",
        "302 404 404 303 404 303 302 302 302 302 302", "post", {"pinned": "1"}, besides="dora 303"),
    # --- The first steps: administrators alone (not begun)
    Row("sign-in/", "/sign-in/", "200 302 302 302 302 302 200 200 200 200 200"),
    Row("sign-in/_again", "/sign-in/_again", "200 200 200 200 200 200 200 200 200 200 200"),
    Row("sign-in/_state", "/sign-in/_state", "200 200 200 200 200 200 200 200 200 200 200"),
    Row("sign-in/done/", "/sign-in/done/", "200 200 200 200 200 200 200 200 200 200 200"),
    Row("sign-in/oidc/", "/sign-in/oidc/", "404 404 404 404 404 404 404 404 404 404 404", "post"),  # without an issuer
    Row("sign-in/oidc/<slug:provider_id>/callback/", "/sign-in/oidc/site/callback/?code=x&state=y",
        "404 404 404 404 404 404 404 404 404 404 404"),
    Row("sign-out/", "/sign-out/", "302 302 302 302 302 302 302 302 302 302 302", "post", remakes="session"),
    Row("theme/", "/theme/", "303 303 303 303 303 303 303 303 303 303 303", "post", {"theme": "dark"}),
    Row("me/priority/", "/me/priority/", "302 200 200 200 200 200 302 302 302 302 302",
        word="physics", readers="alice"),
    Row("me/priority/", "/me/priority/?at=2&policy=grid", "302 200 200 200 200 200 302 302 302 302 302",
        word="physics", readers="alice"),
    Row("me/card/", "/me/card/", OPEN, word="physics", readers="alice"),
    Row("me/priority/_why", "/me/priority/_why?who=b&other=/physics/bob",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("me/tokens/", "/me/tokens/", "302 200 200 200 200 200 302 302 302 302 302",
        word="pia&#x27;s own", readers="pia"),
    Row("me/tokens/<int:token_id>/rotate/", "/me/tokens/{token}/rotate/",
        "302 404 404 200 404 404 302 302 302 302 302"),
    Row("me/tokens/<int:token_id>/revoke/", "/me/tokens/{token}/revoke/",
        "302 404 404 200 404 404 302 302 302 302 302"),
    Row("policy/<slug:policy>/", "/policy/grid/", "302 200 200 200 200 200 302 302 302 302 302",
        word="bob", readers="pia admin dora"),
    Row("policy/<slug:policy>/", "/policy/grid/?at=3", "302 200 200 200 200 200 302 302 302 302 302",
        word=">gone<", readers="pia admin"),
    Row("policy/<slug:policy>/_rows", "/policy/grid/_rows?parent={physics}&at=3",
        "302 404 200 200 404 200 302 302 302 302 302", word=">left<", readers="admin", headers=HTMX,
        besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/_panel", "/policy/grid/_panel?entry={left}&at=3",
        "302 404 404 404 404 200 302 302 302 302 302", headers=HTMX),
    Row(NODE + "/", "/policy/grid/n/{gone}/", "302 404 404 303 404 303 302 302 302 302 302"),
    Row(NODE + "/<slug:name>/", "/policy/grid/n/{gone}/gone/?at=3", "302 404 404 200 404 200 302 302 302 302 302"),
    Row(NODE + "/<slug:name>/", "/policy/grid/n/{left}/left/?at=3", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/_rows", "/policy/grid/_rows?parent={physics}",
        "302 404 200 200 404 200 302 302 302 302 302",
        word="bob", readers="pia admin dora", headers=HTMX,
        besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/_search", "/policy/grid/_search?q=bob", "302 200 200 200 200 200 302 302 302 302 302",
        word='data-uid="{bob}"', readers="pia admin dora", headers=HTMX),
    Row("policy/<slug:policy>/_panel", "/policy/grid/_panel?entry={bob}", "302 404 404 200 404 200 302 302 302 302 302",
        word="bob", readers="pia admin dora", headers=HTMX,
        besides="dora 200"),
    Row("policy/<slug:policy>/decay/", "/policy/grid/decay/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/decay/", "/policy/grid/decay/", "302 200 200 200 200 200 302 302 302 302 302", "post",
        {"aging": "lsf", "step": "preview"}),
    # --- Pages: convergence and icicle
    Row("policy/<slug:policy>/convergence/", "/policy/grid/convergence/",
        "302 404 200 200 200 200 302 302 302 302 302", besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/convergence/_tiles", "/policy/grid/convergence/_tiles?section=rest",
        "302 404 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/convergence/_latest", "/policy/grid/convergence/_latest",
        "302 404 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/convergence/_more", "/policy/grid/convergence/_more?more=numbers",
        "302 404 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/convergence/_building", "/policy/grid/convergence/_building",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("policy/<slug:policy>/convergence/days.csv", "/policy/grid/convergence/days.csv",
        "302 404 200 200 200 200 302 302 302 302 302", besides="vera 200 dora 200"),
    Row(NODE + "/<slug:name>/convergence/", "/policy/grid/n/{bob}/bob/convergence/",
        "302 404 404 200 404 200 302 302 302 302 302", word="<title>Over time · bob", readers="pia admin dora",
        besides="dora 200"),
    Row(NODE + "/<slug:name>/convergence/_over-time", "/policy/grid/n/{bob}/bob/convergence/_over-time",
        "302 404 404 200 404 200 302 302 302 302 302", headers=HTMX, besides="dora 200"),
    Row(NODE + "/<slug:name>/convergence/days.csv", "/policy/grid/n/{bob}/bob/convergence/days.csv",
        "302 404 404 200 404 200 302 302 302 302 302", besides="dora 200"),
    Row("policy/<slug:policy>/icicle/", "/policy/grid/icicle/", "302 404 200 200 200 200 302 302 302 302 302",
        word="/physics/alice</a>", readers="alice pia admin", besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/icicle/", "/policy/grid/icicle/?entry={left}&at=3",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/algorithm/", "/policy/grid/algorithm/?algorithm=flux",
        "302 200 200 200 200 200 302 302 302 302 302", word='name="step"', readers="admin"),
    Row("policy/<slug:policy>/algorithm/", "/policy/grid/algorithm/", "302 403 403 403 403 303 302 302 302 302 302",
        "post", {"algorithm": "flux", "reason": "try", "step": "publish", "previewed": "name=flux"}),
    Row("policy/<slug:policy>/algorithm/_effect", "/policy/grid/algorithm/_effect?algorithm=slurm-classic",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("policy/<slug:policy>/files/", "/policy/grid/files/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/files/", "/policy/grid/files/",
        "302 403 403 403 403 422 302 302 302 302 302", "post", {}),
    Row("policy/<slug:policy>/files/against/", "/policy/grid/files/against/",
        "302 403 403 403 403 422 302 302 302 302 302", "post", {}),
    Row("policy/<slug:policy>/files/<slug:format>/", "/policy/grid/files/yaml/",
        "302 403 403 403 403 200 302 302 302 302 302", word="bob", readers="admin"),
    Row("policy/<slug:policy>/files/<int:change_set>/", "/policy/grid/files/{change_set}/",
        "302 404 404 403 404 200 302 302 302 302 302", word="because of bob", readers="admin"),
    Row("policy/<slug:policy>/files/<int:change_set>/", "/policy/grid/files/{change_set}/",
        "302 404 404 403 404 303 302 302 302 302 302", "post", {"step": "publish", "version": 1, "reason": "x"},
        remakes="change_set"),
    # --- The editor (of pia's draft about /physics/bob)
    Row("policy/<slug:policy>/edit", "/policy/grid/edit", "302 200 200 303 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/edit", "/policy/grid/edit", "302 403 403 303 303 303 302 302 302 302 302", "post",
        {"new": "1"}, besides="dora 303"),
    Row("policy/<slug:policy>/undo", "/policy/grid/undo", "302 404 404 404 404 404 302 302 302 302 302", "post",
        {"number": "77"}),
    *(
        Row(EDIT + place, "/changes/{change_set}/edit" + place + query, "302 404 404 200 404 200 302 302 302 302 302",
            word="bob", readers="pia admin", headers=HTMX)
        for place, query in (
            ("/", ""), ("/_rows", "?parent={physics}"), ("/_panel", "?entry={bob}"),
            ("/_action", "?entry={bob}&do=rename"), ("/paste/", ""), ("/settings/", ""),
        )
    ),
    *(
        Row(EDIT + place, "/changes/{change_set}/edit" + place, "302 404 404 303 404 303 302 302 302 302 302", "post",
            {"version": "1", **body}, remakes="change_set")
        for place, body in (
            ("/_update", {}), ("/_finish", {"step": "withdraw"}),
        )
    ),
    *(
        Row(EDIT + place, "/changes/{change_set}/edit" + place, "302 404 404 200 404 200 302 302 302 302 302", "post",
            {"version": "1", **body}, remakes="change_set")
        for place, body in (
            ("/_operation", {"op": "rename", "entry": "{bob}", "name": "bobby"}), ("/_log", {"step": "undo"}),
        )
    ),
    *(
        Row(EDIT + place, "/changes/{change_set}/edit" + place, "302 404 404 428 404 428 302 302 302 302 302", "post",
            {"step": "publish"})
        for place in ("/_operation", "/_log", "/_update", "/_finish", "/paste/", "/settings/")
    ),
    Row(ACCESS, "/policy/grid/access/", "302 200 200 200 200 200 302 302 302 302 302",
        word="given to a guest", readers="pia admin dora", besides="rex 200"),
    Row(ACCESS + "n/<uuid:uid>/", "/policy/grid/access/n/{bob}/",
        "302 404 404 200 404 200 302 302 302 302 302",
        word="bob is hers", readers="pia admin dora", besides="dora 200"),
    Row(ACCESS + "_grants", "/policy/grid/access/_grants", "302 200 200 200 200 200 302 302 302 302 302",
        word="given to a guest", readers="pia admin dora", headers=HTMX, besides="rex 200"),
    Row(ACCESS + "_why", "/policy/grid/access/_why?person=dora&entry=/physics/bob",
        "302 422 422 200 422 200 302 302 302 302 302", word="bob is hers", readers="pia admin dora", headers=HTMX,
        besides="dora 200"),
    Row(ACCESS + "assign/", "/policy/grid/access/assign/", "302 403 403 200 200 200 302 302 302 302 302",
        besides="dora 200"),
    Row(ACCESS + "assign/", "/policy/grid/access/assign/", "302 403 403 303 422 303 302 302 302 302 302", "post",
        {"entry": "/physics/bob", "people": "oidc:team", "role": "viewer", "reason": "try", "no_end": "on"},
        remakes="no_team", besides="dora 303"),
    Row(ACCESS + "extend/", "/policy/grid/access/extend/", "302 303 303 303 303 303 302 302 302 302 302", "post",
        {"grant": "{grant}"}, remakes="grant"),
    Row(ACCESS + "<int:grant_id>/", "/policy/grid/access/{grant}/", "302 404 404 200 404 200 302 302 302 302 302",
        word="given to a guest", readers="pia admin dora", besides="dora 200"),
    Row(ACCESS + "<int:grant_id>/", "/policy/grid/access/{grant}/", "302 404 404 303 404 303 302 302 302 302 302",
        "post", {"step": "end", "tag": "{plain_tag}"}, remakes="grant", besides="dora 403"),
    Row(NODE + "/_access", "/policy/grid/n/{bob}/_access", "302 404 404 200 404 200 302 302 302 302 302",
        word="bob is hers", readers="", headers=HTMX, besides="dora 200"),
    # --- Pages: the second step of sign-in, for users with a pending one, and each user's own
    Row("sign-in/second-step/", "/sign-in/second-step/", "303 303 303 303 303 303 303 303 303 303 303"),
    Row("sign-in/second-step/", "/sign-in/second-step/", "303 303 303 303 303 303 303 303 303 303 303", "post",
        {"code": "000000"}),
    Row("me/second-factor/", "/me/second-factor/", "302 200 200 200 200 200 302 302 302 302 302",
        besides="rex 200 exa 200"),  # each page has a secret of its own
    Row("me/second-factor/", "/me/second-factor/", "302 422 422 422 422 422 302 302 302 302 302", "post",
        {"step": "remove", "code": "000000"}),
    # --- Pages: the own password and sessions; a new password by mail, where the site sends mail
    Row("me/password/", "/me/password/", "302 422 422 422 422 422 302 302 302 302 302", "post",
        {"old_password": "wrong", "new_password1": "a long pass phrase", "new_password2": "a long pass phrase"}),
    Row("me/password/sessions/", "/me/password/sessions/", "302 303 303 303 303 303 302 302 302 302 302", "post",
        {}, remakes="session"),
    # --- Pages of the past, and the log
    Row("audit/", "/audit/?verb=policy", "302 200 200 200 200 200 302 302 302 302 302",
        word="in force", readers="pia admin dora", besides="exa 200"),  # exa reads of the own draft
    Row("audit/", "/audit/?row={row}", "302 404 404 200 404 200 302 302 302 302 302", word="in force",
        readers="pia admin dora", besides="dora 200"),
    Row("audit/_rows", "/audit/_rows?verb=policy", "302 200 200 200 200 200 302 302 302 302 302",
        word="in force", readers="pia admin dora", headers=HTMX),
    Row("audit/_event", "/audit/_event?row={row}", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200"),
    Row("audit/export.jsonl", "/audit/export.jsonl", "302 200 200 200 200 200 302 302 302 302 302",
        word="192.0.2.99", readers="admin"),
    Row("audit/export.csv", "/audit/export.csv", "302 200 200 200 200 200 302 302 302 302 302",
        word="192.0.2.99", readers="admin"),
    Row("audit/export.csv", "/audit/export.csv?entry={bob}", "302 200 200 200 200 200 302 302 302 302 302",
        word="in force", readers="pia admin dora"),
    Row(HISTORY + "/", "/policy/grid/history/", "302 200 200 200 200 200 302 302 302 302 302",
        word='"/changes/{published}/"', readers="pia admin dora"),
    Row(HISTORY + "/_rows", "/policy/grid/history/_rows", "302 200 200 200 200 200 302 302 302 302 302",
        word='"/changes/{published}/"', readers="pia admin dora", headers=HTMX),
    Row(HISTORY + "/diff/", "/policy/grid/history/diff/?from=2&to=3", "302 200 200 200 200 200 302 302 302 302 302",
        word=">gone<", readers="pia admin"),
    Row(HISTORY + "/_diff", "/policy/grid/history/_diff?from=3&to=4", "302 200 200 200 200 200 302 302 302 302 302",
        word=">left<", readers="admin", headers=HTMX),
    Row(HISTORY + "/<int:revision>/undo/", "/policy/grid/history/3/undo/",
        "302 200 200 200 200 200 302 302 302 302 302", word=">gone<", readers="pia admin"),
    Row(HISTORY + "/<int:revision>/undo/", "/policy/grid/history/3/undo/",
        "302 403 403 403 403 303 302 302 302 302 302", "post", {"reason": "x"}),
    Row(HISTORY + "/<int:revision>/restore/", "/policy/grid/history/3/restore/",
        "302 200 200 200 200 200 302 302 302 302 302", word=">left<", readers="admin"),
    Row(HISTORY + "/<int:revision>/restore/", "/policy/grid/history/3/restore/",
        "302 403 403 403 403 303 302 302 302 302 302", "post", {"reason": "x"}),
    Row(HISTORY + "/entry/<uuid:uid>/", "/policy/grid/history/entry/{bob}/",
        "302 404 404 200 404 200 302 302 302 302 302", word="in force", readers="pia admin dora", besides="dora 200"),
    Row(NODE + "/", "/policy/grid/n/{bob}/", "302 404 404 303 404 303 302 302 302 302 302",
        besides="dora 303"),
    Row(NODE + "/<slug:name>/", "/policy/grid/n/{bob}/bob/", "302 404 404 200 404 200 302 302 302 302 302",
        word="<title>bob", readers="pia admin dora",
        besides="dora 200"),
    Row(NODE + "/_preview", "/policy/grid/n/{bob}/_preview?shares=3", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX,
        besides="dora 200"),
    Row(NODE + "/_shares", "/policy/grid/n/{bob}/_shares", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX,
        besides="dora 403"),
    Row(NODE + "/_shares", "/policy/grid/n/{bob}/_shares", "302 404 404 200 404 200 302 302 302 302 302", "post",
        {"shares": "3", "base_revision": "2"}, headers=HTMX,
        besides="dora 200"),
    # --- Pages of a review (of pia's draft about /physics/bob)
    Row("policy/<slug:policy>/changes/", "/policy/grid/changes/", "302 200 200 200 200 200 302 302 302 302 302",
        word="because of bob", readers="pia admin", besides="exa 200"),
    Row("policy/<slug:policy>/changes/_rows", "/policy/grid/changes/_rows?list=open",
        "302 200 200 200 200 200 302 302 302 302 302", word="because of bob", readers="pia admin", headers=HTMX,
        besides="exa 200"),
    Row(CHANGE + "/", "/changes/{change_set}/", "302 404 404 200 404 200 302 302 302 302 302",
        word="because of bob", readers="pia admin"),
    Row(CHANGE + "/effect/", "/changes/{change_set}/effect/", "302 404 404 200 404 200 302 302 302 302 302"),
    Row(CHANGE + "/back-test/", "/changes/{change_set}/back-test/", "302 404 404 200 404 200 302 302 302 302 302"),
    Row(CHANGE + "/_back-test", "/changes/{change_set}/_back-test", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX),
    Row(CHANGE + "/back-test/compute/", "/changes/{change_set}/back-test/compute/",
        "302 404 404 403 404 303 302 302 302 302 302", "post", {"days": "7"}),
    Row(CHANGE + "/checks/", "/changes/{change_set}/checks/", "302 404 404 200 404 200 302 302 302 302 302"),
    Row(CHANGE + "/discussion/", "/changes/{change_set}/discussion/", "302 404 404 200 404 200 302 302 302 302 302"),
    Row(CHANGE + "/_diff", "/changes/{change_set}/_diff", "302 404 404 200 404 200 302 302 302 302 302",
        word="bob gets", readers="pia admin", headers=HTMX),
    Row(CHANGE + "/_effect", "/changes/{change_set}/_effect", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX),
    Row(CHANGE + "/_checks", "/changes/{change_set}/_checks", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX),
    Row(CHANGE + "/_discussion", "/changes/{change_set}/_discussion", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX),
    Row(CHANGE + "/_instant", "/changes/{change_set}/_instant?effective_at=2027-01-01T08:00",
        "302 404 404 200 404 200 302 302 302 302 302", headers=HTMX),
    Row(CHANGE + "/operations.json", "/changes/{change_set}/operations.json",
        "302 404 404 200 404 200 302 302 302 302 302", word="set_shares", readers="pia admin"),
    Row(CHANGE + "/conflicts/", "/changes/{change_set}/conflicts/", "302 404 404 303 404 303 302 302 302 302 302"),
    Row(CHANGE + "/decide/", "/changes/{change_set}/decide/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "publish", "version": "1"}, remakes="change_set"),
    Row(CHANGE + "/decide/", "/changes/{change_set}/decide/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "withdraw", "version": "1"}, remakes="change_set"),
    Row(CHANGE + "/comment/", "/changes/{change_set}/comment/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"text": "Why?"}),
    Row(CHANGE + "/compute/", "/changes/{change_set}/compute/", "302 404 404 303 404 303 302 302 302 302 302",
        "post"),
    # --- My group (physics), and what was asked for it (by pia)
    Row("start/", "/start/", "302 303 303 303 303 303 302 302 302 302 302"),
    Row("group/", "/group/", "302 200 303 303 303 200 302 302 302 302 302", besides="dora 303"),
    Row(GROUP + "/", "/policy/grid/group/{physics}/", "302 404 403 200 404 200 302 302 302 302 302",
        word="Shares of bob", readers="pia admin", besides="vera 403 dora 403"),
    Row(GROUP + "/", "/policy/grid/group/{physics}/", "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"step": "effect"}, besides="vera 403 dora 403"),
    Row(GROUP + "/", "/policy/grid/group/{physics}/", "302 404 403 303 404 303 302 302 302 302 302", "post",
        {"step": "publish", "reason": "r", "shares-{bob}": "{a_number}"}, besides="vera 403 dora 403",
        remakes="a_number"),
    Row(GROUP + "/_form", "/policy/grid/group/{physics}/_form", "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"step": "equalise"}, headers=HTMX, besides="vera 403 dora 403", word="Shares of bob", readers="pia admin"),
    Row(GROUP + "/_effect", "/policy/grid/group/{physics}/_effect", "302 404 403 200 404 200 302 302 302 302 302",
        "post", {}, headers=HTMX, besides="vera 403 dora 403"),
    Row(GROUP + "/_ask_effect", "/policy/grid/group/{physics}/_ask_effect?amount=90",
        "302 404 403 200 404 200 302 302 302 302 302", headers=HTMX, besides="vera 403 dora 403"),
    Row(GROUP + "/ask/", "/policy/grid/group/{physics}/ask/", "302 404 403 303 404 409 302 302 302 302 302", "post",
        {"amount": "90", "reason": "r"}, besides="vera 403 dora 403", remakes="no_request"),
    Row(GROUP + "/undo/", "/policy/grid/group/{physics}/undo/", "302 404 403 303 404 303 302 302 302 302 302", "post",
        {"number": "{division}"}, besides="vera 403 dora 403", remakes="division"),
    Row("inbox/", "/inbox/", "302 200 200 200 200 200 302 302 302 302 302", word="physics requests",
        readers="pia admin", besides="exa 200 rex 200"),
    Row("inbox/_news", "/inbox/_news?seen=none", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row(ANSWER + "/_ranks", "/inbox/{request}/_ranks", "302 404 404 200 404 200 302 302 302 302 302", headers=HTMX,
        besides="dora 200"),
    Row(ANSWER + "/answer/", "/inbox/{request}/answer/", "302 404 404 403 404 303 302 302 302 302 302", "post",
        {"step": "grant", "version": "2"}, besides="dora 403", remakes="request"),
    Row(ANSWER + "/answer/", "/inbox/{request}/answer/", "302 404 404 403 404 303 302 302 302 302 302", "post",
        {"step": "decline", "version": "2", "text": "no"}, besides="dora 403", remakes="request"),
    Row(ANSWER + "/answer/", "/inbox/{request}/answer/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "withdraw", "version": "2"}, besides="dora 403", remakes="request"),
    # --- Pages: other authorities
    Row("federation/", "/federation/", "302 403 403 403 403 200 302 302 302 302 302",
        word="vo-a.example", readers="admin"),
    Row("federation/_peers", "/federation/_peers", "302 403 403 403 403 200 302 302 302 302 302",
        headers=HTMX, word="vo-a.example", readers="admin"),
    Row("federation/mount/", "/federation/mount/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row("federation/mount/", "/federation/mount/", "302 403 403 403 403 422 302 302 302 302 302", "post",
        {"step": "preview", "policy": "other", "url": "https://localhost/vo-a.fairshare"}),
    Row(MOUNT, "/federation/mounts/{mount}/", "302 404 404 404 404 200 302 302 302 302 302",
        word="vo-a.example", readers="admin"),
    Row(MOUNT + "_now", "/federation/mounts/{mount}/_now", "302 404 404 404 404 200 302 302 302 302 302",
        headers=HTMX, word="vo-a.example", readers="admin"),
    Row(MOUNT + "fetches/", "/federation/mounts/{mount}/fetches/", "302 404 404 404 404 200 302 302 302 302 302",
        word="vo-a.example", readers="admin"),
    Row(MOUNT + "difference/", "/federation/mounts/{mount}/difference/",
        "302 404 404 404 404 200 302 302 302 302 302", word="P-A1", readers="admin"),
    Row(MOUNT + "act/", "/federation/mounts/{mount}/act/", "302 404 404 404 404 303 302 302 302 302 302", "post",
        {"step": "pause", "reason": "x"}, remakes="mount"),
    Row(MOUNT + "act/", "/federation/mounts/{mount}/act/", "302 404 404 404 404 422 302 302 302 302 302", "post",
        {"step": "unmount", "reason": "x"}, remakes="mount"),
    Row("federation/grid/", "/federation/grid/?policy=grid&entry=/physics",
        "302 404 200 200 404 200 302 302 302 302 302",
        word="<b>bob</b>", readers="pia admin dora", besides="vera 200 dora 200"),
    Row("federation/grid/grid.csv", "/federation/grid/grid.csv?policy=grid&entry=/physics",
        "302 404 200 200 404 200 302 302 302 302 302", word='"/physics/bob"', readers="pia admin dora",
        besides="vera 200 dora 200"),
    Row("federation/usage/new/", "/federation/usage/new/", FEDERATED, word="(vo-a.example)", readers="admin"),
    Row("federation/usage/new/", "/federation/usage/new/", "302 403 403 403 403 422 302 302 302 302 302", "post",
        {"step": "preview", "entry": "other:/vo-a-here", "url": "http://127.0.0.1:9/feed"}),
    Row(TAKEN, "/federation/usage/{taken}/", "302 404 404 404 404 200 302 302 302 302 302",
        word="Approve capacity", readers="admin"),
    Row(TAKEN + "fetches/", "/federation/usage/{taken}/fetches/", "302 404 404 404 404 200 302 302 302 302 302",
        word="Fetch log of site-b", readers="admin"),
    Row(TAKEN + "without/", "/federation/usage/{taken}/without/",
        "302 404 404 404 404 200 302 302 302 302 302", word="Priorities without site-b", readers="admin"),
    Row(TAKEN + "act/", "/federation/usage/{taken}/act/", "302 404 404 404 404 303 302 302 302 302 302", "post",
        {"step": "fetch"}),
    Row(PUBLISHED, "/federation/published/", FEDERATED, word="open.bob", readers="admin"),
    Row(PUBLISHED + "key/", "/federation/published/key/", FEDERATED),
    Row(PUBLISHED + "key/", "/federation/published/key/", "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"reason": "a year is over"}),
    Row(PUBLISHED + "new/", "/federation/published/new/", FEDERATED),
    Row(PUBLISHED + "new/", "/federation/published/new/", "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"policy": "grid", "entry": "/physics/alice", "name": "alice", "expires": "7"}),
    Row(PUBLISHED + "new-feed/", "/federation/published/new-feed/", FEDERATED),
    Row(PUBLISHED + "new-feed/", "/federation/published/new-feed/",
        "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"policy": "grid", "entry": "/physics/alice", "name": "alice", "capacity": "8", "keeps": "9", "expires": "24"}),
    Row(PUBLISHED_SUBTREE, "/federation/published/subtrees/open.bob/", FEDERATED, word="/physics/bob", readers="admin"),
    Row(PUBLISHED_SUBTREE, "/federation/published/subtrees/open.bob/",
        "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"name": "open.bob", "expires": "6", "is_open": "on"}),
    Row(PUBLISHED_SUBTREE + "drop/", "/federation/published/subtrees/dropped/drop/",
        "302 403 403 403 403 303 302 302 302 302 302", "post", {"reason": "no longer"}, remakes="publications"),
    Row(PUBLISHED_FEED, "/federation/published/feeds/usage.bob/", FEDERATED, word="/physics/bob", readers="admin"),
    Row(PUBLISHED_FEED, "/federation/published/feeds/usage.bob/", "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"name": "usage.bob", "capacity": "9", "keeps": "9", "expires": "24"}, remakes="publications"),
    Row(PUBLISHED_FEED + "drop/", "/federation/published/feeds/dropped/drop/",
        "302 403 403 403 403 303 302 302 302 302 302", "post", {}, remakes="publications"),
    # --- Pages of core-hours
    Row("me/accounts/claim/", "/me/accounts/claim/", "302 303 303 303 303 303 302 302 302 302 302", "post",
        {"namespace": "a", "user_name": "zz"}),
    Row("me/accounts/withdraw/", "/me/accounts/withdraw/", "302 404 404 404 404 404 302 302 302 302 302", "post",
        {"claim": "{claim}"}, remakes="claim"),
    Row(NODE + "/_members", "/policy/grid/n/{physics}/_members", "302 404 200 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="vera 200 dora 200"),
    Row(NODE + "/_adjustments", "/policy/grid/n/{bob}/_adjustments", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200"),
    # --- Pages: which account counts where (pia's rule is the last one; bob's account is attached by her)
    Row(ACCOUNTS, "/policy/grid/mappings/", "302 404 403 200 200 200 302 302 302 302 302", word="pia-secret",
        readers="pia admin", besides="dora 200 vera 403"),
    Row(ACCOUNTS + "_unmapped", "/policy/grid/mappings/_unmapped", "302 404 403 200 200 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200 vera 403"),
    Row(ACCOUNTS + "_rules", "/policy/grid/mappings/_rules", "302 404 403 200 200 200 302 302 302 302 302",
        word="pia-secret", readers="pia admin", headers=HTMX, besides="dora 200 vera 403"),
    Row(ACCOUNTS + "rule/", "/policy/grid/mappings/rule/?rule={rule_at}",
        "302 404 403 200 404 200 302 302 302 302 302", besides="dora 404 vera 403"),
    Row(ACCOUNTS + "rule/", "/policy/grid/mappings/rule/", "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"rule": "{rule_at}", "kind": "glob", "user": "x*", "entry": "/physics", "step": "preview"}, remakes="mapping",
        besides="dora 404 vera 403"),
    Row(ACCOUNTS + "rule/", "/policy/grid/mappings/rule/", "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"rule": "{rule_at}", "kind": "glob", "user": "*", "entry": "/physics", "step": "preview"}, remakes="mapping",
        word="carol", readers="admin", besides="dora 404 vera 403"),
    Row(ACCOUNTS + "order/", "/policy/grid/mappings/order/", "302 404 403 303 404 303 302 302 302 302 302", "post",
        {"rule": "{rule_at}", "way": "remove", "step": "save", "reason": "try", "version": "{mapping}"},
        remakes="mapping", besides="dora 404 vera 403"),
    Row(ACCOUNTS + "assign/", "/policy/grid/mappings/assign/", "302 404 403 303 404 303 302 302 302 302 302", "post",
        {"place": "{account_of_alice}:{bob}", "step": "save", "reason": "try", "version": "{mapping}"},
        remakes="mapping", besides="dora 422 vera 403"),
    Row(ACCOUNTS + "detach/", "/policy/grid/mappings/detach/", "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"account": "{account_of_bob}", "step": "preview"}, remakes="attachment", besides="dora 200 vera 403"),
    Row(ACCOUNTS + "versions/", "/policy/grid/mappings/versions/", "302 404 403 200 200 200 302 302 302 302 302",
        besides="dora 200 vera 403"),
    Row(ACCOUNTS + "versions/<int:number>/", "/policy/grid/mappings/versions/{mapping}/",
        "302 404 403 200 404 200 302 302 302 302 302", besides="dora 404 vera 403"),
    Row(ACCOUNTS + "versions/<int:number>/", "/policy/grid/mappings/versions/{mapping_before}/",
        "302 404 403 303 404 303 302 302 302 302 302", "post", {"step": "save", "reason": "x", "version": "{mapping}"},
        remakes="mapping", besides="dora 404 vera 403"),
    Row(MEMBERS, "/policy/grid/members/{physics}/", "302 404 200 200 404 200 302 302 302 302 302",
        word="a:bob", readers="pia admin", besides="vera 200 dora 200"),
    Row(MEMBERS + "rules/", "/policy/grid/members/{physics}/rules/",
        "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"rule": "new", "group": "g", "shares": "1", "kind": "user", "seen": seen_tag(()), "step": "preview"},
        besides="vera 403 dora 200"),
    Row(MEMBERS + "rules/", "/policy/grid/members/{physics}/rules/",
        "302 404 403 200 404 200 302 302 302 302 302", "post",
        {"rule": "new", "group": "*", "shares": "1", "kind": "user", "seen": seen_tag(()), "step": "preview"},
        word="carol", readers="admin", besides="vera 403 dora 200"),
    Row(MEMBERS + "attach/", "/policy/grid/members/{physics}/attach/",
        "302 404 403 303 404 303 302 302 302 302 302", "post",
        {"namespace": "a", "user_name": "bob", "group_name": "physics", "entry": "{bob}", "reason": "x"},
        besides="vera 403 dora 403"),
    Row(MEMBERS + "detach/", "/policy/grid/members/{physics}/detach/",
        "302 404 404 303 404 303 302 302 302 302 302", "post", {"attachment": "{attachment}"}, remakes="attachment",
        besides="dora 303"),
    Row(MEMBERS + "claim/", "/policy/grid/members/{physics}/claim/",
        "302 404 404 303 404 303 302 302 302 302 302", "post", {"claim": "{claim}", "step": "refuse"}, remakes="claim",
        besides="dora 303"),
    Row("policy/<slug:policy>/charges/", "/policy/grid/charges/?account=bob",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora"),
    Row("policy/<slug:policy>/charges/_rows", "/policy/grid/charges/_rows?job=1",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/alice", readers="alice pia admin", headers=HTMX),
    Row("policy/<slug:policy>/charges/table.csv", "/policy/grid/charges/table.csv?job=1",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/alice", readers="alice pia admin"),
    Row("policy/<slug:policy>/charges/<int:record>/", "/policy/grid/charges/{record}/",
        "302 404 200 200 404 200 302 302 302 302 302", word="/physics/alice", readers="alice pia admin"),
    Row("policy/<slug:policy>/adjustments/<uuid:uid>/", "/policy/grid/adjustments/{bob}/",
        "302 404 404 200 404 200 302 302 302 302 302", besides="dora 200"),
    Row("policy/<slug:policy>/adjustments/<uuid:uid>/", "/policy/grid/adjustments/{bob}/",
        "302 404 404 200 404 200 302 302 302 302 302", "post",
        {"direction": "back", "amount": "1", "resource": "cpu_s", "day": "2026-11-19", "step": "preview"},
        besides="dora 403"),
    Row("policy/<slug:policy>/adjustments/<uuid:uid>/_preview",
        "/policy/grid/adjustments/{bob}/_preview?direction=back&amount=1&resource=cpu_s&day=2026-11-19",
        "302 404 404 200 404 200 302 302 302 302 302", headers=HTMX, besides="dora 403"),
    Row("usage/sources/", "/usage/sources/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("usage/sources/<slug:slug>/", "/usage/sources/cluster-a/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("usage/sources/new/", "/usage/sources/new/?kind=command", "302 403 403 403 403 200 302 302 302 302 302"),
    Row("usage/sources/new/", "/usage/sources/new/?kind=push", "302 403 403 403 403 422 302 302 302 302 302", "post",
        {"name": ""}),
    Row(SOURCE + "settings/", "/usage/sources/cluster-a/settings/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row(SOURCE + "settings/", "/usage/sources/cluster-a/settings/", "302 403 403 403 403 422 302 302 302 302 302",
        "post", {"name": ""}),
    Row(SOURCE + "pause/", "/usage/sources/cluster-a/pause/", "302 403 403 403 403 303 302 302 302 302 302", "post"),
    Row(SOURCE + "resume/", "/usage/sources/cluster-a/resume/", "302 403 403 403 403 303 302 302 302 302 302", "post"),
    Row(SOURCE + "collect/", "/usage/sources/cluster-a/collect/", "302 403 403 403 403 409 302 302 302 302 302",
        "post"),
    Row(SOURCE + "_collecting", "/usage/sources/cluster-a/_collecting", "302 200 200 200 200 200 302 302 302 302 302",
        headers=HTMX),
    Row("usage/quality/changed.csv", "/usage/quality/changed.csv",
        "302 200 200 200 200 200 302 302 302 302 302"),
    Row("usage/overlaps/", "/usage/overlaps/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("usage/overlaps/decide/", "/usage/overlaps/decide/", "302 403 403 403 403 422 302 302 302 302 302", "post"),
    Row("usage/import/", "/usage/import/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row(IMPORT + "/undo/", "/usage/imports/{import_id}/undo/", "302 404 404 404 404 303 302 302 302 302 302", "post"),
    Row(IMPORT + "/", "/usage/imports/{import_id}/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row(IMPORT + "/_progress", "/usage/imports/{import_id}/_progress",
        "302 404 404 404 404 200 302 302 302 302 302", headers=HTMX),
    Row(IMPORT + "/_rejected", "/usage/imports/{import_id}/_rejected",
        "302 404 404 404 404 200 302 302 302 302 302", headers=HTMX),
    Row(IMPORT + "/rejected.csv", "/usage/imports/{import_id}/rejected.csv",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row(IMPORT + "/cancel/", "/usage/imports/{import_id}/cancel/",
        "302 404 404 404 404 303 302 302 302 302 302", "post", remakes="import_id"),
    Row(IMPORT + "/confirm/", "/usage/imports/{import_id}/confirm/",
        "302 404 404 404 404 409 302 302 302 302 302", "post", remakes="import_id"),
    # --- Figures
    Row("policy/<slug:policy>/decay/figures/decay", "/policy/grid/decay/figures/decay",
        "302 200 200 200 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/decay/figures/decay.<str:form>", "/policy/grid/decay/figures/decay.csv",
        "302 200 200 200 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/live", "/policy/grid/live", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/convergence/figures/<slug:figure>", "/policy/grid/convergence/figures/over-time",
        "302 404 200 200 200 200 302 302 302 302 302", besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/convergence/figures/<slug:figure>.<str:form>",
        "/policy/grid/convergence/figures/over-time.csv?entry={bob}", "302 404 422 200 422 200 302 302 302 302 302",
        besides="dora 200 vera 422"),
    Row(NODE + "/<slug:name>/convergence/figures/<slug:figure>",
        "/policy/grid/n/{bob}/bob/convergence/figures/over-time", "302 404 404 200 404 200 302 302 302 302 302",
        besides="dora 200"),
    Row(NODE + "/<slug:name>/convergence/figures/<slug:figure>.<str:form>",
        "/policy/grid/n/{bob}/bob/convergence/figures/over-time.csv", "302 404 404 200 404 200 302 302 302 302 302",
        besides="dora 200"),
    Row("me/priority/figures/<slug:figure>", "/me/priority/figures/rank?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", word="alice", readers="alice"),
    Row("me/priority/figures/<slug:figure>.<str:form>", "/me/priority/figures/rank.csv?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", word="as_of", readers="alice"),
    Row("federation/grid/figures/flow", "/federation/grid/figures/flow?policy=grid&entry=/physics",
        "302 404 200 200 404 200 302 302 302 302 302", word="bob", readers="pia admin dora",
        besides="vera 200 dora 200"),
    Row("federation/grid/figures/flow.<str:form>", "/federation/grid/figures/flow.csv?policy=grid&entry=/physics",
        "302 404 200 200 404 200 302 302 302 302 302", word='"bob"', readers="pia admin dora",
        besides="vera 200 dora 200"),
    # --- The editor: one group as bars, the effect of a draft, and the former address of the bars
    *(
        Row(EDIT + place, "/changes/{change_set}/edit" + place + "?view=bars&group={physics}",
            "302 404 404 200 404 200 302 302 302 302 302", word="bob", readers="pia admin", headers=HTMX)
        for place in ("/", "/_group")
    ),
    Row(EDIT + "/_effect", "/changes/{change_set}/edit/_effect?group={physics}",
        "302 404 404 200 404 200 302 302 302 302 302", word='"on_target"', readers="pia admin", headers=HTMX),
    # /physics: who sees sums only is shown no weeks, because a week may be one person's
    Row("usage/figures/coverage", "/usage/figures/coverage", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("usage/figures/coverage.<str:form>", "/usage/figures/coverage.csv",
        "302 200 200 200 200 200 302 302 302 302 302"),
    Row("policy/<slug:policy>/icicle/figures/tree", "/policy/grid/icicle/figures/tree?kind=treemap",
        "302 404 200 200 200 200 302 302 302 302 302", word='"alice"', readers="alice pia admin",
        besides="vera 200 dora 200"),
    Row("policy/<slug:policy>/icicle/figures/tree.<str:form>", "/policy/grid/icicle/figures/tree.csv",
        "302 404 200 200 200 200 302 302 302 302 302", word='"alice"', readers="alice pia admin",
        besides="vera 200 dora 200"),
    # --- REST: policies made and proposed as documents
    Row(API + "policies", "/api/v1/policies", "401 403 403 403 403 201 403 403 404 401 401", "post", {"slug": "new"}),
    Row(POLICY + "/document", "/api/v1/policies/grid/document?dry_run=1&format=csv",
        "401 403 403 403 403 200 403 403 403 401 401", "put", "path,shares\n/physics/bob,77\n", word="bob",
        readers="admin"),
    # --- REST: what was made by mistake is removed, and what is used isn't
    Row(POLICY, "/api/v1/policies/grid?reason=x", "401 403 403 403 403 409 403 403 403 401 401", "delete",
        word="open change sets", readers="admin"),
    Row(API + "usage/sources/<slug:source>", "/api/v1/usage/sources/cluster-a?reason=x",
        "401 403 403 403 403 409 403 403 403 401 401", "delete", word="hourly sums", readers="admin"),
    # --- Pages: the own password and sessions; a new password by mail
    Row("me/password/", "/me/password/", "302 200 200 200 200 200 302 302 302 302 302",
        besides="rex 200 exa 200"),  # each page names sessions of its own
    Row("sign-in/reset/", "/sign-in/reset/", "404 404 404 404 404 404 404 404 404 404 404"),
    Row("sign-in/reset/<uidb64>/<token>/", "/sign-in/reset/MQ/x/", "404 404 404 404 404 404 404 404 404 404 404"),
    # --- What is used is archived and restored: REST and pages, for administrators
    Row(POLICY + "/archive", "/api/v1/policies/grid/archive",
        "401 403 403 403 403 200 403 403 403 401 401", "post", WHY),
    Row(POLICY + "/restore", "/api/v1/policies/grid/restore",
        "401 403 403 403 403 200 403 403 403 401 401", "post", WHY),
    Row(API + "usage/sources/<slug:source>/archive", "/api/v1/usage/sources/cluster-a/archive",
        "401 403 403 403 403 200 403 403 403 401 401", "post", WHY),
    Row(API + "usage/sources/<slug:source>/restore", "/api/v1/usage/sources/cluster-a/restore",
        "401 403 403 403 403 200 403 403 403 401 401", "post", WHY),
    Row("policy/<slug:policy>/remove/", "/policy/grid/remove/", "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"action": "archive", "reason": "x"}),
    Row(SOURCE + "remove/", "/usage/sources/cluster-a/remove/", "302 403 403 403 403 303 302 302 302 302 302", "post",
        {"action": "archive", "reason": "x"}),
    Row(POLICY + "/removal", "/api/v1/policies/grid/removal", "401 403 403 403 403 200 403 403 403 401 401",
        word="open change sets", readers="admin"),
    Row(API + "usage/sources/<slug:source>/removal", "/api/v1/usage/sources/cluster-a/removal",
        "401 403 403 403 403 200 403 403 403 401 401", word="hourly sums", readers="admin"),
    Row("policy/<slug:policy>/remove/", "/policy/grid/remove/", "302 403 403 403 403 200 302 302 302 302 302",
        word="open change sets", readers="admin"),
    Row(SOURCE + "remove/", "/usage/sources/cluster-a/remove/", "302 403 403 403 403 200 302 302 302 302 302",
        word="hourly sums", readers="admin"),
    # --- Pages: what follows
    Row("policy/<slug:policy>/tree.csv", "/policy/grid/tree.csv?level=9", "302 200 200 200 200 200 302 302 302 302 302",
        word='"bob"', readers="pia admin dora"),
    Row("policy/<slug:policy>/selection/", "/policy/grid/selection/", "302 403 403 303 404 303 302 302 302 302 302",
        "post", {"e": "{bob}", "action": "lock", "draft": "new"}, besides="dora 303"),
    Row("policy/<slug:policy>/selection/", "/policy/grid/selection/", "302 303 303 303 303 303 302 302 302 302 302"),
    Row("policy/<slug:policy>/_current", "/policy/grid/_current?e={physics}&e={bob}",
        "302 200 200 200 200 200 302 302 302 302 302", word=">bob<", readers="pia admin dora", headers=HTMX),
    Row(CHANGE + "/_followup", "/changes/{published}/_followup", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200"),
    Row(CHANGE_SET + "/followup", "/api/v1/policies/grid/changesets/{published}/followup",
        "401 404 404 200 404 200 403 200 404 401 401", besides="dora 200"),
    Row(CHANGE + "/undo/", "/changes/{published}/undo/", "302 404 404 303 404 303 302 302 302 302 302", "post", WHY,
        remakes="published", besides="dora 403"),
    # --- Search: names, by the entries that one sees (vera: groups; dora: her entry and the way there)
    Row("help/", "/help/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("help/<slug:name>/", "/help/user/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("keys/", "/keys/", "303 303 303 303 303 303 303 303 303 303 303", "post", {"keys": "off"}),
    # --- Goals: a day that is over is refused to those who see the entry; others get what doesn't exist
    Row("policy/<slug:policy>/files/against/", "/policy/grid/files/against/",
        "302 403 403 403 403 303 302 302 302 302 302"),
    Row("me/priority/_trend", "/me/priority/_trend?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX),
    Row("me/priority/_figure/<slug:name>", "/me/priority/_figure/rank?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX, word="fig-rank", readers="alice"),
    Row("me/priority/_charges", "/me/priority/_charges?policy=grid",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("me/priority/_accounts", "/me/priority/_accounts",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX, word="physics", readers="alice"),
    Row("me/priority/_back", "/me/priority/_back?policy=grid",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row("me/priority/_details", "/me/priority/_details?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX, word="physics", readers="alice"),
    Row("me/priority/_viewers", "/me/priority/_viewers?policy=grid&entry={alice}",
        "302 404 200 404 404 404 302 302 302 302 302", headers=HTMX, word="seen.", readers="alice"),
    *added("rights", "ROWS"),
]  # fmt: skip


def routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        here = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield here
        else:
            yield from routes(pattern, here)


def test_figure_addresses_of_pages_and_rest_have_one_pattern() -> None:
    known = set(routes(get_resolver()))
    documents = ("/pack.<str:form>", "/file.<str:form>")
    with_csv = {route for route in known if route.endswith(".<str:form>") and not route.endswith(documents)}
    assert len(with_csv) > 8
    assert {route for route in with_csv if not re.search(r"/figures/[^/]+$", route)} == set()
    named = {route for route in known if route.endswith("<slug:figure>")}
    assert {route for route in named if not route.endswith("/figures/<slug:figure>")} == set()


def living_routes() -> set[str]:
    """All but those of the administration, which are for administrators."""
    return {route for route in routes(get_resolver()) if not route.startswith("admin/")}


def test_every_route_has_its_row() -> None:
    assert living_routes() == {row.route for row in ROWS}


def answer_text(answer: Any) -> str:
    body: bytes = answer.getvalue() if answer.streaming else answer.content
    return FORM_TOKEN.sub("TOKEN", body.decode(errors="replace"))


def is_private(answer: Any) -> bool:
    """Whether caches are asked to keep nothing of it, and to give no user what another got."""
    varies = {name.strip() for name in answer.get("Vary", "").split(",")}
    return bool(answer["Cache-Control"] == "private, no-store" and varies >= {"Authorization", "Cookie"})


def wanted_of(row: Row) -> dict[str, str]:
    """The status of each actor."""
    wanted, words = dict(zip(ACTORS, row.statuses.split(), strict=True)), row.besides.split()
    return wanted | dict.fromkeys(BESIDES, wanted["nobody"]) | dict(zip(words[::2], words[1::2], strict=True))


def askers_of(row: Row, *, is_deep: bool) -> tuple[str, ...]:
    """All users; where time is short, those whose answers do not follow from what others get.

    A user who is refused like one with more rights, or allowed like one with fewer, is left out. Of the people who
    get what `nobody` gets, rows take turns.
    """
    everybody = (*BESIDES, *ACTORS)
    if is_deep:
        return everybody
    wanted, named = wanted_of(row), {*row.besides.split(), *row.readers.split()}
    turn = TURNS[ROWS.index(row) % len(TURNS)]
    left_out = {name for name in BESIDES if name not in named and name not in turn}
    if "nobody" not in turn and wanted["nobody"] in (wanted["alice"], wanted["ben"]):
        left_out.add("nobody")
    if wanted["admin"] == wanted["pia"] and int(wanted["pia"]) < 300 and "pia" in row.readers.split():
        left_out.add("admin")
    if wanted["alice"] == wanted["ben"] and "alice" not in named and "ben" not in named:
        left_out.add(("alice", "ben")[ROWS.index(row) % 2])
    return tuple(actor for actor in everybody if actor not in left_out)


def differences(world: World, row: Row, *, is_deep: bool) -> list[str]:
    """What is other than the row says."""
    answers = ask_each(world, row, askers_of(row, is_deep=is_deep))
    wanted, words = wanted_of(row), row.besides.split()
    found = [
        f"{row.method} {row.path}: {actor} gets {answer.status_code}, not {wanted[actor]}"
        for actor, answer in answers.items()
        if str(answer.status_code) != wanted[actor]
    ]
    word = row.word.format(**world.objects)
    readers = {actor for actor, answer in answers.items() if word and word in answer_text(answer)}
    if readers != answers.keys() & row.readers.split():
        found.append(f"{row.method} {row.path}: {word!r} is read by {sorted(readers)}, not {row.readers}")
    if row.method == "get" and row.path.partition("?")[0] not in PUBLIC:
        found += [
            f"{row.path}: a cache may keep what {actor} gets" for actor in answers if not is_private(answers[actor])
        ]
    if row.method == "get" and "nobody" in answers:
        stranger = OWN_MARKS.sub("", answer_text(answers["nobody"]))
        for actor in (answers.keys() & NO_LONGER) - {*words}:
            if OWN_MARKS.sub("", answer_text(answers[actor])) != stranger:
                found.append(f"{row.method} {row.path}: {actor} reads something else than nobody")
    return found


DECIDED_BY_BODY = {
    **dict.fromkeys((MAPPING + "/trial", MAPPING + "/rules", MAPPING + "/assignments"), "aside"),
    **dict.fromkeys((POLICY + "/grants", POLICY + "/mappings"), "alice aside"),
    MAPPING + "/rules/<int:position>": "aside",  # of the version in If-Match
    API + "policies": "aside",
    POLICY + "/changesets": "nobody alice aside",
}
READS = [row for row in ROWS if row.method == "get"]
PARTS = 8  # one world for many rows, and no test that takes minutes


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_each_actor_reads_as_the_matrix_allows(
    world: World, part: int, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    cache_navigation_counts(monkeypatch)
    is_deep = pytestconfig.getoption("deep")
    found = [line for row in READS[part::PARTS] for line in differences(world, row, is_deep=is_deep)]
    assert not found, "\n".join(found)


WRITES = [row for row in ROWS if row.method != "get"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_each_actor_writes_as_the_matrix_allows(
    world: World, part: int, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    cache_navigation_counts(monkeypatch)
    is_deep, found = pytestconfig.getoption("deep"), []
    for row in WRITES[part::PARTS]:
        refused = AuditEvent.objects.filter(outcome=AuditEvent.Outcome.REFUSED)
        n_before = refused.count()
        with roll_back(world):
            found += differences(world, row, is_deep=is_deep)
        wanted = wanted_of(row)
        n_refused = sum(wanted[actor] == "403" for actor in askers_of(row, is_deep=is_deep))
        if (n_logged := refused.count() - n_before) < n_refused:  # a request may do several things
            found.append(f"{row.method} {row.path}: {n_logged} of {n_refused} refusals are in the audit log")
    assert not found, "\n".join(found)


def ask_each(world: World, row: Row, actors: Iterable[str]) -> dict[str, Any]:
    """The answer to each actor, who finds unused what the request consumes: it is made once."""
    if not row.remakes:
        return {actor: world.ask(row, actor) for actor in actors}
    answers = {}
    world.prepare(row)
    for actor in actors:
        with roll_back(world):
            answers[actor] = world.ask(row, actor)
    return answers


@contextmanager
def roll_back(world: World) -> Iterator[None]:
    """Undo the changes of a row: in the database, in the world and in the caches of the process."""
    made, objects, fresh = world.made, dict(world.objects), world.fresh
    with transaction.atomic(), restore_caches():
        yield
        transaction.set_rollback(True)
    world.made, world.objects, world.fresh = made, objects, fresh


@pytest.mark.parametrize("actor", [actor for actor in ACTORS if actor != "admin"])
def test_the_admin_site_is_for_administrators(world: World, actor: str) -> None:
    for route in routes(get_resolver()):
        if route.startswith("admin/") and "<" not in route and "^" not in route and "(" not in route:
            answer = world.client(actor).get(f"/{route}")
            is_door = route == "admin/login/"  # leads to the sign-in of all, or says that there is nothing here
            assert answer.status_code in ((302, 404) if is_door else (200, 302)), route
            if answer.status_code == 200:
                assert route in ("admin/jsi18n/", "admin/logout/"), route


def test_without_the_right_an_own_draft_is_readable_but_not_publishable(world: World) -> None:
    exa, where = world.client("exa"), f"/api/v1/policies/grid/changesets/{world.left_open.pk}"
    for step, status in (("publish", 404), ("approve", 404)):
        answer = exa.post(f"{where}/{step}", content_type=JSON)
        assert answer.status_code in (403, status), (step, answer.content)
    own = exa.get(where)
    assert own.status_code == 200
    effect = json.loads(own.content)["effect"]
    assert "alice" not in answer_text(own), "what would follow for others is no longer hers to read"
    assert effect["n_outside_view"]


HIDDEN = [
    ("/api/v1/policies/{}/tree", "other-policy", "no-policy"),
    ("/api/v1/policies/grid/tree?path={}", "/physics/bob", "/physics/nothing"),
    ("/api/v1/policies/grid/priorities?account={}", "bob", "xyz"),
    ("/api/v1/policies/grid/explain?account={}", "bob", "xyz"),
    ("/api/v1/policies/grid/changesets/{}", "{change_set}", "999999"),
    ("/changes/{}/", "{change_set}", "999999"),
    ("/changes/{}/effect/", "{change_set}", "999999"),
    ("/changes/{}/back-test/", "{change_set}", "999999"),
    ("/api/v1/runs/{}", "{run}", "999999"),
    ("/api/v1/publications/{}", "physics", "biology"),
    ("/policy/grid/n/{}/", "{bob}", "00000000-0000-4000-8000-000000000000"),
    ("/policy/grid/n/{}/bob/", "{bob}", "00000000-0000-4000-8000-000000000000"),
    ("/usage/imports/{}/", "{import_id}", "999999"),
    *added("rights", "HIDDEN"),
]


@each_case(("path", "hidden", "missing"), HIDDEN)
@each_case("actor", ["nobody", "ben"])
def test_hidden_publications_are_answered_like_unknown_ones(
    world: World, actor: str, path: str, hidden: str, missing: str
) -> None:
    client = world.client(actor)
    names = [hidden.format(**world.objects), missing]
    answers = [client.get(path.format(name), headers={"x-request-id": "same"}) for name in names]
    assert answers[0].status_code == answers[1].status_code
    either = re.compile(
        rf"(?:(?<!\w)|(?<=%2B)|(?<=%3D))(?:{'|'.join(map(re.escape, names))})(?!\w)"
    )  # in both: one may be a short number
    texts = [either.sub("NAME", answer_text(answer)) for answer in answers]
    assert texts[0] == texts[1]


@pytest.mark.timeout(600)
def test_a_right_is_asked_before_a_body_is_parsed(world: World) -> None:
    """Where the address decides it; where entries in the body do, the body is parsed within its limits."""
    found, n_asked = [], 0
    for row in WRITES:
        if not row.route.startswith(API) or row.body is None:
            continue
        wanted = wanted_of(row)
        for actor in ("anonymous", "nobody", "alice", "narrow", "reader", "aside", "expired"):
            is_of_body = actor in (DECIDED_BY_BODY.get(row.route, "") or row.decided_by_body).split()
            if wanted[actor] in ("401", "403", "404") and not is_of_body:
                n_asked += 1
                answer = world.ask(replace(row, body=b'{"unended'), actor)
                if str(answer.status_code) != wanted[actor]:
                    found.append((row.method, row.path, actor, wanted[actor], answer.status_code))
    assert not found, "\n".join(map(str, found))
    assert n_asked > 250


def test_a_stranger_is_refused_whatever_the_body_is(world: World) -> None:
    """Who has no right anywhere gets the same for a broken body, and for one with more values than the route takes."""
    found = []
    for row in WRITES:
        if row.route.startswith(API) and row.body is not None and wanted_of(row)["nobody"] in ("403", "404"):
            if "nobody" in DECIDED_BY_BODY.get(row.route, ""):
                continue
            for body in (b'{"unended', b"[" + b"{}," * 200_000 + b"{}]"):
                answer = world.ask(replace(row, body=body), "nobody")
                if str(answer.status_code) != wanted_of(row)["nobody"]:
                    found.append((row.method, row.path, body[:9], answer.status_code))
    assert not found, "\n".join(map(str, found))


def test_a_form_from_elsewhere_is_refused_everywhere(world: World) -> None:
    """A form with the session's cookie and without a CSRF token, also at routes that read bodies raw."""
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(world.site.admin, backend="django.contrib.auth.backends.ModelBackend")
    found = []
    for row in [row for row in WRITES if row.route.startswith(API)]:
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
            path = row.path.format(**world.objects)
            answer = getattr(client, row.method)(path, b"x=1", content_type=kind)
            if answer.status_code != 403 or answer.json()["code"] != "csrf_failed":
                found.append((row.method, path, kind, answer.status_code))
    assert not found, "\n".join(map(str, found))
