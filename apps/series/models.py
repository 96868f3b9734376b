"""Tables of the daily and hourly series. All rows are derived and can be rebuilt."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.core.derived_state import in_tables

DERIVED_STATE = (
    in_tables(
        "Series",
        "SeriesSlot",
        "SeriesDay",
        "SeriesTile",
        holds="usage, targets and demand by day",
        key=(
            "policy, day; layout, zone, engine, mapping, people, head, watermarks, sources and their namespaces, "
            "fallbacks"
        ),
        inputs="buckets, jobs' waiting times, revisions, mapping",
        range="from the first day to the last that ended by the believed clock",
        ends="days from the earliest change of an input on are built again; days to come are dropped",
    ),
    in_tables(
        "SeriesHour",
        "SeriesHourTile",
        holds="usage, targets and demand by hour",
        key="as days",
        inputs="as days",
        range="the last seven days",
        ends="as days; older hours are deleted when newer ones are built",
    ),
    in_tables(
        "ChangeSetBackTest",
        holds="past days under a change set",
        key="change set; digest of its operations, head, last day, inputs of the days",
        inputs="those of the days, the draft's tree and settings",
        range="the days that were asked for",
        ends="another key makes it stale, and it says so",
    ),
)


class Series(models.Model):
    """How far the series of a policy are built, and from which inputs.

    `inputs`: the inputs of all days before `redo_from_on`; days from there on must be rebuilt. `n_slots`: number of
    entries that have a slot in the tiles. `carry`: past usage by account and source at the end of the last complete
    build, with the watermarks that it is of, from which the next build continues (see series.builder.CarriedSums).
    """

    goes_with_owner: ClassVar[bool] = True

    policy = models.OneToOneField(
        "policies.Policy", on_delete=models.CASCADE, primary_key=True, related_name="daily_series"
    )
    first_on = models.DateField(null=True)
    through_on = models.DateField(null=True)
    redo_from_on = models.DateField(null=True)
    inputs = models.JSONField(default=dict)
    n_slots = models.PositiveIntegerField(default=0)
    carry = models.BinaryField(null=True)
    carry_digest = models.CharField(max_length=64, blank=True, default="")
    built_at = models.DateTimeField(null=True)
    # The hourly series of the last seven days; hours before `hours_through_at` were built from `hours_inputs`.
    hours_from_at = models.DateTimeField(null=True)
    hours_through_at = models.DateTimeField(null=True)
    hours_inputs = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"daily series of {self.policy_id} through {self.through_on}"


class ChangeSetBackTest(models.Model):
    """The last computed back-test of an open change set: a packed `back_test.BackTest`.

    It is current while the change set (digest_of: its operations and base) and the last day are those it was computed
    for, and `inputs.holds` of the inputs (`inputs.read_inputs`) up to the end of that day: no other head, mapping or
    engine, and no change of usage before. inputs: empty in rows of before they were stored.
    """

    change_set = models.OneToOneField(
        "policies.ChangeSet", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    digest_of = models.CharField(max_length=64)
    head_number = models.PositiveIntegerField()
    through_on = models.DateField()
    inputs = models.JSONField(default=dict)
    computed_at = models.DateTimeField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"back-test of change set {self.change_set_id}"


class SeriesSlot(models.Model):
    """The column of an entry in the tiles. Siblings first seen together are adjacent. Written by COPY."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    uid = models.UUIDField()
    slot = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "uid"], name="analytics_seriesslot_once")]

    def __str__(self) -> str:
        return f"{self.uid} at {self.slot}"


class SeriesDay(models.Model):
    """Values of the daily series that are one number a day."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    on = models.DateField()
    ends_at = models.DateTimeField()
    revision_number = models.PositiveIntegerField()
    is_before_first = models.BooleanField()
    root_used = models.FloatField()
    root_decayed = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "on"], name="analytics_seriesday_once")]

    def __str__(self) -> str:
        return f"{self.policy_id} on {self.on}"


class SeriesTile(models.Model):
    """The days of one month for one block of adjacent slots, as a blob of arrays (see series.daily_series)."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    month_on = models.DateField()  # its first day
    block = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "block", "month_on"], name="analytics_seriestile_once")
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} in the month of {self.month_on}, block {self.block}"


class SeriesHour(models.Model):
    """Values of the hourly series that are one number an hour; the last seven days."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    begins_at = models.DateTimeField()
    revision_number = models.PositiveIntegerField()
    is_before_first = models.BooleanField()
    root_used = models.FloatField()
    root_decayed = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "begins_at"], name="analytics_serieshour_once")]

    def __str__(self) -> str:
        return f"{self.policy_id} at {self.begins_at}"


class SeriesHourTile(models.Model):
    """The hours of one UTC day for one block of adjacent slots, in the same format as a SeriesTile."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    day_on = models.DateField()
    block = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "block", "day_on"], name="analytics_serieshourtile_once")
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} on {self.day_on}, block {self.block}"
