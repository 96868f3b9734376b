from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, EntryCard, PageLink, PluginConfig, Words


class SchedulersConfig(PluginConfig):
    """Schedulers: their agents, queues, shadow mode and orders of shares."""

    name = "apps.contrib.schedulers"
    label = "schedulers"
    requires = ("apps.contrib.jobs",)
    extends = ("apps.contrib.notices",)

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from operator import attrgetter

        from apps.contrib.schedulers.selectors import count_listed_jobs
        from apps.web.shell.places import POLICY_NAMES, Size, Tab

        place = "schedulers"
        queue_size = Size(_("waiting jobs"), count_listed_jobs)
        return {
            "schedulers": Addition(
                Tab(
                    place=place,
                    label=_("Overview"),
                    title=_("Schedulers"),
                    pages=("scheduler", "scheduler-*"),
                    is_shown=attrgetter("manages"),
                )
            ),
            "job-why": Addition(
                Tab(
                    place=place,
                    label=_("Queue"),
                    names=POLICY_NAMES,
                    pages=("job-why-of",),
                    size=queue_size,
                ),
                after="schedulers",
            ),
        }

    def level_figures(self, *, view: Any, i: int, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.schedulers.level_queue import waiting_figure

        figure = waiting_figure(view.policy, view.tree.uuid(i), at=at, actor=actor)
        return () if figure is None else (figure,)

    def rank_uses(self, *, policy_slug: str, uid: UUID | None) -> Iterable[Any]:
        from apps.contrib.schedulers.rank_use import rank_use_in_policy

        return rank_use_in_policy(policy_slug, uid)

    def setup_steps(self, *, policy: Any) -> Iterable[Any]:
        from django.urls import reverse
        from django.utils.translation import gettext

        from apps.contrib.schedulers.models import Scheduler
        from apps.pages.overview.attention import setup_step

        yield setup_step(
            "scheduler",
            "server-2",
            gettext("Connect a scheduler"),
            gettext("An agent brings it the priorities of its waiting jobs."),
            reverse("pages:schedulers"),
            is_done=policy is not None and Scheduler.objects.filter(policy=policy).exists(),
        )

    def body_limits(self) -> Mapping[str, Any]:
        from apps.contrib.schedulers.share_orders import MOST_ORDER_LINES
        from apps.web.rest.body_limits import MB, Limit

        lines = Limit(4 * MB, 8 * MOST_ORDER_LINES)
        return {
            # Packed: 200,000 waiting jobs or 500,000 values of Slurm, as they fit.
            "api:scheduler-passes": Limit(4 * MB, 4_000_000),
            "api:scheduler-share-orders": lines,
            "api:scheduler-shares-take-over": lines,
        }

    def early_answers(self) -> Iterable[Any]:
        from apps.contrib.schedulers.agent_orders import EARLY

        yield EARLY

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        return {
            "prune-passes": ("apps.contrib.schedulers.tasks.prune_passes", 3600.0),
            "follow-schedulers": ("apps.contrib.schedulers.tasks.follow_schedulers", 3600.0),
        }

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.schedulers.gauges import scheduler_families

        return scheduler_families()

    def doctor_checks(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.schedulers.doctor import CHECK

        return {"agents": Addition(CHECK, after="sources")}

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.schedulers import accounts_notice, agent_notice

        return {
            agent_notice.KIND.name: Addition(agent_notice.KIND, after="recompute_failed"),
            accounts_notice.KIND.name: Addition(accounts_notice.KIND, after=agent_notice.KIND.name),
        }

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.schedulers.audit_text import SENTENCES

        return SENTENCES

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        from apps.contrib.schedulers.audit_text import TOPICS

        return TOPICS

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.accounts.about_person import section

        return {
            "schedulers.limitsettings": Addition(
                section("limits that they asked to approve", "scheduler__name requested_accounts requested_at"),
                after="federation.subscription",
            ),
        }

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"job-why": Addition(PageLink("charges.head", _("Queue"), "clock"))}

    def job_cards(self) -> Mapping[str, EntryCard]:
        from apps.contrib.schedulers.my_jobs import count_shown_jobs

        title, link = _("Place in queue"), _("Show waiting jobs")
        return {"my-waiting-jobs": EntryCard("waiting-jobs", title, link, n_rows=count_shown_jobs)}

    def my_priority_cards(self) -> Iterable[Any]:
        from apps.contrib.schedulers.pages.my_jobs import CARDS

        return CARDS

    def account_facts(self, priority: Any, *, actor: Any, at: datetime) -> Mapping[str, Any]:
        from apps.contrib.schedulers.my_jobs import load_queue_facts

        return {"queue": load_queue_facts(priority, actor=actor, at=at)}

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        from apps.contrib.schedulers.sample import connect_shadow

        return {"priorities": connect_shadow}

    def guide_routes(self) -> Mapping[str, Sequence[str]]:
        return {"My priority": ("GET me/waiting-jobs",)}

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "schedulers": Addition("Schedulers, their agents, queues and why a job waits", after="runs"),
        }

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.schedulers.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.schedulers.guides import GUIDES

        return GUIDES

    def renamed_fields(self) -> Iterable[Any]:
        from apps.contrib.schedulers.renamed_fields import RENAMED

        return RENAMED
