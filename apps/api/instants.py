"""Instants of REST: answers in UTC, questions with an offset or in the site's zone."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone
from rest_framework import serializers

from apps.core.local_time import NoSuchTime, instant_of


class UtcTimeField(serializers.DateTimeField):
    """An instant. One without offset is the site's local time: the first pass of an hour that clocks repeat; refused,
    with the two instants around it, where clocks skip it. The answer says in UTC which instant it is.
    """

    def enforce_timezone(self, value: datetime) -> datetime:
        try:
            if value.tzinfo is not None:
                return value.astimezone(UTC)
            return instant_of(value, timezone.get_current_timezone())
        except NoSuchTime as error:
            raise serializers.ValidationError(str(error), code="nonexistent_time") from error
        except OverflowError:
            self.fail("overflow")
