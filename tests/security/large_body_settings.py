"""Settings of the processes of `test_large_bodies`."""

from fairshare_web.settings import *  # noqa: F403

ROOT_URLCONF = "tests.security.large_body_urls"
