"""Every field for an address, against forbidden addresses: no socket is ever connected to one.

Complete by construction: whoever else asks `outbound.fetch`, and every other field for an address, fails here until it
has a row. Pages and REST have no road outwards but the functions of these rows.
"""

from __future__ import annotations

import ast
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.apps import apps as installed
from django.conf import LazySettings
from django.db import models
from rest_framework import serializers

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import outbound
from apps.core.addresses import Refused
from apps.core.errors import DomainError
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import make_mount, preview
from apps.federation.usage_feeds.subscriptions import preview_feed, subscribe
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now
from apps.usage.models import Source
from apps.usage.sources.schedule import enqueue_collection as ask_source
from apps.usage.sources.services import change_source, set_up_source, tag_of
from tests.core.hostile_addresses import METADATA, NAMES, URLS
from tests.core.outbound_servers import Serve, answering, redirect
from tests.federation.fetches import everything, look_at
from tests.federation.other_side import KEY, OtherSide
from tests.instants import AT
from tests.plugin_parts import installed_modules, parts

APPS = Path(outbound.__file__).parent.parent
_CALL = re.compile(r"\bfetch(?:_by_socket)?\s*\(")
_FETCHES = ("fetch", "fetch_by_socket")
_ODD = ("https://[::1]:", "https://[127", "https://::1", "//")
CHOSEN = [*URLS[::2], *(url for url in URLS[1::2] if url.startswith(_ODD))]
LOOKS = {("refused", "address_refused"), ("unreachable", "unknown_host")}

# Who asks, and the test below that asks there.
_STORED = "test_a_private_address_in_the_database_is_not_fetched"
_TYPED = "test_typed_private_addresses_are_rejected_and_not_stored"
CALLERS = {
    "federation/fetch_requests.py: ask": (_STORED, _TYPED),
    "usage/sources/slurmrestd.py: _answer": ("test_a_source_with_a_private_address_is_not_fetched",),
}
# Fields for an address, and the function that fetches it. An empty word: it is shown, and never asked.
FIELDS = {
    "accounts.models: AuditEvent.address": "",  # the sender's address
    "federation.models: Remote.url": "fetch_log.ask",
    "federation.models: Mount.url": "fetch_log.ask",
    "federation.models: Subscription.url": "fetch_log.ask",
    "pages.federation.forms: url": "preview, make_mount, preview_feed, subscribe",
    "pages.audit.api: address": "",
    "web.rest.shapes: moment_url": "",  # an address of our own pages, in an answer
    "pages.federation.api.remotes: url": "",  # in an answer
    "pages.federation.api.mounts: url": "preview, make_mount",
    "pages.federation.api.subscriptions: url": "preview_feed, subscribe",
}
PART = "test_forbidden_addresses"  # of plug-ins: rows of these tables, and tests
_NAMES_OF_ADDRESSES = ("url", "uri", "address", "endpoint", "link", "webhook", "callback")


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the interpreter itself says of every connection and every name looked up, whoever asks for it."""
    monkeypatch.setattr(outbound, "look_up", _names)
    asked: list[Any] = []
    _install()
    _watchers.append(asked)
    yield asked
    _watchers.remove(asked)


_watchers: list[list[Any]] = []
_is_installed: list[bool] = []


def _install() -> None:
    if not _is_installed:
        sys.addaudithook(_hear)
        _is_installed.append(True)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Sockets of files aren't asked about; what would leave this machine is noted, and stays."""
    if not _watchers or event not in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        return
    where = arguments[1] if event == "socket.connect" else arguments[0]
    if event == "socket.connect" and not isinstance(where, tuple):
        return
    _watchers[-1].append(where[:2] if isinstance(where, tuple) else where)
    if not isinstance(where, tuple) or where[0] != "127.0.0.1":
        raise ConnectionRefusedError("nothing leaves this machine in a test")


