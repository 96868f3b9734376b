"""`manage.py start_record SOURCE`: how often promises of starts would have held on the jobs of a source."""

from __future__ import annotations

import argparse
from datetime import timedelta
from itertools import islice
from typing import Any

import orjson

from apps.accounts.actor import COMMAND
from apps.contrib.starts.prediction.log_bases import offered_of_log
from apps.contrib.starts.prediction.past_jobs import past_jobs
from apps.contrib.starts.prediction.predictor import PastPromise, of_kind, replay
from apps.contrib.starts.prediction.promises import LEVELS, Kind
from apps.contrib.starts.prediction.record import above_floor, held, held_by_burst
from apps.core import clock
from apps.core.counts import counted
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.usage.selectors import get_source

_MOST_DAYS_OF_RECORD = 400
_MOST_JOBS_WITH_QUEUE = 50_000
_MOST_JOBS_OF_RECORD = 500_000  # a few minutes, and half a gigabyte of memory


class Command(OperatorCommand):
    help = (
        "Prints how often promises such as “starts before 14:00 with 80 %%” would have held on past jobs of a source, "
        "each made by what was known at its instant"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", help="slug of the usage source")
        parser.add_argument("--days", type=int, default=90, help="days of submissions, back from now (default 90)")
        parser.add_argument(
            "--with-queue",
            action="store_true",
            help="also plan starts and train trees on the queue of each instant: minutes for 10,000 jobs",
        )
        parser.add_argument("--json", action="store_true", help="print the numbers as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["days"] <= _MOST_DAYS_OF_RECORD:
            message = f"must be from 1 to {_MOST_DAYS_OF_RECORD}"
            raise Invalid(f"--days {message}.", fields=[FieldProblem("--days", message)])
        source = get_source(slug=options["source"], actor=COMMAND)
        to_at = clock.now()
        past = past_jobs(source, from_at=to_at - timedelta(days=options["days"]), to_at=to_at)
        jobs = list(islice(past, _MOST_JOBS_OF_RECORD + 1))
        most = _MOST_JOBS_WITH_QUEUE if options["with_queue"] else _MOST_JOBS_OF_RECORD
        if len(jobs) > most:
            message = f"has more than {most:,} jobs: ask for fewer"
            raise Invalid(f"That span {message} days.", fields=[FieldProblem("--days", message)])
        if all(job.left_s == job.submit_s for job in jobs):
            days, what = counted(options["days"], "day"), "No job"
            raise Invalid(f"{what} of {source.slug} waited in the last {days}, or it doesn't report submissions.")
        promises = replay(jobs, offered=offered_of_log(jobs) if options["with_queue"] else None)
        numbers = {str(kind): _numbers(of_kind(promises, kind)) for kind in Kind}
        if options["json"]:
            self.stdout.write(orjson.dumps(numbers, option=orjson.OPT_INDENT_2).decode())
            return
        for kind, levels in numbers.items():
            self.stdout.write(f"{kind}:")
            for level in levels:
                self.stdout.write("  " + _line(level))


def _numbers(past: list[PastPromise]) -> list[dict[str, Any]]:
    """By level; shares are null without a promise that was kept or broken."""
    numbers = []
    for place, level in enumerate(LEVELS):
        by_job, by_burst = held(past, place), held_by_burst(past, place)
        numbers.append(
            {
                "level": level,
                "promises": int(by_job.n),
                "withdrawn": by_job.withdrawn,
                "held": by_job.share,
                "bursts": int(by_burst.n),
                "held_by_burst": by_burst.share,
                "held_above_floor": held_by_burst(above_floor(past, place), place).share,
            }
        )
    return numbers


def _line(level: dict[str, Any]) -> str:
    promised = f"{level['level']:.0%}"
    if level["held"] is None:
        return f"{promised}: no promise was settled"
    above = level["held_above_floor"]
    beyond = "none" if above is None else f"{above:.1%}"
    return (
        f"{promised}: {level['held']:.1%} of {counted(level['promises'], 'promise')} held, by submissions of a user "
        f"within an hour {level['held_by_burst']:.1%}, of those beyond 5 minutes {beyond}; "
        f"{level['withdrawn']} withdrawn"
    )
