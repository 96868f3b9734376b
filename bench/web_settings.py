"""Settings of a bench's web server: the clock is stopped as in tests, static files are served as on a running site."""

from fairshare_web.settings import *  # noqa: F403
from fairshare_web.settings import STORAGES

WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = False
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "fairshare_web.static_files.StaticFiles"}}
