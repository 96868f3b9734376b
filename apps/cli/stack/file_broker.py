"""The file broker of kombu, with messages that appear whole: a worker that reads half a message ends."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    # The two classes above name the second argument differently.
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Written beside and renamed; readers look at names that end in `<queue>.msg` only."""
        folder = self.data_folder_out
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}.{queue}.msg"
        draft = os.path.join(folder, f".{name}.part")
        with open(draft, "w", encoding="utf-8") as file:
            file.write(dumps(payload))
        os.rename(draft, os.path.join(folder, name))


class Transport(filesystem.Transport):
    Channel = Channel
