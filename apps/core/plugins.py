"""Plug-ins: what an installed app adds to the core, in declared slots.

The core reads slots and imports no plug-in. A slot is a method that adds nothing unless a plug-in overrides it, and is
read in one place, which its docstring names. Plug-ins import their modules inside these methods: Django asks for the
class before it loads models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import Promise

from apps.core.plugin_loading import failures, guarded

Words = str | Promise
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True)
class Addition(Generic[Value_co]):
    """A value that a plug-in adds to an ordered table of the core. after: key of the row that it follows; without that
    one it comes last.
    """

    value: Value_co
    after: str = ""


@dataclass(frozen=True)
class PageLink:
    """A link on a page of the core to a page of the plug-in.

    place: where, such as entry.shares. is_shown: whether a page has it, from the record of the page.
    """

    place: str
    title: Words
    icon: str = ""
    is_shown: Callable[[Any], bool] = lambda page: True


@dataclass(frozen=True)
class EntryCard:
    """A card on the page of an entry or on *My jobs*. Its content is a fragment that follows the page.

    link: to it, without scripts. n_rows: of `policy_slug`, `actor` and `at`, the rows that it will have on *My jobs*,
    where its place is kept until it comes.
    """

    anchor: str
    title: Words
    link: Words
    n_rows: Callable[..., int] = lambda **_reader: 0


@dataclass(frozen=True, slots=True)
class ReviewCard:
    """A card below the tabs of a change set's review. Its content is a fragment that follows the page.

    link: to it, without scripts. is_shown: whether a review has it, from its `ReviewPage`.
    """

    anchor: str
    title: Words
    link: Words
    is_shown: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A part of a page of others. template: drawn with `part`, which is the context."""

    template: str
    context: Mapping[str, Any]