def _names(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise socket.gaierror(host)
    return NAMES[host]


def _is_name(url: str) -> bool:
    return any(name in url for name in NAMES)


def _stored() -> tuple[Any, ...]:
    return tuple(table._default_manager.count() for table in (Mount, Subscription, Source))


def test_every_caller_of_outbound_has_a_row() -> None:
    found = set()
    for path in installed_modules():
        text = path.read_text(encoding="utf-8")
        if not _CALL.search(text):
            continue  # there is no call to find: most files are parsed for nothing
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef) and any(map(_asks, ast.walk(function))):
                found.add(f"{path.relative_to(APPS).as_posix()}: {function.name}")
    tables = [(CALLERS, globals()), *((part.CALLERS, vars(part)) for part in parts(PART) if hasattr(part, "CALLERS"))]
    assert found == {caller for callers, _module in tables for caller in callers}
    for callers, module in tables:
        assert set(chain.from_iterable(callers.values())) <= set(module)


def _asks(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return called.value.id == "outbound" and called.attr in _FETCHES
    return isinstance(called, ast.Name) and called.id in _FETCHES


def test_every_address_field_has_a_row() -> None:
    found = {
        f"{model.__module__.removeprefix('apps.')}: {model.__name__}.{field.name}"
        for model in installed.get_models()
        if model.__module__.startswith("apps.")
        for field in model._meta.get_fields()
        if isinstance(field, models.CharField | models.TextField | models.GenericIPAddressField)
        and _is_address(field.name)
    }
    for path in installed_modules("web", "pages", "contrib"):
        import_module(".".join(("apps", *path.relative_to(APPS).with_suffix("").parts)).removesuffix(".__init__"))
    for base, kept in ((forms.BaseForm, "base_fields"), (serializers.Serializer, "_declared_fields")):
        for kind in _below(base):
            if kind.__module__.startswith("apps."):
                where = kind.__module__.removeprefix("apps.")
                found |= {f"{where}: {name}" for name in getattr(kind, kept, {}) if _is_address(name)}
    assert found - set(FIELDS).union(*(part.FIELDS for part in parts(PART))) == set()
    assert {"federation.models: Mount.url", "pages.federation.forms: url"} <= found


def _is_address(name: str) -> bool:
    return any(part in _NAMES_OF_ADDRESSES for part in name.split("_"))


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _slurm(url: str) -> dict[str, Any]:
    return {"name": "S", "kind": "slurm-rest", "collecting": {"address": url}}


def check_refusals(asks: Sequence[tuple[bool, Callable[[str], object]]]) -> None:
    """Each refuses every chosen address with a message; those that don't resolve a name at once are asked no names."""
    for url in CHOSEN:
        for looks_up, ask in asks:
            if _is_name(url) and not looks_up:
                continue  # where a name leads is asked when it is connected to: see below
            with pytest.raises(DomainError) as refusal:
                ask(url)
            assert refusal.value.message, url
            collected = [refusal.value.message, *(field.message for field in refusal.value.fields)]
            assert all(len(text) < 400 and text.endswith((".", "characters")) for text in collected[:1]), (
                url,
                collected,
            )


def test_typed_private_addresses_are_rejected_and_not_stored(subscription: Subscription, connects: list[Any]) -> None:
    person = Actor(user=User.objects.create_user("ada", is_superuser=True), via="page")
    source = set_up_source(slug="slurm", new_settings=_slurm("https://slurm.example.org"), at=AT, actor=person)
    common: dict[str, Any] = {"policy_slug": "grid", "at": AT, "actor": COMMAND}
    mount: dict[str, Any] = {
        "issuer": "vo-b.example",
        "publication": "b",
        "fingerprint": KEY.public.fingerprint,
        "reason": "r",
    }
    feed: dict[str, Any] = {"issuer": "c.example", "feed": "c", "fingerprint": mount["fingerprint"], "reason": "r"}
    asks: list[tuple[bool, Callable[[str], object]]] = [  # whether a name is resolved at once
        (True, lambda url: preview(url=url, **common)),
        (True, lambda url: preview_feed(url=url, entry="/vo-a-here", **common)),
        (False, lambda url: make_mount(url=url, entry="/VO-B", **mount, **common)),
        (False, lambda url: subscribe(url=url, entry="/vo-a-here", capacity_cores=1, **feed, **common)),
        (False, lambda url: set_up_source(slug="other", new_settings=_slurm(url), at=AT, actor=person)),
        (
            False,
            lambda url: change_source(slug="slurm", tag=tag_of(source), new_settings=_slurm(url), at=AT, actor=person),
        ),
    ]
    before = _stored()
    check_refusals(asks)
    assert connects == []
    assert _stored() == before
    source.refresh_from_db()
    assert source.collecting["address"] == "https://slurm.example.org"


def test_a_private_address_in_the_database_is_not_fetched(
    mounted: Mount,
    subscription: Subscription,
    connects: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """tests/core/test_outbound.py has all addresses; here two who ask take turns where time is short."""
    step = 1 if pytestconfig.getoption("deep") else 4
    before, usage = load_tree(Policy.objects.get(slug="grid")), everything(subscription)
    remotes: tuple[Mount | Subscription, ...] = (mounted, subscription)
    for first, remote in enumerate(remotes):
        for url in CHOSEN[first % step :: step]:
            if len(url) > 2048:
                continue  # the database itself accepts none so long
            type(remote)._default_manager.filter(pk=remote.pk).update(url=url)
            remote.refresh_from_db()
            found = look_at(remote, monkeypatch, AT)
            assert (found.outcome, found.code) in LOOKS, (url, found.message)
            assert found.message.endswith("."), url
    assert connects == []
    assert load_tree(Policy.objects.get(slug="grid")).same_as(before)
    assert everything(subscription) == usage


def test_a_host_name_that_changes_to_a_private_address_is_refused(
    mounted: Mount, connects: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it is previewed, this machine when it is fetched; and never asked twice for one connection."""
    answers = [["93.184.215.14"], ["127.0.0.1"], ["8.8.8.8", METADATA]]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    monkeypatch.setattr(outbound, "look_up", rebinding)
    url = "https://rebind.example.org/vo"
    with pytest.raises(outbound.Unreachable):
        preview(url=url, policy_slug="grid", at=AT, actor=COMMAND)
    assert connects == [("93.184.215.14", 443)]
    Mount.objects.update(url=url)
    mounted.refresh_from_db()
    for n_asked in (2, 3):
        assert look_at(mounted, monkeypatch, AT).code == "address_refused"
        assert (len(asked), len(connects)) == (n_asked, 1)


@pytest.mark.parametrize("where", [f"http://{METADATA}/latest/", "http://meta.example.org/", "http://[::1]:80/"])
def test_redirects_to_private_addresses_are_not_followed(
    where: str,
    vo: OtherSide,
    mounted: Mount,
    subscription: Subscription,
    serve: Serve,
    connects: list[Any],
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = serve(answering(redirect(where)))
    url = f"http://127.0.0.1:{port}/start"
    for remote in (mounted, subscription):
        type(remote)._default_manager.filter(pk=remote.pk).update(url=url)
        remote.refresh_from_db()
        found = look_at(remote, monkeypatch, AT)
        assert (found.outcome, found.code) == ("refused", "address_refused")
    for ask in (preview, preview_feed):
        more = {"entry": "/vo-a-here"} if ask is preview_feed else {}
        with pytest.raises(Refused):
            ask(url=url, policy_slug="grid", at=AT, actor=COMMAND, **more)
    assert set(connects) == {("127.0.0.1", port)}


def test_a_source_with_a_private_address_is_not_fetched(
    db: None, connects: list[Any], settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    token = tmp_path / "slurm"
    token.write_text("secret\n")
    token.chmod(0o600)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    source = set_up_source(slug="slurm", new_settings=_slurm("https://slurm.example.org"), at=AT, actor=COMMAND)
    for url in CHOSEN:
        Source.objects.filter(pk=source.pk).update(collecting={**source.collecting, "address": url})
        run = work_run_now(ask_source(Source.objects.get(pk=source.pk), at=AT).pk)
        assert run.state != "succeeded", url
        assert run.error, url
    assert connects == []
    assert Source.objects.get(pk=source.pk).n_records == 0


def test_the_connection_spy_records_every_connection(connects: list[Any]) -> None:
    sock = socket.socket()
    with pytest.raises(ConnectionRefusedError, match="nothing leaves"):
        sock.connect((METADATA, 80))
    sock.close()
    assert connects == [(METADATA, 80)]
