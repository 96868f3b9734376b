"""Listings of an agent's report as REST describes them. Services check them: a serializer takes a minute for them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.contrib.schedulers.api.json_schema import list_schema, object_schema, text_schema
from apps.contrib.schedulers.queue_table import MOST_GPU_TYPES, MOST_JOB_PRIORITIES, STATES, TERMS
from apps.contrib.schedulers.running_table import (
    MOST_ENDED_JOBS,
    MOST_LISTED_PARTITIONS,
    MOST_RESERVATIONS,
    MOST_RUNNING_JOBS,
)

_NUMBER: dict[str, Any] = {"type": "number", "nullable": True}
_WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0}
_WITH_INFINITY = {
    "oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}],
    "nullable": True,
}
_TIME = {"type": "string", "format": "date-time"}
_GPUS = {
    "type": "object",
    "additionalProperties": {"type": "number"},
    "nullable": True,
    "maxProperties": MOST_GPU_TYPES,
}
TERMS_SCHEMA = object_schema(**{str(name): {"type": "number"} for name in TERMS})
_LISTED_PRIORITY = object_schema(
    "partition qos priority", partition=text_schema(128), qos=text_schema(128), priority={"type": "number"}
)
_JOB = object_schema(
    "job user state",
    job={**text_schema(40), "minLength": 1},
    array_task={**text_schema(2_000), "nullable": True},
    user={**text_schema(256), "minLength": 1},
    group=text_schema(256),
    partition=text_schema(1_024),
    **{name: text_schema(128) for name in ("qos", "reason")},
    **{name: _NUMBER for name in ("cpus", "nodes", "limit_s", "priority", "value")},
    **{name: {**_TIME, "nullable": True} for name in ("submit_at", "eligible_at", "planned_at")},
    state={"type": "string", "enum": list(STATES)},
    terms=TERMS_SCHEMA | {"nullable": True},
    gpus=_GPUS,
    dependency={"type": "boolean", "nullable": True},
    priorities=list_schema(_LISTED_PRIORITY, MOST_JOB_PRIORITIES, nullable=True),
)
_OWN_VALUE = object_schema(
    **{name: {**text_schema(256), "nullable": True} for name in ("cluster", "group", "user")},
    raw_shares={"oneOf": [{"type": "number"}, {"type": "string", "enum": ["parent"]}], "nullable": True},
    **{name: _WITH_INFINITY for name in ("norm_shares", "raw_usage", "effective_usage", "fairshare", "level_fs")},
)
_SHARE = object_schema(
    "group user partition parent shares",
    **{name: {"type": "string"} for name in ("group", "user", "partition", "parent", "shares")},
)
_SECONDS = list_schema({**_WHOLE, "nullable": True, "description": "Seconds since 1970"}, MOST_RUNNING_JOBS)
_RUNNING = object_schema(
    "user jobs submitted started",
    **{name: text_schema(256) for name in ("user", "group")},
    partition=text_schema(1_024),
    qos=text_schema(128),
    array={**text_schema(40), "description": "Number of the array of these jobs; empty for none"},
    **{name: _NUMBER for name in ("cpus", "nodes", "limit_s")},
    gpus=_GPUS,
    jobs=list_schema(text_schema(40), MOST_RUNNING_JOBS),
    submitted=_SECONDS,
    started=_SECONDS,
)
_ENDED = object_schema(
    "job cancelled ended_at",
    job=text_schema(40),
    array=text_schema(40),
    cancelled={"type": "boolean"},
    started_at={**_TIME, "nullable": True, "description": "null: it never ran"},
    ended_at=_TIME,
)
_LISTED_PARTITION = object_schema(
    "name up cpus cpus_free nodes nodes_down nodes_drained",
    name=text_schema(128),
    up={"type": "boolean"},
    limit_s=_NUMBER,
    **{name: _WHOLE for name in ("cpus", "cpus_free", "nodes", "nodes_down", "nodes_drained")},
    **{name: _GPUS for name in ("gpus", "gpus_free")},
)
_RESERVATION = object_schema(
    "name begin_at end_at maintenance",
    **{name: text_schema(128) for name in ("name", "partition")},
    **{name: _TIME for name in ("begin_at", "end_at")},
    **{name: _NUMBER for name in ("nodes", "cpus")},
    maintenance={"type": "boolean"},
)
_QUEUE_STATE = object_schema(
    running=list_schema(_RUNNING, MOST_RUNNING_JOBS, description="Jobs of one shape together"),
    ended=list_schema(_ENDED, MOST_ENDED_JOBS),
    partitions=list_schema(_LISTED_PARTITION, MOST_LISTED_PARTITIONS, nullable=True),
    reservations=list_schema(_RESERVATION, MOST_RESERVATIONS, nullable=True),
    omitted={**_WHOLE, "description": "Number of jobs that the agent left out"},
)


class _Unchecked(serializers.JSONField):
    """Validated by `apps.contrib.schedulers` in one pass, because a serializer takes a minute for 50,000 jobs."""

    def to_internal_value(self, data: Any) -> Any:
        return data


@extend_schema_field(list_schema(_JOB, 200_000, nullable=True))
class QueueField(_Unchecked):
    """All waiting jobs."""


@extend_schema_field(list_schema(_OWN_VALUE, 500_000, nullable=True))
class OwnValuesField(_Unchecked):
    """Shares and usage that the scheduler computes itself."""


@extend_schema_field(_QUEUE_STATE | {"nullable": True})
class QueueStateField(_Unchecked):
    """Running and ended jobs, capacity by partition, and reservations; with a listing of the queue."""


@extend_schema_field(
    {
        "type": "object",
        "properties": {"cluster": {"type": "string"}, "rows": list_schema(_SHARE, 200_000)},
        "nullable": True,
    }
)
class SharesField(_Unchecked):
    """All associations of the cluster, or all nodes of the share tree."""
