"""What the web server serves. Its worker process imports this, and dies with the server it was forked by."""

from __future__ import annotations

import multiprocessing
import os

from django.core.wsgi import get_wsgi_application

from apps.cli.stack.lifeline import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

_server = multiprocessing.parent_process()
if _server is not None and _server.pid is not None:
    die_with_parent(_server.pid)

application = get_wsgi_application()
