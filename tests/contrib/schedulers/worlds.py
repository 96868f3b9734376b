"""What a process keeps of this plug-in and a test must not see of the one before."""

from __future__ import annotations

from apps.contrib.schedulers.agent_orders import last_orders


def forget_process() -> None:
    last_orders.clear()
