"""What the stack's web server serves. Its worker process imports this, and dies with the server it was forked by."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys

import django

from apps.cli.stack.parent import die_with_parent
from apps.runs.memory import share_one_heap

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

_server = multiprocessing.parent_process()
if _server is not None and _server.pid is not None:
    die_with_parent(_server.pid)

share_one_heap()  # before threads have heaps of their own
sys.setswitchinterval(0.0002)  # s; the event loop, which answers look-ups, waits less for threads that compute
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))  # a connection is a file
django.setup()

from apps.runs.presence import keep_reporting  # noqa: E402 - needs the lines above
from fairshare_web.server.application import Application  # noqa: E402 - needs the lines above
from fairshare_web.server.descriptors import SpareDescriptors  # noqa: E402 - needs the lines above
from fairshare_web.server.large_bodies import LargeBodies  # noqa: E402 - needs the lines above

spare = SpareDescriptors()
if _server is not None:
    keep_reporting("web")
    spare.start()

application = Application(spare, LargeBodies())
