"""The section of `manage.py doctor` about agents of schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from apps.cli.doctor.check import Check, Finding
from apps.contrib.schedulers.agent_texts import frozen_text, silent_text
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import views_of
from apps.core.code_paths import command_name
from apps.policies.models import Policy


def check_agents(at: datetime) -> Iterator[str | Finding]:
    views = views_of(Scheduler.objects.filter(policy__in=Policy.objects.all()).select_related("policy"), at)
    yield ", ".join(f"{view.scheduler.name} {view.state}" for view in views) or "no schedulers"
    for view in views:
        name, last = view.scheduler.name, view.last
        remedy = f"See its log and `{command_name('scheduler show')} {name}`; docs/schedulers.md has the agent."
        if view.is_silent:
            minutes = None if view.age_s is None else int(view.age_s // 60)
            yield Finding("agent_silent", "bad", silent_text(name, minutes), remedy)
        elif last is not None and view.state == "frozen":
            message = frozen_text(name, last.frozen_code, last.frozen_detail)
            resume = (
                f"Mend its cause; `{command_name('scheduler resume')} {name}` accepts a change: docs/schedulers.md."
            )
            yield Finding("agent_frozen", "warn", message, resume)
        elif view.state == "failing" and last is not None:
            message = f"The scheduler {name} refused {last.failed} of {last.due} values of the last pass."
            yield Finding("agent_failing", "warn", message, remedy)


CHECK = Check(check_agents)
