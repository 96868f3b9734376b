"""All settings, in one file. Environment is read by the typed readers of `environment.py` only.

Secrets may be given as NAME or as NAME_FILE (a path whose content is the value).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csp.constants import NONE, SELF
from django.contrib.messages import constants as messages
from django.core.exceptions import ImproperlyConfigured
from kombu import Queue

from apps.cli.stack.paths import broker_dirs, read_or_make_secret, socket_dir, var_dir
from apps.core.code_paths import SHIPPED
from apps.core.plugin_loading import load_plugins
from apps.core.private_dirs import private_dir
from apps.runs.queues import FEDERATION, PERIODIC, QUEUES
from fairshare_web.environment import (
    env_bool,
    env_choice,
    env_database,
    env_file,
    env_int,
    env_list,
    env_origins,
    env_str,
    env_time_zone,
    env_url,
)
from fairshare_web.settings_file import forget_services, read_settings_file, refuse_unknown_names

forget_services()
read_settings_file()  # before anything asks the environment
refuse_unknown_names()

BASE_DIR = SHIPPED  # templates, static files, documents

VAR = var_dir()
TESTING = env_bool("FAIRSHARE_TESTING", default=False)
PRODUCTION = env_bool("FAIRSHARE_PRODUCTION", default=False)
DEBUG = env_bool("FAIRSHARE_DEBUG", default=False)
SECRET_KEY = env_str("SECRET_KEY", default="") or read_or_make_secret("secret_key")
SECRET_KEY_FALLBACKS = env_list("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env_list("FAIRSHARE_ALLOWED_HOSTS", default="localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("FAIRSHARE_TRUSTED_ORIGINS")
FAIRSHARE_FRAME_ORIGINS = env_origins("FAIRSHARE_FRAME_ORIGINS")  # whose pages may frame the card of one's own place
FAIRSHARE_PORT = env_int("FAIRSHARE_PORT", default=8000, minimum=1, maximum=65_535)
FAIRSHARE_CLOCK = env_str("FAIRSHARE_CLOCK", default="")

FAIRSHARE_SITE = env_str("FAIRSHARE_SITE", default="local")  # as pages show it; own sources are those without an origin
FAIRSHARE_ISSUER = env_str("FAIRSHARE_ISSUER", default="")  # our name as an authority, as in hpc.example.org
FAIRSHARE_TICK_S = env_int("FAIRSHARE_TICK_S", default=60, minimum=1)  # priorities are for instants on this grid
FAIRSHARE_LEASE_S = env_int("FAIRSHARE_LEASE_S", default=60, minimum=1)  # a worker silent for this long loses its run
FAIRSHARE_STATEMENT_S = env_int("FAIRSHARE_STATEMENT_S", default=300, minimum=1)  # of one statement of a worker
# A run without progress changes its worker. It reports progress every few statements, so that one which does not for
# three of the longest has stopped.
FAIRSHARE_STALL_S = 3 * FAIRSHARE_STATEMENT_S
FAIRSHARE_WORKERS = env_int("FAIRSHARE_WORKERS", default=2, minimum=1, maximum=256)  # processes of workers on this host
FAIRSHARE_WEB_WORKERS = env_int(
    "FAIRSHARE_WEB_WORKERS", default=1, minimum=1, maximum=64
)  # processes of the web server
FAIRSHARE_SWEEP_S = env_int("FAIRSHARE_SWEEP_S", default=10, minimum=1)  # how often expired leases are checked
FAIRSHARE_SMALLEST_GROUP = env_int("FAIRSHARE_SMALLEST_GROUP", default=5, minimum=2)  # whose sum is shown without names
FAIRSHARE_SNAPSHOT_POLL_S = 1.0  # a new snapshot is served at most 2 s after it is ready
FAIRSHARE_TOKEN_PATIENCE_S = 1.0  # a look-up waits so long for a database that hangs; 0 queries in the caller's thread
FAIRSHARE_TOKEN_PEPPERS = env_list("FAIRSHARE_TOKEN_PEPPERS") or [read_or_make_secret("token_pepper")]
FAIRSHARE_PSEUDONYM_KEY = env_str("FAIRSHARE_PSEUDONYM_KEY", default="") or read_or_make_secret("pseudonym_key")
FAIRSHARE_METRICS_ADDRESSES = env_list("FAIRSHARE_METRICS_ADDRESSES", default="127.0.0.1,::1")
FAIRSHARE_METRICS_ENTRIES = env_int("FAIRSHARE_METRICS_ENTRIES", default=20)  # greatest groups of a policy; 0: none
FAIRSHARE_UPLOAD_BYTES = env_int("FAIRSHARE_UPLOAD_BYTES", default=2 * 1024**3)

FAIRSHARE_BACKUP_DIR = env_str("FAIRSHARE_BACKUP_DIR", default="")
FAIRSHARE_BACKUP_KEEP = env_int("FAIRSHARE_BACKUP_KEEP", default=14, minimum=1)
FAIRSHARE_BACKUP_RECIPIENT = env_str("FAIRSHARE_BACKUP_RECIPIENT", default="")

FAIRSHARE_OUTBOUND_ALLOW = env_list("FAIRSHARE_OUTBOUND_ALLOW")  # host:port; also private, also plain http
FAIRSHARE_OUTBOUND_ALLOW_FILE = env_file("FAIRSHARE_OUTBOUND_ALLOW")  # the same list, read again when it changes
FAIRSHARE_OUTBOUND_CA_FILE = env_str("FAIRSHARE_OUTBOUND_CA_FILE", default="")
FAIRSHARE_OUTBOUND_PROXY = env_str("FAIRSHARE_OUTBOUND_PROXY", default="").strip()  # may hold a password
FAIRSHARE_COLLECT_COMMANDS = env_list("FAIRSHARE_COLLECT_COMMANDS")  # whole paths of programs that sources may run
FAIRSHARE_COLLECT_FOLDERS = env_list("FAIRSHARE_COLLECT_FOLDERS")  # below these sources may watch folders
FAIRSHARE_SECRETS_DIR = env_str("FAIRSHARE_SECRETS_DIR", default="") or str(VAR / "secrets")
FAIRSHARE_KEEP_RECORDS_DAYS = env_int("FAIRSHARE_KEEP_RECORDS_DAYS", default=0)
FAIRSHARE_CLOSE_OPEN_DAYS = env_int("FAIRSHARE_CLOSE_OPEN_DAYS", default=30, maximum=36_500)

FAIRSHARE_URL = env_url("FAIRSHARE_URL")  # where links in mail and webhooks lead
FAIRSHARE_EMAIL = env_choice("FAIRSHARE_EMAIL", ("off", "console", "smtp"))
EMAIL_BACKEND = (
    f"{'apps.core.mail_server' if FAIRSHARE_EMAIL == 'smtp' else 'django.core.mail.backends.console'}.EmailBackend"
)
DEFAULT_FROM_EMAIL = env_str("FAIRSHARE_EMAIL_FROM", default="fairshare@localhost")
EMAIL_HOST = env_str("FAIRSHARE_EMAIL_HOST", default="localhost")
EMAIL_PORT = env_int("FAIRSHARE_EMAIL_PORT", default=587, minimum=1)
EMAIL_HOST_USER = env_str("FAIRSHARE_EMAIL_USER", default="")
EMAIL_HOST_PASSWORD = env_str("FAIRSHARE_EMAIL_PASSWORD", default="")
FAIRSHARE_EMAIL_TLS = env_choice("FAIRSHARE_EMAIL_TLS", ("start", "whole", "none"))
EMAIL_USE_TLS, EMAIL_USE_SSL = FAIRSHARE_EMAIL_TLS == "start", FAIRSHARE_EMAIL_TLS == "whole"
EMAIL_TIMEOUT = 20  # s, from the connection to the end of a message

PLUGINS = [
    "apps.contrib.onboarding",
    "apps.contrib.jobs",
    "apps.contrib.schedulers",
    "apps.contrib.allocations",
    "apps.contrib.notices",
    "apps.contrib.forecast",
    "apps.contrib.lab",
    "apps.contrib.search",
    "apps.contrib.starts",
]
FAIRSHARE_PLUGINS_LEFT_OUT = env_list("FAIRSHARE_PLUGINS_LEFT_OUT")
if FAIRSHARE_PLUGINS_LEFT_OUT == ["all"]:
    FAIRSHARE_PLUGINS_LEFT_OUT = PLUGINS
if unknown := set(FAIRSHARE_PLUGINS_LEFT_OUT).difference(PLUGINS):
    raise ImproperlyConfigured(f"FAIRSHARE_PLUGINS_LEFT_OUT: there is no plug-in {', '.join(sorted(unknown))}.")
FAIRSHARE_PLUGINS = env_list("FAIRSHARE_PLUGINS")
PLUGINS = [name for name in PLUGINS if name not in FAIRSHARE_PLUGINS_LEFT_OUT] + load_plugins(FAIRSHARE_PLUGINS)
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "axes",
    "csp",
    "django_celery_beat",
    "django_htmx",
    "drf_spectacular",
    "rest_framework",
    "apps.accounts",
    "apps.runs",
    "apps.policies",
    "apps.usage",
    "apps.mapping",
    "apps.priorities",
    "apps.federation",
    "apps.series",
    "apps.web",
    "apps.web.rest",
    *PLUGINS,
    "apps.cli",
]
MIDDLEWARE = [
    "apps.pages.sign_in.trusted_header.StripHeaderMiddleware",  # before anything reads a header
    "apps.web.rest.requests.RequestIdMiddleware",
    "apps.web.rest.transport.TransportMiddleware",  # Host, TRACE and caches: for every answer below
    "apps.web.rest.transport.ByteOrderMarkMiddleware",  # CSV of pages and REST
    "apps.web.rest.transport.HttpsMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "fairshare_web.content_policy.ContentPolicyMiddleware",
    "apps.web.middleware.early_answers.EarlyAnswersMiddleware",  # those below, and those of plug-ins
    "fairshare_web.page_compression.PageCompressionMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "apps.web.shell.forms_in_place.FormsInPlaceMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "apps.web.rest.requests.AuthenticationMiddleware",
    "apps.pages.sign_in.trusted_header.TrustedHeaderMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",  # closed by default
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "fairshare_web.storable_text.StorableTextMiddleware",  # before an audit row or a query meets the text
    "apps.web.rest.requests.RefusedRequestMiddleware",
    "apps.web.rest.requests.RequestCacheMiddleware",
    "apps.web.shell.errors.DomainErrorMiddleware",
    "apps.web.middleware.replica_reads.ReplicaMiddleware",  # around views only: sessions and tokens are the primary's
    "axes.middleware.AxesMiddleware",  # last, by its own rule
]
EARLY_ANSWERS = [  # to one middleware, before sessions
    "apps.web.middleware.lookup.early_answer",  # look-ups with tokens: no database
    "apps.pages.monitoring.views.early_answer",  # probes
    "apps.pages.tree.live.views.early_answer",  # pages that ask for news: one query
]
ROOT_URLCONF = "fairshare_web.urls"
WSGI_APPLICATION = "fairshare_web.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "NAME": "django",  # as packages call it
        "BACKEND": "apps.web.shell.templates.Templates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.web.shell.navigation.shell",
            ]
        },
    }
]
MESSAGE_TAGS = {messages.WARNING: "warn", messages.ERROR: "bad"}  # as classes of notes are called

_DATABASE = env_database("DATABASE_URL")
FAIRSHARE_EMBEDDED_DATABASE = _DATABASE is None
DATABASES: dict[str, dict[str, Any]] = {
    "default": {**_DATABASE}
    if _DATABASE
    else {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": str(socket_dir(VAR)),
        "PORT": "5432",  # names the socket; a PGPORT of the environment must not
        "USER": "fairshare",
        "NAME": "fairshare",
    }
}
_REPLICA = env_database("FAIRSHARE_REPLICA_URL")
FAIRSHARE_REPLICA_LAG_S = env_int("FAIRSHARE_REPLICA_LAG_S", default=5, minimum=1)  # one further behind isn't read
FAIRSHARE_POOLER = env_bool("FAIRSHARE_POOLER", default=False)
_LIMITS = {"lock_timeout": "30s", "idle_in_transaction_session_timeout": "600s"}


def _with_limits(database: Mapping[str, Any], *, connect_s: int, gone_s: int) -> dict[str, Any]:
    """gone_s: after which a silent host is taken for gone; else it is waited for a quarter of an hour."""
    options = {
        **database.get("OPTIONS", {}),
        "connect_timeout": connect_s,
        "tcp_user_timeout": gone_s * 1000,
        "keepalives_idle": gone_s * 3 // 4,
        "keepalives_interval": max(gone_s // 4, 1),
        "keepalives_count": 3,
    }
    limited: dict[str, Any] = {**database, "ENGINE": "apps.core.postgresql", "OPTIONS": options}
    if FAIRSHARE_POOLER:  # in transaction mode PgBouncer keeps nothing of a session: limits are set in each transaction
        limited |= {"IN_EACH_TRANSACTION": dict(_LIMITS), "DISABLE_SERVER_SIDE_CURSORS": True}
    else:
        # A statement whose client was killed ends within two seconds, and with it the locks it holds.
        limits = {**_LIMITS, "TimeZone": "UTC", "client_connection_check_interval": "2000"}
        options["options"] = " ".join(f"-c {name}={value}" for name, value in limits.items())
    # A new connection costs more than an idle one (seconds); lost ones are noticed.
    return {**limited, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


DATABASES["default"] = _with_limits(DATABASES["default"], connect_s=3, gone_s=20)
if _REPLICA:  # requests that find it gone ask the primary
    DATABASES["replica"] = _with_limits(_REPLICA, connect_s=2, gone_s=4)

CELERY_BROKER_URL = env_str("CELERY_BROKER_URL", default="") or "filesystem://"
if CELERY_BROKER_URL == "filesystem://":
    # Messages only have ids: files in var/ do when no Redis or RabbitMQ is given.
    CELERY_BROKER_TRANSPORT_OPTIONS = {**broker_dirs(VAR), "polling_interval": 0.1}
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # its queues would be unread files
elif CELERY_BROKER_URL.startswith("redis"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {"queue_order_strategy": "priority"}  # the order of QUEUES
CELERY_TASK_QUEUES = [Queue(name) for name in QUEUES]  # all of which a worker consumes, unless -Q or -X choose
CELERY_TASK_DEFAULT_QUEUE = PERIODIC
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "fairshare_web.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "sweep-runs": {"task": "apps.runs.tasks.sweep_runs", "schedule": float(FAIRSHARE_SWEEP_S)},
    "apply-rules-for-members": {"task": "apps.mapping.tasks.apply_rules_for_members", "schedule": 120.0},
    "apply-dates-of-shares": {"task": "apps.policies.tasks.apply_dates_of_shares", "schedule": float(FAIRSHARE_TICK_S)},
    "publish-due-changes": {"task": "apps.policies.tasks.publish_due_changes", "schedule": float(FAIRSHARE_TICK_S)},
    "recompute-stale": {"task": "apps.priorities.tasks.recompute_stale", "schedule": float(FAIRSHARE_TICK_S)},
    "build-series-stale": {"task": "apps.series.tasks.build_series_stale", "schedule": 60.0},
    "collect-usage": {"task": "apps.usage.tasks.collect_due_usage", "schedule": float(FAIRSHARE_SWEEP_S)},
    "build-documents": {
        "task": "apps.federation.tasks.build_due_documents",
        "schedule": float(FAIRSHARE_SWEEP_S),
    },
    "fetch-mounts": {"task": "apps.federation.tasks.fetch_due_mounts", "schedule": float(FAIRSHARE_SWEEP_S)},
    "close-silent-jobs": {"task": "apps.usage.tasks.close_silent_jobs", "schedule": 3600.0},
    "let-records-go": {"task": "apps.usage.tasks.remove_old_records", "schedule": 3600.0},
    "prune-snapshots": {"task": "apps.priorities.tasks.prune_snapshots", "schedule": 3600.0},
    "clear-sessions": {"task": "apps.accounts.tasks.clear_sessions", "schedule": 3600.0},
    "verify-audit": {"task": "apps.accounts.tasks.verify_audit", "schedule": 3600.0},
    "send-password-resets": {
        "task": "apps.accounts.tasks.send_password_resets",
        "schedule": 10.0,
        "options": {"queue": FEDERATION},  # the mail server is another host, for which it waits
    },
}
if FAIRSHARE_BACKUP_DIR:
    CELERY_BEAT_SCHEDULE["back-up"] = {
        "task": "apps.cli.tasks.back_up",
        "schedule": 3600.0,  # one a day: a failed one is tried again
        "options": {"queue": QUEUES[-1]},  # where what takes long lets all others through
    }
if not PRODUCTION:
    CELERY_BEAT_SCHEDULE["continue-sample"] = {"task": "apps.cli.tasks.continue_sample", "schedule": 600.0}
CELERY_TIMEZONE = "UTC"

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "apps.accounts.sign_in.backends.DirectoryBackend",
    "apps.accounts.sign_in.backends.ElsewhereBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("UserAttributeSimilarityValidator", {}),
        ("MinimumLengthValidator", {"min_length": 12}),
        ("CommonPasswordValidator", {}),
    )
]
LOGIN_URL = "pages:sign-in"
LOGIN_REDIRECT_URL = "pages:start"
LOGOUT_REDIRECT_URL = "pages:sign-in"
FAIRSHARE_LINK_BY_NAME = env_list("FAIRSHARE_LINK_BY_NAME")  # sources whose user names are this site's own
FAIRSHARE_OIDC_ISSUER = env_str("FAIRSHARE_OIDC_ISSUER", default="")
FAIRSHARE_OIDC_NAME = env_str("FAIRSHARE_OIDC_NAME", default="single sign-on")
FAIRSHARE_OIDC_CLIENT_ID = env_str("FAIRSHARE_OIDC_CLIENT_ID", default="")
FAIRSHARE_OIDC_CLIENT_SECRET = env_str("FAIRSHARE_OIDC_CLIENT_SECRET", default="")
FAIRSHARE_OIDC_SCOPES = env_str("FAIRSHARE_OIDC_SCOPES", default="openid profile email").split()
FAIRSHARE_OIDC_USERNAME_CLAIM = env_str("FAIRSHARE_OIDC_USERNAME_CLAIM", default="preferred_username")
FAIRSHARE_OIDC_GROUPS_CLAIM = env_str("FAIRSHARE_OIDC_GROUPS_CLAIM", default="groups")
FAIRSHARE_LDAP_URL = env_str("FAIRSHARE_LDAP_URL", default="")
FAIRSHARE_LDAP_START_TLS = env_bool("FAIRSHARE_LDAP_START_TLS", default=True)
FAIRSHARE_LDAP_CA_FILE = env_str("FAIRSHARE_LDAP_CA_FILE", default="")
FAIRSHARE_LDAP_BIND_DN = env_str("FAIRSHARE_LDAP_BIND_DN", default="")
FAIRSHARE_LDAP_BIND_PASSWORD = env_str("FAIRSHARE_LDAP_BIND_PASSWORD", default="")
FAIRSHARE_LDAP_PEOPLE = env_str("FAIRSHARE_LDAP_PEOPLE", default="")
FAIRSHARE_LDAP_FILTER = env_str("FAIRSHARE_LDAP_FILTER", default="(uid={username})")
FAIRSHARE_LDAP_GROUPS = env_str("FAIRSHARE_LDAP_GROUPS", default="")
FAIRSHARE_LDAP_GROUP_FILTER = env_str(
    "FAIRSHARE_LDAP_GROUP_FILTER", default="(|(member={dn})(uniqueMember={dn})(memberUid={username}))"
)
FAIRSHARE_TRUSTED_HEADER = env_str("FAIRSHARE_TRUSTED_HEADER", default="")
FAIRSHARE_TRUSTED_HEADER_ADDRESSES = env_list("FAIRSHARE_TRUSTED_HEADER_ADDRESSES")
FAIRSHARE_TRUSTED_HEADER_GROUPS = env_str("FAIRSHARE_TRUSTED_HEADER_GROUPS", default="")
FAIRSHARE_TRUSTED_HEADER_NAME = env_str("FAIRSHARE_TRUSTED_HEADER_NAME", default="")
FAIRSHARE_TRUSTED_HEADER_SIGN_OUT = env_str("FAIRSHARE_TRUSTED_HEADER_SIGN_OUT", default="")
FAIRSHARE_TRUSTED_HEADER_EMAIL = env_str("FAIRSHARE_TRUSTED_HEADER_EMAIL", default="")
ACCOUNT_ADAPTER = "apps.pages.sign_in.oidc.NoLocalSteps"
ACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_ADAPTER = "apps.pages.sign_in.oidc.SiteAdapter"
FAIRSHARE_MFA_FOR_ADMINS = env_bool("FAIRSHARE_MFA_FOR_ADMINS", default=False)
MFA_ADAPTER = "apps.accounts.sign_in.second_factor.SealedAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_RECOVERY_CODE_COUNT, MFA_RECOVERY_CODE_DIGITS = 10, 8
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # an attacker can't lock a manager out
AXES_USERNAME_CALLABLE = "apps.accounts.sign_in.passwords.locked_name"
AXES_RESET_ON_SUCCESS = True
AXES_IPWARE_PROXY_COUNT = env_int("FAIRSHARE_PROXY_COUNT", default=0)
AXES_LOCKOUT_CALLABLE = "apps.pages.sign_in.views.locked"
SESSION_ENGINE = "apps.accounts.sign_in.sessions"  # the database's, with whose each is
SESSION_COOKIE_AGE = 12 * 3600
PASSWORD_RESET_TIMEOUT = 3600  # s
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "apps.web.shell.errors.csrf_failure"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION and env_bool("FAIRSHARE_SSL_REDIRECT", default=True)
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
if env_bool("FAIRSHARE_BEHIND_TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# HSTS for all of a domain is its owner's decision; the redirect is on unless a proxy's is chosen instead. W001 doesn't
# see that HttpsMiddleware is Django's SecurityMiddleware.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W005", "security.W008", "security.W021"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],  # cells of heat maps, and a figure that is saved as PNG; such images run no script
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]  # docs/developer.md (Languages) says how to add one
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = env_time_zone("FAIRSHARE_TIME_ZONE", default="UTC")
STATIC_URL = "static/"
STATICFILES_DIRS = [
    BASE_DIR / "static",
    *((f"help/{folder}", BASE_DIR / "docs" / folder) for folder in ("examples", "monitoring", "pictures")),
]
STATIC_ROOT = VAR / "static"
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = TESTING or DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if TESTING or DEBUG
        else "fairshare_web.static_files.StaticFiles"
    },
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 33 * 1024**2  # REST body 32 MB; usage uploads are streamed to disk
FILE_UPLOAD_TEMP_DIR = str(private_dir(VAR / "tmp"))  # a large log must not fill /tmp
FILE_UPLOAD_HANDLERS = [
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "apps.web.unnamed_uploads.UnnamedFileUploadHandler",
]

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.web.rest.authentication.TokenAuthentication",
        "apps.web.rest.authentication.FormlessSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "apps.web.rest.authentication.ScopePermission",
    ],
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_RENDERER_CLASSES": ["apps.web.rest.rendering.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.web.rest.parsing.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "apps.web.rest.errors.problem_handler",
    "DEFAULT_THROTTLE_CLASSES": ["apps.web.rest.transport.WriteThrottle"],
    "DEFAULT_THROTTLE_RATES": {"writes": "1200/min", "usage": "6000/min"},  # a person or token owner, in one process
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Fairshare",
    "DESCRIPTION": "Shares, usage and priorities of a cluster or grid.",
    "VERSION": "1",
    "SERVERS": [{"url": "/", "description": "The instance that this description comes from"}],
    "TAGS": [
        {"name": name, "description": text}
        for name, text in {
            "decay-functions": "Decay functions that a policy's window can have",
            "algorithms": "Tree algorithms that a policy can have, with their parameters",
            "audit": "What was done, refused and by whom",
            "federation": "Mounts, subscriptions, publications, keys and the grid view",
            "feeds": "Usage for other sites, signed",
            "me": "The caller's own priorities, explained and forecast",
            "operators": "Operators of aequus, with their properties",
            "policies": "Trees, change sets, priorities, mappings, allocations and convergence of a policy",
            "publications": "Policies for other sites, signed",
            "runs": "Background work",
            "tokens": "The caller's API tokens",
            "usage": "Usage sources, records, hourly sums and their quality",
        }.items()
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "RunState": "apps.runs.models.Run.State",
        "ChangeSetState": "apps.policies.models.ChangeSet.State",
        "EntryState": "apps.web.listings.tree_listing.STATES",
        "Verb": "apps.policies.models.Grant.Verb",
        "MappingRuleKind": "apps.mapping.rules.rule.KINDS",
        "SourceKind": "apps.usage.models.Source.Kind",
        "RemoteState": "apps.federation.models.Remote.State",
        "PriorityError": ["unmapped", "ambiguous", "no_own_entry"],
        "OwnPriorityError": ["unmapped", "no_snapshot"],
        "RecoveryOutcome": [
            "on_target",
            "recovers",
            "never_if_nobody_runs",
            "not_at_this_pace",
            "not_within_horizon",
        ],
        "NewSourceKind": ["push", "directory", "command", "slurm-rest"],
        "UsageApproach": ["historical", "active", "predictive"],
        "SchedulerKind": [
            ("slurm", "Slurm"),
            ("gridengine", "Grid Engine"),
            ("htcondor", "HTCondor"),
        ],  # of a plug-in, whose models may not be here, as those of the next
        "ActionEnum": ["remove", "archive", "restore"],
        "RestoredShareCodeEnum": ["done", "already", "missing", "changed_meanwhile"],
        "ConvertedLineBasisEnum": ["allocated", "rest", "none"],
        "QueuedJobStateEnum": ["pending", "held"],
        "GroupNowKindEnum": ["group", "members", "direct", "unmapped"],
        "BookedJobState": ["decided", "started", "finished", "cancelled", "lost"],
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "apps.web.rest.schema.add_problems",
        "apps.web.rest.schema.add_tags",
        "apps.web.rest.schema.add_summaries",
        "apps.web.rest.examples.add_examples",
        "apps.web.rest.deprecations.describe_deprecated",
    ],
}

FAIRSHARE_LOG = env_choice("FAIRSHARE_LOG", ("text", "json"))
FAIRSHARE_ACCESS_LOG = env_choice("FAIRSHARE_ACCESS_LOG", ("json", "yes", "no"))  # json: where the log is JSON
_LOGS_ACCESS = FAIRSHARE_ACCESS_LOG == "yes" or FAIRSHARE_ACCESS_LOG == FAIRSHARE_LOG
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "fairshare_web.log_formats.TextLines"},
        "json": {"()": "fairshare_web.log_formats.JsonLines"},
    },
    "filters": {
        "reason": {"()": "fairshare_web.log_filters.SayReason"},
        "limit": {"()": "fairshare_web.log_filters.LimitRepeats"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": FAIRSHARE_LOG, "filters": ["reason", "limit"]},
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "axes": {"level": "WARNING"},
        "fairshare.access": {"level": "INFO" if _LOGS_ACCESS else "WARNING"},  # also where others log warnings
        "django.server": {"level": "WARNING"},
        "kombu.connection": {"level": "ERROR"},  # the file broker has no host, which it says at every start
    },
}
