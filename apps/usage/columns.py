"""Columns that several tables of usage share: the version of a record, its job, and the sums of an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from apps.usage.parsers.base import STATES


class Int4ForeignKey(models.ForeignKey[Any, Any]):
    """A reference of 4 bytes, for tables of many rows. Larger ids are refused, and a trigger replaces the key."""

    def db_type(self, connection: Any) -> str:
        return "integer"


if TYPE_CHECKING:
    StringField = models.Field[str, str]
else:
    StringField = models.Field


class StateField(StringField):
    """The state of a record, by name; stored in two bytes as its place in STATES."""

    def db_type(self, connection: Any) -> str:
        return "smallint"

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return STATES.index(value) if isinstance(value, str) else value

    def from_db_value(self, value: int | None, *_: Any) -> str | None:
        return None if value is None else STATES[value]


class RecordVersion(models.Model):
    """Key, revision and state of a version of a record."""

    class State(models.TextChoices):
        PENDING = "pending", "Waiting to start"
        RUNNING = "running", "Running"
        FINISHED = "finished", "Finished"
        WITHDRAWN = "withdrawn", "Withdrawn"  # stored so that an old copy isn't counted again

    cluster = models.CharField(max_length=128, blank=True, default="")
    job = models.CharField(max_length=128)
    array_task = models.CharField(max_length=64, blank=True, default="")
    submit_at = models.DateTimeField()  # the start if the source reports no submission
    restart = models.IntegerField(default=0)
    revision = models.BigIntegerField(default=0)
    state = StateField(choices=State.choices)

    class Meta:
        abstract = True


class JobColumns(RecordVersion):
    """Times and resources of a job in one version of its record.

    job_number, key_hash: of its key, for a narrow index in the order of jobs: see records/record_keys.
    """

    job_number = models.IntegerField()
    key_hash = models.BigIntegerField()
    site = models.CharField(max_length=128, blank=True, default="")
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    cpus = models.FloatField(default=0)
    gpus = models.FloatField(default=0)
    nodes = models.FloatField(default=0)
    mem_mb = models.FloatField(default=0)
    billing = models.FloatField(default=0)  # billing units per second
    requested_s = models.FloatField(null=True)
    seen_at = models.DateTimeField(null=True)  # when an open job was last reported

    class Meta:
        abstract = True


class HourAmounts(models.Model):
    """Usage in one hour, in multiples of 2⁻¹⁰."""

    cpu_s = models.FloatField(default=0)
    gpu_s = models.FloatField(default=0)
    mem_gb_s = models.FloatField(default=0)
    node_s = models.FloatField(default=0)
    billing = models.FloatField(default=0)
    jobs = models.FloatField(default=0)  # counted in the hour in which they end

    class Meta:
        abstract = True
