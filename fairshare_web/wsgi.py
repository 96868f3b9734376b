"""For sites with a WSGI server, which has to bound slow bodies itself; the stack serves `fairshare_web.asgi`."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

application = get_wsgi_application()
