"""A stored policy or a document names a decay function that a package brought to an earlier version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.core.errors import Invalid
from apps.engine.arrays import FloatArray
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.parameters import Settings, number
from apps.policies.files.import_export import FileImport, import_policy, plan_import
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.services import change_settings, make_change_set, publish_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.plugin_parts import added
from tests.priority_site import AS_OF, WINDOW, Site, children

PLATEAU = {"length_s": 7_776_000, "aging": "plateau", "half_life_s": 604_800, "granularity_s": 3_600, "factor": 0.5}
PLATEAU |= {"whole_d": 7.0, "fades_d": 14.0}
TREE = children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3})


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """A policy with priorities."""
    made = make_site()
    made.publish(TREE, {**WINDOW, "algorithm": {"name": "aequus"}})
    made.map()
    made.job("alice", "physics", 40)
    made.recompute()
    return made


def _plateau(age_s: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    faded = (age_s / 86_400 - settings["whole_d"]) / settings["fades_d"]
    return np.asarray(np.clip(1.0 - faded, 0.0, 1.0))


@pytest.fixture
def left(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The policy whose settings and newest priorities are those of an earlier version with the package's function."""
    parameters = number("whole_d", "Whole", 14, 0, 3650), number("fades_d", "Fades", 14, 1, 3650)
    with monkeypatch.context() as earlier:
        earlier.setitem(DECAY_FUNCTIONS, "plateau", DecayFunction("plateau", "Plateau", "x", "x", parameters, _plateau))
        change_settings(policy_slug="grid", settings={"window": PLATEAU}, reason="x", at=AS_OF, actor=COMMAND)
        site.recompute()
    site.policy.refresh_from_db()
    assert "plateau" not in DECAY_FUNCTIONS
    return site


def test_the_last_priorities_stay_until_another_function_is_chosen(left: Site) -> None:
    store.poll()
    before: object = store.newest("grid").lookup(["alice"])
    snapshot = Snapshot.objects.filter(is_live=True).latest("pk")
    left.job("bob", "physics", 3)
    run = work_run_now(queue_recompute(left.policy, at=AS_OF).pk)
    assert run.state == "failed"
    assert run.error_code == "no_decay_function"
    assert "the decay function “plateau”" in run.error
    store.poll()
    assert Snapshot.objects.filter(is_live=True).latest("pk") == snapshot
    assert store.newest("grid").lookup(["alice"]) == before
    change_settings(policy_slug="grid", settings={"window": {"aging": "none"}}, reason="x", at=AS_OF, actor=COMMAND)
    assert work_run_now(queue_recompute(left.policy, at=AS_OF).pk).state == "succeeded"


def test_its_settings_can_be_read_and_others_changed() -> None:
    read = PolicySettings.from_stored({**PolicySettings().to_json(), "window": PLATEAU})
    assert read.window == PLATEAU
    kept = PolicySettings.from_operation({"fallback_factor": 0.25}, base=read)
    assert (kept.window, kept.fallback_factor) == (PLATEAU, 0.25)
    assert PolicySettings.from_json({"fallback_factor": 0.25}, base=read) == kept
    chosen = PolicySettings.from_operation({"window": {"aging": "none"}}, base=read).window
    assert (chosen["aging"], "whole_d" in chosen) == ("none", False)
    with pytest.raises(Invalid, match="must be one of none, exponential"):
        PolicySettings.from_json({"window": {"aging": "plateau"}})


def _patterns(patterns: Any, prefix: str = "") -> list[str]:
    found = []
    for each in patterns:
        if isinstance(each, URLPattern):
            found.append(f"{prefix}{each.pattern}")
        else:
            found += _patterns(each.url_patterns, f"{prefix}{each.pattern}")
    return found


ADDED = added("unknown_decay", "ADDRESSES")
# Each needs an entry, account or period.
ASKED = (
    "/api/v1/policies/grid/explain?account=alice",
    "/api/v1/policies/grid/compare?one=alice&other=bob",
    "/api/v1/policies/grid/priorities?account=alice",
    "/policy/grid/decay/?aging=slurm",
    *(path for path, _is_refused in ADDED),
)
# They are computed by the function alone.
REFUSED = (
    "/policy/grid/decay/figures/decay",
    *(path for path, is_refused in ADDED if is_refused),
)
NAMED = "This version doesn’t have the decay function “plateau”"