class PluginConfig(AppConfig):
    """The app of a plug-in. Its `urls` hold `urlpatterns` (pages and fragments) and `rest` (below /api/v1).

    requires: names of the apps of plug-ins whose code it uses. extends: of those whose slots it fills while they are
    installed.
    """

    default = False  # Django looks for one class in `apps`, and this one is imported there

    requires: ClassVar[Sequence[str]] = ()
    extends: ClassVar[Sequence[str]] = ()

    def import_models(self) -> None:
        """Load its models; before that, refuse what it requires and isn't installed, whose models couldn't be loaded.

        Raises:
            ImproperlyConfigured: naming both.
        """
        with guarded(self.name):
            for name in self.requires:
                if not apps.is_installed(name):
                    raise ImproperlyConfigured(
                        f"{self.name} requires {name}, which is not installed: install it, or leave {self.name} out."
                    )
            super().import_models()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.default = True

    def metrics(self) -> Iterable[Any]:
        """Metric families of /metrics. Read by `pages.monitoring.exposition`."""
        return ()

    def degradations(self) -> Iterable[Mapping[str, str]]:
        """What limits the site now: code, subject and message of each. Read by
        `pages.monitoring.degradations`, for /readyz.
        """
        return ()

    def attention_items(self, *, view: Any, at: datetime, actor: Any) -> Iterable[Any]:
        """What needs attention on the overview of a policy, whose `PolicyView` is given: `AttentionItem` of
        `pages.overview.attention`, which reads them.
        """
        return ()

    def inbox_items(self, *, at: datetime, actor: Any) -> Iterable[Any]:
        """What waits for the actor's decision in the plug-in, and what the actor has sent: `InboxItem` of
        `pages.group.inbox.items`, which reads them.
        """
        return ()

    def level_figures(self, *, view: Any, i: int, at: datetime, actor: Any) -> Iterable[Any]:
        """Figures beside the sentence about a group on the home, at index i of a `PolicyView`: `LevelFigure` of
        `pages.overview.verdict`, which reads them.
        """
        return ()

    def rank_uses(self, *, policy_slug: str, uid: UUID | None) -> Iterable[Any]:
        """Where something that orders jobs doesn't use the ranks of a policy, or of one entry: `Message` of
        `priorities.sentences`. Read by `web.texts.rank_use`, for pages and answers that show ranks.
        """
        return ()

    def settings_advice(self, *, policy_slug: str, at: datetime, actor: Any) -> Iterable[Any]:
        """What is advised about the settings of a policy: `SettingsAdvice` of `pages.algorithm.advice`, which reads
        them for the page of the algorithm.
        """
        return ()

    def waits_if_published(self, *, policy: Any, tree: Any, settings: Any, at: datetime) -> Iterable[DrawnPart]:
        """How long jobs that wait now would wait if a tree and settings were published. Read by `web.tried_waits`, for
        readers who see all numbers of the policy.
        """
        return ()

    def setup_steps(self, *, policy: Any) -> Iterable[Any]:
        """Further steps of setting up a site, for administrators, from what is there: `AttentionItem` of kind SETUP of
        `pages.overview.attention`, which reads them. policy: `Policy`, or None before the first one.
        """
        return ()

    def audit_sentences(self) -> Mapping[str, Words]:
        """Sentences of the audit log by verb, with %(what)s. Read by `pages.audit.text`."""
        return {}

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        """Labels of the first parts of verbs, among the topics of `pages.audit.text`, which reads them."""
        return {}

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        """Tables that refer to people or accounts, by label: `Section` of `accounts.about_person`, which reads them."""
        return {}

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        """Links on pages of the core, by route name. Read by `web.templatetags.plugin_parts`."""
        return {}

    def entry_cards(self) -> Mapping[str, EntryCard]:
        """Cards on the page of an entry, by the route name of the fragment. Read by `web.templatetags.plugin_parts`."""
        return {}

    def job_cards(self) -> Mapping[str, EntryCard]:
        """Cards on *My jobs*, by the route name of the fragment, whose parameter is the policy. Read by
        `web.templatetags.plugin_parts`.
        """
        return {}

    def review_cards(self) -> Mapping[str, ReviewCard]:
        """Cards on the review of a change set, by the route name of the fragment. Read by
        `web.templatetags.plugin_parts`.
        """
        return {}

    def my_priority_cards(self) -> Iterable[Any]:
        """Cards of *My priority*: `MyCard` of `pages.my_priority.cards`, which reads them."""
        return ()

    def my_figures(self) -> Mapping[str, Any]:
        """Figures of *My priority* by name: `MyFigure` of `pages.my_priority.own_figures`, which reads them."""
        return {}

    def queue_changed(self, scheduler: Any, before: Any, now: Any) -> None:
        """Follow a new listing of a scheduler's queue, in the transaction that stores it: the `Scheduler` and two
        `QueueState`s, the first of them None for a first listing. Called by `contrib.schedulers.queue_changes`.
        """

    def names_hidden(self, names: Mapping[tuple[str, str], str]) -> None:
        """Replace user names by their pseudonyms wherever the plug-in keeps them, in the caller's transaction: by
        namespace and name, those that no account carries any more. Called by `priorities.pseudonyms`.
        """

    def account_facts(self, priority: Any, *, actor: Any, at: datetime) -> Mapping[str, Any]:
        """Fields of `AccountFacts` about an account of the actor now. Read by `pages.my_priority.facts`."""
        return {}

    def start_answers(self, scheduler: Any, jobs: Sequence[str], *, at: datetime) -> Mapping[str, Any]:
        """When waiting jobs of a `Scheduler` start, by number: `JobStart` of `explain.job_starts`. Read by
        `schedulers.job_starts`, for those who may see these jobs.
        """
        return {}

    def new_job_start(self, account: Any, *, core_h: float, actor: Any, at: datetime) -> Any:
        """When a job that the actor submits now under a `MyPriority` starts: `NewJobStart` of `explain.job_starts`,
        which reads it, or None. core_h: its size in hours of the policy's metric.
        """
        return None

    def projections(self, *, view: Any, uids: Sequence[UUID]) -> Mapping[UUID, Any]:
        """When entries of a `PolicyView` will be on target, by uid, all in one pass: `Projection` of
        `priorities.projections`, which reads them.
        """
        return {}

    def draft_projections(self, *, view: Any, rows: Sequence[Any]) -> Mapping[UUID, Any]:
        """When entries of a `DraftView` will be on target, by uid, for its `DraftRow`s: `DraftProjection` of
        `priorities.projections`, which reads them.
        """
        return {}

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        """Kinds of notices by name: `Kind` of the plug-in of notices, which reads them in its `kinds`."""
        return {}

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        """Tabs in the navigation, by the names of their routes: `Tab` of `web.shell.places`, which reads them."""
        return {}

    def frame_parts(self) -> Mapping[str, str]:
        """Templates for signed-in users on every page: in the topbar or at the end. Read by `web.shell.navigation`."""
        return {}

    def guides(self) -> Mapping[str, Addition[Any]]:
        """Guides to its pages, by their titles: `Guide` of `web.links.guides`, which reads them."""
        return {}

    def command_actions(self) -> Mapping[str, Any]:
        """Actions that it adds to a command, by command and name, such as scheduler.setup: `CommandAction` of
        `core.operator_commands`, which reads them.
        """
        return {}

    def guide_routes(self) -> Mapping[str, Sequence[str]]:
        """REST methods and paths behind what it shows on pages of others, by the titles of their guides. Read by
        `web.links.guides`.
        """
        return {}

    def page_marks(self) -> Mapping[str, str]:
        """SQL of a text that changes when an open page is out of date, by the part of the page that follows it: work or
        todo. Read by `web.shell.live_state`, several times a minute for every open page.
        """
        return {}

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        """Descriptions of its tags of REST, which are the first parts of its paths. Read by `web.rest.schema`."""
        return {}

    def renamed_fields(self) -> Iterable[Any]:
        """Fields of its answers in REST that have another name now: `Renamed` of `web.rest.deprecations`, which reads
        them.
        """
        return ()

    def rest_examples(self) -> Mapping[str, Any]:
        """Bodies of its requests by operation id, as examples. Read by `web.rest.examples`."""
        return {}

    def doctor_checks(self) -> Mapping[str, Addition[Any]]:
        """Sections of `manage.py doctor` by name: `Check` of `cli.doctor.check`. Read by `cli.doctor.checks`."""
        return {}

    def body_limits(self) -> Mapping[str, Any]:
        """Largest bodies by route name, such as api:notices: `Limit` of `web.rest.body_limits`, which reads them."""
        return {}

    def early_answers(self) -> Iterable[Any]:
        """Routes answered before sessions: `EarlyAnswer` of `web.middleware.early_answers`, which reads them."""
        return ()

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        """What it adds to the sample grid, by the step that it follows: policy, decisions or priorities. Each takes the
        `SampleSite` of `cli.sample.site`. Read by `cli.sample.loading`.
        """
        return {}

    def document_sections(self) -> Mapping[str, Any]:
        """Lists in a policy document, by key: `DocumentSection` of `policies.files.sections`, which reads them."""
        return {}

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        """Periodic tasks: the dotted name of the task and its interval in seconds, by the name of the entry. Read by
        the project's `beat`.
        """
        return {}


