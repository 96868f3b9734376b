from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, transaction
from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, DrawnPart, PageLink, PluginConfig, ReviewCard

_log = logging.getLogger(__name__)


class StartsConfig(PluginConfig):
    """When waiting jobs start: promises with a probability, and the record of how often they held."""

    name = "apps.contrib.starts"
    label = "starts"
    requires = ("apps.contrib.schedulers",)
    extends = ("apps.contrib.notices",)

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.starts.gauges import start_families
        from apps.contrib.starts.now.gauges import now_families

        yield from start_families()
        yield from now_families()

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.starts import record_notice

        return {record_notice.KIND.name: Addition(record_notice.KIND, after="agent_silent")}

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.starts.pages.now_tab import is_shown
        from apps.web.shell.places import POLICY_NAMES, Tab

        now = Tab(
            place="schedulers",
            label=_("Now"),
            names=POLICY_NAMES,
            is_shown=is_shown,
        )
        return {"now": Addition(now, after="job-why")}

    def review_cards(self) -> Mapping[str, ReviewCard]:
        from apps.contrib.starts.pages.draft_waits import is_shown

        card = ReviewCard("planned-waits", _("Planned waits under this draft"), _("Planned waits"), is_shown)
        return {"change-planned-waits": card}

    def waits_if_published(self, *, policy: Any, tree: Any, settings: Any, at: datetime) -> Iterable[DrawnPart]:
        from apps.contrib.starts.draft_waits.selectors import has_queues, waits_if_published
        from apps.contrib.starts.pages.draft_waits import TEMPLATE, waits_context

        if has_queues(policy):
            waits = waits_if_published(policy, tree, settings, at)
            yield DrawnPart(TEMPLATE, waits_context(waits, _("Planned waits under this variant"), at))

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"scheduler-starts": Addition(PageLink("scheduler.head", _("When jobs start"), "clock"))}

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.starts.guides import GUIDES

        return GUIDES

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        return {
            "sum-start-promises": ("apps.contrib.starts.tasks.sum_promises", 3600.0),
            "learn-start-trees": ("apps.contrib.starts.tasks.learn_start_trees", 86_400.0),
            "learn-source-waits": ("apps.contrib.starts.tasks.learn_source_waits", 86_400.0),
            "prune-start-promises": ("apps.contrib.starts.tasks.prune_promises", 86_400.0),
        }

    def start_answers(self, scheduler: Any, jobs: Sequence[str], *, at: datetime) -> Mapping[str, Any]:
        from apps.contrib.starts.answers import start_answers
        from apps.contrib.starts.sentences import start_of

        return {job: start_of(answer, at) for job, answer in start_answers(scheduler, jobs, at=at).items()}

    def new_job_start(self, account: Any, *, core_h: float, actor: Any, at: datetime) -> Any:
        """What fails here is written to the log: the ranks beside it are shown all the same."""
        from apps.contrib.starts.new_jobs import new_job_start

        try:
            return new_job_start(account, core_h=core_h, actor=actor, at=at)
        except DatabaseError:
            raise
        except Exception:
            _log.exception("When a new job would start could not be estimated")
            return None

    def names_hidden(self, names: Mapping[tuple[str, str], str]) -> None:
        from apps.contrib.starts.hidden_names import hide_names

        hide_names(names)

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.starts.hidden_names import PROMISES

        return {"starts.startpromise": Addition(PROMISES, after="schedulers.limitsettings")}

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        from apps.contrib.starts.sample import sum_record

        return {"priorities": sum_record}

    def queue_changed(self, scheduler: Any, before: Any, now: Any) -> None:
        """What fails here is written to the log and done by the next report: an agent is never refused for it."""
        from apps.contrib.starts.reports import take_queue

        try:
            with transaction.atomic():
                take_queue(scheduler, before, now)
        except DatabaseError:
            raise  # a lost connection or a deadlock: the agent sends the report again
        except Exception:
            _log.exception("Promises of starts of %s were not made", scheduler.name)
