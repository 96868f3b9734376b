"""The site of the rights matrix: its actors, and the objects that requests name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from io import BytesIO
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.test.client import ClientHandler

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import Account, AuditEvent, Token, User
from apps.accounts.services import NewToken, make_token, revoke_token
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount, Subscription
from apps.federation.publishing import make_publication
from apps.federation.usage_feeds.feeds import make_feed
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.mapping.attachments import attach_account
from apps.mapping.changes import AddRule, make_change
from apps.mapping.claims import claim_account
from apps.mapping.models import Attachment, Claim
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.access.delegation import tag_of
from apps.policies.models import ChangeSet, Grant
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.requests.group_division import Division, MemberTerms, divide_group
from apps.policies.requests.share_requests import RequestTerms, request_shares
from apps.policies.services import make_change_set, propose_change_set, publish_change_set
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record
from apps.usage.services import NewImport, start_import
from apps.web.shell.navigation import Shell
from tests.federation.other_side import KEY, P1, OtherFeed, OtherSide, projects, serving
from tests.federation.worlds import mount_side
from tests.grants import make_grant
from tests.instants import AT
from tests.plugin_parts import parts
from tests.small_site import Site

ISSUER = "vo-a.example"  # what the site is called where it publishes
JSON = "application/json"
# Further people. They get what `nobody` gets, unless a row says otherwise in `besides`.
BESIDES = (
    "vera",  # viewer of the whole: sees groups and their sums, and no members
    "dora",  # manager of /physics/bob: sees her entry and the way there, changes only what is below it
    "rex",  # manager of /physics, until yesterday
    "exa",  # manager of /physics in the past, with a draft that is still open
)
REFUSALS = (302, 401, 403, 404)  # 302: redirect to the sign-in form
UIDS = {"root": "/", "physics": "/physics", "bob": "/physics/bob", "alice": "/physics/alice"}
SHARES = {"op": "set_shares", "entry": "/physics/bob", "shares": 3}
# Addresses and answers that rows of several features share.
OPEN = "200 200 200 200 200 200 200 200 200 200 200"
API = "api/v1/"
POLICY = API + "policies/<slug:policy>"
NODE = "policy/<slug:policy>/n/<uuid:uid>"
EDIT = "changes/<int:change_set>/edit"
HTMX = {"HX-Request": "true"}


@dataclass
class Row:
    route: str
    path: str
    statuses: str  # in the order of ACTORS
    method: str = "get"
    body: Any = None
    word: str = ""  # only `readers` may find it in the answer
    readers: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    besides: str = ""  # "vera 200 dora 403": further people who get something of their own
    remakes: str = ""  # the maker of what an allowed request consumes: it is called again after one
    decided_by_body: str = ""  # who is refused because of what the body names: only then is it parsed for them


def cache_navigation_counts(patch: pytest.MonkeyPatch) -> None:
    """Compute the counts in the navigation once per user and policy, not once per page: for tests of access rights."""
    kept: dict[Any, Any] = {}

    def once(name: str) -> property:
        count = getattr(Shell, name).func

        def counted(shell: Shell) -> Any:
            key = (name, shell._request.user.pk, shell.policy.slug if shell.policy else "")
            if key not in kept:
                kept[key] = count(shell)
            return kept[key]

        return property(counted)

    for name in ("open_matters", "freshness"):
        patch.setattr(Shell, name, once(name))


class BareClient(Client):
    """Answers alone: Django's client also copies the context of every template, which no test reads here.

    Clients of one world share a handler, because each would load all middleware again.
    """

    def __init__(self, handler: ClientHandler, **defaults: Any) -> None:
        super().__init__(**defaults)
        self.handler = handler

    def request(self, **request: Any) -> Any:
        answer = self.handler(self._base_environ(**request))  # type: ignore[attr-defined]  # Django's own, untyped
        self.cookies.update(answer.cookies)
        return answer


class World:
    """The site, its actors, and the objects that requests name."""

    def __init__(self, site: Site) -> None:
        self.site, self.made = site, 0
        self._handler: ClientHandler | None = None
        self.fresh = ""  # the maker whose object no request has consumed yet
        whole: dict[str, Any] = {"policy_slug": "grid"}
        self.texts = {
            "narrow": site.token("priorities:read", **whole),
            "reader": site.token("policies:read", user=site.pia, **whole),
            "aside": site.token("policies:read", "policies:write", subtree_uid=site.uid("/biology"), **whole),
            "expired": site.token("admin", at=AT - timedelta(days=100), days=90),
            "revoked": site.token("admin"),
        }
        revoke_token(token_id=Token.objects.latest("id").pk, at=AT, actor=SYSTEM)
        self.people = {name: User.objects.create_user(name) for name in (*BESIDES, "guest")}
        self._grant("vera", "/", "viewer")
        self._grant("dora", "/physics/bob", "manager", reason="bob is hers")
        self._grant("rex", "/physics", "manager", expires_at=AT - timedelta(days=1))
        past = self._grant("exa", "/physics", "manager")
        exa = Actor(user=self.people["exa"], via="page")
        self.left_open = make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=[SHARES], reason="not yet"), at=AT, actor=exa
        )
        past.delete()
        self.objects: dict[str, Any] = {name: site.uid(path) for name, path in UIDS.items()} | {"run": self._run()}
        self.objects |= self._past() | {"record": Record.objects.get(job="1").pk}
        self.makers: dict[str, Callable[[], Any]] = {
            "change_set": self._change_set, "token": self._token, "import_id": self._import, "grant": self._guest,
            "no_team": self._no_team, "published": self._published, "proposed": self._proposed,
        }  # fmt: skip
        for part in parts("rights"):
            self.makers |= {name: partial(make, self) for name, make in getattr(part, "MAKERS", {}).items()}
        self.makers |= {"attachment": self._attachment, "claim": self._claim, "mapping": self._mapping}
        self.makers |= {"no_request": self._no_request, "request": self._request}
        self.makers |= {"division": self._division, "a_number": self.a_number}
        self.makers |= {"mount": self._mount}
        self._tell_others()
        self.makers |= {"subscription": self._subscription, "taken": self._taken, "publications": self._publications}
        for name, make in self.makers.items():
            self.objects[name] = make()
        people = {**self.people, **{name: getattr(site, name) for name in ("nobody", "alice", "pia", "ben", "admin")}}
        self.sessions = {name: self._session(user) for name, user in people.items()}

    def client(self, actor: str) -> Client:
        self._handler = self._handler or ClientHandler(enforce_csrf_checks=False)
        client = BareClient(self._handler, REMOTE_ADDR="192.0.2.7")
        if actor in self.texts:
            client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {self.texts[actor]}"
        elif actor != "anonymous":
            client.cookies[settings.SESSION_COOKIE_NAME] = self.sessions[actor]
        return client

    @staticmethod
    def _session(user: User) -> str:
        client = Client(REMOTE_ADDR="192.0.2.7")
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client.cookies[settings.SESSION_COOKIE_NAME].value

    def prepare(self, row: Row) -> None:
        """Make what the request consumes, unless it is there unused."""
        if row.remakes in self.makers and self.fresh != row.remakes:
            self.objects[row.remakes] = self.makers[row.remakes]()
            self.fresh = row.remakes

    def ask(self, row: Row, actor: str) -> Any:
        self.prepare(row)
        answer = self._send(row, actor)
        self.fresh = row.remakes if answer.status_code in REFUSALS else ""
        return answer

    def _send(self, row: Row, actor: str) -> Any:
        client, path = self.client(actor), row.path.format(**self.objects)
        headers, body = self._filled(row.headers), self._filled(row.body)
        if row.method == "get":
            return client.get(path, headers=headers)
        more = {"content_type": JSON} if path.startswith("/api/") else {}
        return getattr(client, row.method)(path, *([] if body is None else [body]), headers=headers, **more)

    def _filled(self, fields: Any) -> Any:
        """With the objects of this site in place of {name}."""
        if not isinstance(fields, dict):
            return fields
        return {
            self._named(key): self._named(value) if isinstance(value, str) else value for key, value in fields.items()
        }

    def _named(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: str(self.objects[match[1]]), text)

    def _grant(self, name: str, path: str, role: str, *, reason: str = "test", **more: Any) -> Grant:
        more = {"policy": self.site.policy, "at": AT - timedelta(days=9), "reason": reason, **more}
        return make_grant(self.people[name], self.site.uid(path), role, **more)

    def _guest(self) -> int:
        Grant.objects.filter(user=self.people["guest"]).delete()
        grant = self._grant("guest", "/physics/bob", "viewer", reason="given to a guest", granted_by=self.site.pia)
        self.objects |= {"seen": f'"{tag_of(grant)}"', "plain_tag": tag_of(grant)}
        return grant.pk

    def _no_team(self) -> None:
        Grant.objects.filter(people="oidc:team").delete()

    def _run(self) -> int:
        run = Run.objects.create(kind="test", subject="policy:grid", owner=self.site.pia, due_at=AT, created_at=AT)
        return run.pk

    def _change_set(self) -> int:
        """Each with a number of its own, so that publishing it always changes something."""
        self.made += 1
        pia = Actor(user=self.site.pia, via="api")
        operations = [{**SHARES, "shares": 3 + self.made}]
        return make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=operations, reason="because of bob"), at=AT, actor=pia
        ).pk

    def _request(self) -> int:
        """pia asks for more for physics; one at a time is open."""
        self._no_request()
        shares = 60.0 + self.a_number()
        pia = Actor(user=self.site.pia, via="page")
        terms, reason = RequestTerms(shares=shares), "more for physics"
        physics = self.site.uid("/physics")
        return request_shares(policy_slug="grid", entry_uid=physics, terms=terms, reason=reason, at=AT, actor=pia).pk

    def _mount(self) -> int:
        """In the other policy, which has nothing to do with the objects: version 1 is applied, version 2 is held."""
        if Mount.objects.exists():
            return Mount.objects.get().pk
        add = {"op": "add", "parent": "/", "name": "vo-a-here", "kind": "vo", "shares": 30}
        publish_operations(policy_slug="other", operations=[add], reason="a place", at=AT, actor=SYSTEM)
        side = OtherSide(at=AT)
        with serving(side):
            allowed = [f"127.0.0.1:{side.port}"]
            with override_settings(FAIRSHARE_OUTBOUND_ALLOW=allowed, FAIRSHARE_ISSUER="site.example"):
                made = mount_side(side, policy_slug="other", reason="granted", actor=SYSTEM)
                for p1 in (50, 90):
                    side.publish(projects(p1))
                    work_run_now(request_fetch(made, at=AT).pk)
        return made.pk

    def _subscription(self) -> int:
        """Usage of /physics, which is published here; nothing is asked for."""
        if (found := Subscription.objects.filter(policy=self.site.policy).first()) is not None:
            return found.pk
        return subscribe(
            policy_slug="grid", entry="/physics", url="https://site-b.example/feed", issuer="site-b.example",
            feed="usage-there", fingerprint="ab" * 32, capacity_cores=10, reason="agreed", at=AT, actor=SYSTEM,
        ).pk  # fmt: skip

    def _taken(self) -> int:
        """Usage of the mount at another site: an hour that counts, and one that is more than it has."""
        if (found := Subscription.objects.filter(policy__slug="other").first()) is not None:
            return found.pk
        feed, hour = OtherFeed(at=AT), timedelta(hours=1)
        with serving(feed):
            allowed = [f"127.0.0.1:{feed.port}"]
            with override_settings(FAIRSHARE_OUTBOUND_ALLOW=allowed, FAIRSHARE_ISSUER="site.example"):
                made = subscribe(
                    policy_slug="other", entry="/vo-a-here", url=feed.url, issuer="site-b.example", feed="vo-a",
                    fingerprint=KEY.public.fingerprint, capacity_cores=2.0, reason="granted", at=AT, actor=SYSTEM,
                )  # fmt: skip
                feed.tell({AT - 2 * hour: {P1: 3_600}, AT - 3 * hour: {P1: 36_000}}, capacity_cores=12.0)
                work_run_now(request_fetch(made, at=AT).pk)
        return made.pk

    def _publications(self) -> None:
        """What is dropped, and a feed that is changed."""
        whole: dict[str, Any] = {"policy_slug": "grid", "at": AT, "actor": SYSTEM}
        make_publication(entry="/biology", name="dropped", **whole)
        make_feed(entry="/biology", name="dropped", capacity_cores=4, **whole)
        make_feed(entry="/physics/bob", name="usage.bob", capacity_cores=4, **whole)

    def _no_request(self) -> None:
        ChangeSet.objects.filter(origin="request").update(state="withdrawn")

    def _division(self) -> int:
        """The revision in which pia divided physics."""
        wanted = Division({self.site.uid("/physics/alice"): MemberTerms(200.0 + self.a_number())})
        done = divide_group(
            policy_slug="grid", entry_uid=self.site.uid("/physics"), division=wanted, reason="divided", at=AT,
            actor=Actor(user=self.site.pia, via="page"),
        )  # fmt: skip
        assert done.revision is not None
        return done.revision.number

    def a_number(self) -> int:
        self.made += 1
        return self.made

    def _proposed(self) -> int:
        """Seen by all users with authority who sees all that it names."""
        made, pia = self._change_set(), Actor(user=self.site.pia, via="api")
        return propose_change_set(id=made, version=1, reason="submitted", at=AT, actor=pia).pk

    def _published(self) -> int:
        self.made += 1
        pia = Actor(user=self.site.pia, via="api")
        dates = {"ends_on": f"2027-03-{self.made % 28 + 1:02}"}
        new = NewChangeSet(operations=[{"op": "set_dates", "entry": "/physics/bob", "dates": dates}])
        made = make_change_set(policy_slug="grid", new=new, at=AT, actor=pia)
        pia = Actor(user=self.site.pia, via="api", address="192.0.2.99")
        publish_change_set(id=made.pk, version=1, reason="in force", at=AT, actor=pia)
        self.objects["row"] = AuditEvent.objects.latest("id").pk
        return made.pk

    def _past(self) -> dict[str, Any]:
        """Revisions 3 and 4: two people join physics; one is archived, the other moves to biology."""
        admin, names = Actor(user=self.site.admin, via="api"), ("gone", "left")
        came = [{"op": "add", "parent": "/physics", "name": name, "kind": "user"} for name in names]
        left = [
            {"op": "archive", "entry": "/physics/gone"},
            {"op": "move", "entry": "/physics/left", "parent": "/biology"},
        ]
        found: dict[str, Any] = {}
        for operations in (came, left):
            made = make_change_set(policy_slug="grid", new=NewChangeSet(operations=operations), at=AT, actor=admin)
            publish_change_set(id=made.pk, version=1, reason="people", at=AT, actor=admin)
            found = found or {name: self.site.uid(f"/physics/{name}") for name in names}
        return found

    def _mapping(self) -> int:
        """The version with which pia added the last rule; the one before is hers, too."""
        pia, policy = Actor(user=self.site.pia, via="page"), self.site.policy
        whole = Rule(kind="glob", target_uid=self.site.uid("/"), group_pattern="*", suffix="/{group}/{user}")
        set_rules(policy_slug="grid", rules=[whole], at=AT, actor=SYSTEM)
        Attachment.objects.filter(policy=policy, account__user_name="alice").delete()
        for name in ("first", "pia-secret"):
            number = make_change(
                policy_slug="grid", edit=AddRule(Rule("glob", self.site.uid("/physics"), user_pattern=f"{name}*")),
                reason="try", version=None, at=AT, actor=pia,
            )  # fmt: skip
        self.objects |= {"of_mapping": f'"{number}"', "mapping_before": number - 1, "rule_position": 3, "rule_at": 2}
        rows = Account.objects.filter(user_name__in=("alice", "bob"), group_name="physics")
        self.objects |= {f"account_of_{row.user_name}": row.pk for row in rows}
        return number

    def _attachment(self) -> int:
        """Where rules lead the account anyhow, so that no view changes by it."""
        return attach_account(
            policy_slug="grid", entry_uid=self.site.uid("/physics/bob"), account=AccountKey("a", "bob", "physics"),
            reason="bob is here", at=AT, actor=Actor(user=self.site.pia, via="page"),
        ).pk  # fmt: skip

    def _claim(self) -> int:
        guest = Actor(user=self.people["guest"], via="page")
        claim_account(namespace="a", user_name="bob", at=AT, actor=guest)
        return Claim.objects.get(user=self.people["guest"]).pk

    def _token(self) -> int:
        pia = Actor(user=self.site.pia, via="api")
        token, _ = make_token(NewToken(name="pia's own", scopes=["self:read"], user=self.site.pia), at=AT, actor=pia)
        return token.pk

    def _tell_others(self) -> None:
        whole: dict[str, Any] = {"policy_slug": "grid", "at": AT, "actor": SYSTEM}
        make_publication(entry="/physics", name="physics", **whole)
        make_publication(entry="/physics/bob", name="open.bob", is_open=True, **whole)
        make_feed(entry="/physics", name="physics", capacity_cores=10, **whole)

    def _import(self) -> int:
        line = b"1 0 0 3600 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n"
        file = BytesIO(b"; UnixStartTime: 0\n" + line)
        new = NewImport(source_slug="cluster-a", format="swf", file=file, file_name="a.swf")
        return start_import(new, at=AT, actor=Actor(user=self.site.admin, via="page")).pk