@pytest.mark.deep
def test_pages_and_routes_of_the_policy_work_or_name_the_function(left: Site, client: Client, admin_user: User) -> None:
    client.force_login(admin_user)
    store.poll()
    uid = str(load_tree(left.policy).uuid(1))
    paths = {"/" + each.replace("<slug:policy>", "grid") for each in _patterns(get_resolver().url_patterns)}
    alone = {path for path in paths if "grid" in path and not re.search(r"<(?!uuid:uid>)|\^|/live$", path)}
    assert len(alone) > 40
    answers = {path: client.get(re.sub("<uuid:uid>|{uid}", uid, path)) for path in (*sorted(alone), *ASKED)}
    named = {path for path, answer in answers.items() if answer.status_code == 422 and NAMED in answer.content.decode()}
    assert named == set(REFUSED)
    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code >= 500} == {}
    page = answers["/policy/grid/decay/"].content.decode()
    assert "plateau, a decay function that this version doesn’t have" in page
    assert [path for path in added("unknown_decay", "NAMING") if NAMED not in answers[path].content.decode()] == []


def test_a_user_sees_the_last_priority(left: Site, client: Client) -> None:
    store.poll()
    client.force_login(User.objects.create_user("alice", "alice@example.org", "a long pass phrase"))
    before = store.newest("grid").lookup(["alice"])[0]
    (mine,) = client.get("/api/v1/me").json()["accounts"]
    assert mine["rank"] == before["rank"]
    own = added("unknown_decay", "NAMING_OWN")
    assert [path for path in own if NAMED not in client.get(path).content.decode()] == []


def test_its_shares_can_be_changed(left: Site) -> None:
    entry = str(load_tree(left.policy).uuid(1))
    operation = {"op": "set_shares", "entry": entry, "shares": 7}
    new = NewChangeSet(base_revision=left.policy.head_number, operations=[operation], reason="more")
    made = make_change_set(policy_slug="grid", new=new, at=AS_OF, actor=COMMAND)
    revision = publish_change_set(id=made.pk, version=made.version, reason="more", at=AS_OF, actor=COMMAND)
    assert revision.settings["window"] == PLATEAU


def _document(window: dict[str, Any], **settings: Any) -> bytes:
    root = {"name": "grid", "shares": 1, "children": TREE}
    return json.dumps({"policy": "grid", "settings": {**settings, "window": window}, "root": root}).encode()


def _file(content: bytes, format: str = "json") -> FileImport:
    return FileImport(policy_slug="grid", format=format, content=content)


IGNORED = ("settings.window (its decay function 'plateau' is unknown; the policy's window stays)",)


def test_a_document_is_read_without_its_window_which_is_named(site: Site) -> None:
    before = PolicySettings.from_json(WINDOW).window
    plan = plan_import(file=_file(_document(PLATEAU, fallback_factor=0.25)), at=AS_OF, actor=COMMAND)
    assert plan.ignored == IGNORED
    assert plan.changed_settings == ("fallback_factor",)
    assert plan.settings.window == before
    done = import_policy(file=_file(_document({"aging": "plateau"})), publish=True, reason="x", at=AS_OF, actor=COMMAND)
    assert (done.to_json()["ignored"], done.revision) == (list(IGNORED), None)


def test_a_document_of_a_policy_that_still_names_it_changes_nothing(left: Site) -> None:
    for format, text in (("json", _document(PLATEAU)), ("yaml", _document(PLATEAU))):
        plan = plan_import(file=_file(text, format), at=AS_OF, actor=COMMAND)
        assert plan.ignored == IGNORED
        assert plan.is_empty
    changed = plan_import(file=_file(_document({"aging": "lsf"})), at=AS_OF, actor=COMMAND)
    assert changed.settings.window["aging"] == "lsf"
    assert changed.ignored == ()


@pytest.mark.parametrize("aging", [7, None, ["plateau"], {}])
def test_a_decay_function_without_a_name_is_refused(site: Site, aging: object) -> None:
    with pytest.raises(Invalid, match="must be one of none, exponential"):
        plan_import(file=_file(_document({"aging": aging})), at=AS_OF, actor=COMMAND)
