"""The reason of a removal, as a parameter of its address: a DELETE has no body."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.web import bounds


class ReasonFilterSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON)
