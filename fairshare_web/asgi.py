"""For sites that serve by ASGI; the stack itself serves by WSGI, which answers look-ups faster."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

application = get_asgi_application()
