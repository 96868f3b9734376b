"""The project's one signal."""

from __future__ import annotations

from django.dispatch import Signal

policy_published = Signal()  # arguments: policy, revision; sent once the publish is committed
