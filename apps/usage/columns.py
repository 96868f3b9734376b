"""Columns that several tables of usage share: the version of a record, its job, and the sums of an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from apps.usage.parsers.base import STATES

# What a stored record holds, in SQL.
STORED_RATES = {
    "cpus": "COALESCE(cpus, 1)",
    **{name: f"COALESCE({name}, 0)" for name in ("gpus", "mem_mb", "nodes", "billing")},
}
RATE_ARRAYS = ", ".join(f"array_agg({rate})" for rate in STORED_RATES.values())


class Int4ForeignKey(models.ForeignKey[Any, Any]):
    """A reference of 4 bytes, for tables of many rows. Larger ids are refused, and a trigger replaces the key."""

    def db_type(self, connection: Any) -> str:
        return "integer"


if TYPE_CHECKING:
    StringField = models.Field[str, str]
    FloatField = models.FloatField[float, float]
    IntegerField = models.IntegerField[int, int]
else:
    StringField = models.Field
    FloatField, IntegerField = models.FloatField, models.IntegerField


class StateField(StringField):
    """The state of a record, by name; stored in two bytes as its place in STATES."""

    def db_type(self, connection: Any) -> str:
        return "smallint"

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return STATES.index(value) if isinstance(value, str) else value

    def from_db_value(self, value: int | None, *_: Any) -> str | None:
        return None if value is None else STATES[value]


class _Usual:
    """A number that is `usual` in most rows. NULL is stored for it, which takes no room; former releases stored it.

    In SQL it is COALESCE(name, usual), as in STORED_RATES.
    """

    def __init__(self, *, usual: float, **options: Any) -> None:
        self._usual = usual
        super().__init__(**{**options, "null": True, "default": 0})

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, arguments, options = super().deconstruct()  # type: ignore[misc]
        return name, path, arguments, options | {"usual": self._usual}

    def from_db_value(self, value: float | None, *_: Any) -> float:
        return self._usual if value is None else value


class UsualFloatField(_Usual, FloatField):
    """Of 8 bytes."""


class UsualIntegerField(_Usual, IntegerField):
    """Of 4 bytes."""


class UsualBigIntegerField(UsualIntegerField):
    """Of 8 bytes."""

    def get_internal_type(self) -> str:
        return "BigIntegerField"


class RecordVersion(models.Model):
    """Key, revision and state of a version of a record."""

    class State(models.TextChoices):
        PENDING = "pending", "Waiting to start"
        RUNNING = "running", "Running"
        FINISHED = "finished", "Finished"
        WITHDRAWN = "withdrawn", "Withdrawn"  # stored so that an old copy isn't counted again

    cluster = models.CharField(max_length=128, blank=True, default="", db_default="")
    job = models.CharField(max_length=128)
    array_task = models.CharField(max_length=64, blank=True, default="", db_default="")
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

    restart = UsualIntegerField(usual=0)
    revision = UsualBigIntegerField(usual=0)
    job_number = models.IntegerField()
    key_hash = models.BigIntegerField()
    site = models.CharField(max_length=128, blank=True, default="")
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    cpus = UsualFloatField(usual=1.0)
    gpus = UsualFloatField(usual=0.0)
    nodes = UsualFloatField(usual=0.0)
    mem_mb = UsualFloatField(usual=0.0)
    billing = UsualFloatField(usual=0.0)  # billing units per second
    requested_s = models.FloatField(null=True)
    seen_at = models.DateTimeField(null=True)  # when an open job was last reported
    sluid = models.BigIntegerField(null=True)  # Slurm's own number of the job, see parsers/sluids; null: none reported
    kinds = models.JSONField(null=True)  # amounts by kind of resource, see core/resource_kinds; null: it has none

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