KEYED_SLOTS = (
    "audit_sentences",
    "audit_topics",
    "personal_data",
    "page_links",
    "entry_cards",
    "job_cards",
    "review_cards",
    "my_figures",
    "notice_kinds",
    "nav_items",
    "guides",
    "command_actions",
    "rest_tags",
    "rest_examples",
    "doctor_checks",
    "body_limits",
    "document_sections",
    "schedule",
)


def plugins() -> tuple[PluginConfig, ...]:
    """Installed plug-ins in the order of INSTALLED_APPS, without those that failed."""
    return _plugins_among(tuple(apps.app_configs), tuple(failures))


@cache
def _plugins_among(labels: tuple[str, ...], failed: tuple[str, ...]) -> tuple[PluginConfig, ...]:
    """Cached, because a page reads many slots."""
    configs = (apps.get_app_config(label) for label in labels)
    return tuple(config for config in configs if isinstance(config, PluginConfig) and config.name not in failed)


def keyed(slot: str) -> dict[str, Any]:
    """What the installed plug-ins add to a slot of KEYED_SLOTS, by key. Of two with one key the first stays."""
    added: dict[str, Any] = {}
    for plugin in plugins():
        added |= {key: entry for key, entry in getattr(plugin, slot)().items() if key not in added}
    return added


def with_additions(rows: Mapping[str, Value], slot: str) -> dict[str, Value]:
    """A table of the core with what plug-ins add to it, each behind the row that it names."""
    added, table = keyed(slot), dict[str, Value]()
    followers: dict[str, list[str]] = {}
    for key, each in added.items():
        followers.setdefault(each.after if each.after in rows or each.after in added else "", []).append(key)

    def place(key: str, value: Value) -> None:
        table[key] = value
        for follower in followers.get(key, ()):
            place(follower, added[follower].value)

    for key, value in rows.items():
        place(key, value)
    for key in followers.get("", ()):
        place(key, added[key].value)
    return table


def route_modules() -> Iterator[ModuleType]:
    """The `urls` of each plug-in that has some."""
    for plugin in plugins():
        name = f"{plugin.name}.urls"
        module = None
        with guarded(plugin.name):
            module = import_module(name) if find_spec(name) is not None else None
        if module is not None:
            yield module
