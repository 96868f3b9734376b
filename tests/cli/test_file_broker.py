from __future__ import annotations

import threading
from pathlib import Path

from kombu import Connection, Queue

from apps.cli.stack.file_broker import Transport
from apps.cli.stack.paths import broker_dirs
from fairshare_web import celery_app


def test_the_task_queue_uses_the_broker_with_whole_messages() -> None:
    with celery_app.connection() as connection:
        if connection.transport_cls == "filesystem":
            assert isinstance(connection.transport, Transport)


def test_messages_are_read_completely(tmp_path: Path) -> None:
    """A reader that takes whatever is there never fails, and gets every message once."""
    options = {**broker_dirs(tmp_path), "polling_interval": 0.001}
    queue, total = Queue("celery", routing_key="celery"), 300

    def write() -> None:
        with Connection(transport=Transport, transport_options=options) as connection:
            producer = connection.Producer(serializer="json")
            for number in range(total):
                producer.publish(
                    {"number": number, "padding": "x" * 20_000}, routing_key="celery", declare=[queue], exchange=""
                )

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    with Connection(transport=Transport, transport_options=options) as connection:
        messages = connection.SimpleQueue("celery", no_ack=True)
        while len(seen) < total:
            message = messages.get(timeout=30)
            seen.append(message.payload["number"])
    writer.join()
    assert sorted(seen) == list(range(total))
    assert list((tmp_path / "broker" / "queue").iterdir()) == []
