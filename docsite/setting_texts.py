"""What each environment variable means, by section; names, defaults and bounds are read from the code."""

from __future__ import annotations

SECTIONS: dict[str, dict[str, str]] = {
    "Database, broker and keys": {
        "DATABASE_URL": "PostgreSQL 15 or newer, `postgres://user:password@host:5432/name`. Without it the service runs"
        " an embedded PostgreSQL in `FAIRSHARE_VAR`",
        "FAIRSHARE_POOLER": "whether `DATABASE_URL` leads to PgBouncer in transaction mode: limits of time are set in"
        " each transaction then, and no cursor is kept on the server",
        "FAIRSHARE_REPLICA_URL": "a streaming replica of the same database, which pages and exports are read from, as "
        "`DATABASE_URL`; with `FAIRSHARE_POOLER` that leads to PgBouncer, too",
        "FAIRSHARE_REPLICA_LAG_S": "seconds; a replica further behind isn't read from",
        "CELERY_BROKER_URL": "Redis 7 or newer, or RabbitMQ. Without it the broker is files in `FAIRSHARE_VAR`",
        "SECRET_KEY": "signs sessions and encrypts stored secrets. Without it the first start makes one in "
        "`FAIRSHARE_VAR`",
        "SECRET_KEY_FALLBACKS": "older values of `SECRET_KEY` that are still accepted, comma-separated",
        "FAIRSHARE_TOKEN_PEPPERS": "keys that API tokens are hashed with, newest first. Without it the first start "
        "makes one",
        "FAIRSHARE_PSEUDONYM_KEY": "turns names of people into pseudonyms. Without it the first start makes one. Keep "
        "it: with another key no returning user is recognised",
    },
    "Site": {
        "FAIRSHARE_CONFIG": "path of a file of settings, `NAME=value` a line (see above)",
        "FAIRSHARE_VAR": "folder of the instance: embedded database, secrets, uploads, logs",
        "FAIRSHARE_PORT": "port of pages and REST on 127.0.0.1",
        "FAIRSHARE_WEB_WORKERS": "processes of the web server. Each keeps its own place in memory for look-ups",
        "FAIRSHARE_SITE": "name of this site on pages",
        "FAIRSHARE_ISSUER": "name under which other sites know this authority, such as `hpc.example.org`. Without it "
        "nothing is published; the sample uses `nordgrid.example`",
        "FAIRSHARE_TIME_ZONE": "time zone of days, dates of shares and monthly statements",
        "FAIRSHARE_URL": "public address of this service, for links in mail and webhooks: "
        "`https://fairshare.example.org`",
        "FAIRSHARE_PLUGINS": "plug-ins of other packages by the names of their apps, comma-separated",
        "FAIRSHARE_PLUGINS_LEFT_OUT": "plug-ins of the product that this site doesn't use, such as "
        "`apps.contrib.forecast`, comma-separated; `all`: all of them. Their rows are kept",
        "FAIRSHARE_SMALLEST_GROUP": "minimum number of active users before a group's total is shown to people who may"
        " only see totals",
    },
    "Recompute and background work": {
        "FAIRSHARE_TICK_S": "seconds between recomputes",
        "FAIRSHARE_WORKERS": "processes of workers, of `up` and of each `serve worker`. With a broker of files "
        "`serve worker` has one",
        "FAIRSHARE_STATEMENT_S": "longest time of one database statement of a worker (seconds). A run without progress "
        "for three times as long is taken over by another worker",
    },
    "Usage": {
        "FAIRSHARE_UPLOAD_BYTES": "largest upload in bytes",
        "FAIRSHARE_CLOSE_OPEN_DAYS": "days without contact after which running and waiting jobs of a usage source are "
        "closed, as of when they were last listed. 0: never",
        "FAIRSHARE_KEEP_RECORDS_DAYS": "days after which usage records are deleted; hourly sums stay. 0: keep for ever."
        " A usage source may have its own number",
        "FAIRSHARE_COLLECT_COMMANDS": "full paths of programs that usage sources may run, such as `/usr/bin/sacct`, "
        "comma-separated",
        "FAIRSHARE_COLLECT_FOLDERS": "folders below which usage sources may watch for files, comma-separated",
        "FAIRSHARE_SECRETS_DIR": "folder of the tokens of usage sources, one file each, mode 0600. Default: `secrets` "
        "in `FAIRSHARE_VAR`",
    },
    "Backup": {
        "FAIRSHARE_BACKUP_DIR": "folder for a backup a day, made by the first worker that is free: all workers reach "
        "it. Without it none is made ([back up](operate.md#back-up-and-restore))",
        "FAIRSHARE_BACKUP_KEEP": "how many of these are kept, the newest",
        "FAIRSHARE_BACKUP_RECIPIENT": "public key of age or SSH for which they are encrypted",
    },
    "Outgoing connections": {
        "FAIRSHARE_OUTBOUND_ALLOW": "`host:port` of targets that may have a private address or plain http, "
        "and `unix:/path` of sockets, "
        "comma-separated. As `FAIRSHARE_OUTBOUND_ALLOW_FILE`, one a line, the list is read again when the file changes",
        "FAIRSHARE_OUTBOUND_CA_FILE": "certificates of your own authority for outgoing TLS. Default: the system's",
        "FAIRSHARE_OUTBOUND_PROXY": "proxy for all outgoing connections but those to targets in "
        "`FAIRSHARE_OUTBOUND_ALLOW`: `http://proxy.example.org:3128`, or `https://user:password@…` "
        "([rules](sources.md#connections))",
    },
    "Mail": {
        "FAIRSHARE_EMAIL": "how mail about notices is sent: `off`, `console` (into the log) or `smtp`",
        "FAIRSHARE_EMAIL_HOST": "mail server",
        "FAIRSHARE_EMAIL_PORT": "its port",
        "FAIRSHARE_EMAIL_TLS": "`start` (STARTTLS), `whole` (TLS from the first byte) or `none`",
        "FAIRSHARE_EMAIL_USER": "login at the mail server",
        "FAIRSHARE_EMAIL_PASSWORD": "password at the mail server",
        "FAIRSHARE_EMAIL_FROM": "sender address",
    },
    "Monitoring": {
        "FAIRSHARE_LOG": "log lines as `text` or as `json`, one object a line ([logs](monitoring.md#logs))",
        "FAIRSHARE_ACCESS_LOG": "log a line for each request and each run: `yes`, `no`, or `json`, which is yes where "
        "the log is JSON",
        "FAIRSHARE_METRICS_ADDRESSES": "addresses that may read `/metrics` without a token",
        "FAIRSHARE_METRICS_ENTRIES": "how many groups of each policy, largest target first, have their target and "
        "actual share in `/metrics`. 0: none",
    },
    "HTTP": {
        "FAIRSHARE_ALLOWED_HOSTS": "host names that the service answers to, comma-separated",
        "FAIRSHARE_TRUSTED_ORIGINS": "origins that may post forms, needed behind a proxy that changes the host or the "
        "scheme",
        "FAIRSHARE_FRAME_ORIGINS": "origins whose pages may show the card `/me/card/` in a frame, comma-separated "
        "([portals](portals.md#a-card-in-a-frame))",
        "FAIRSHARE_PROXY_COUNT": "how many proxies add to `X-Forwarded-For` ([behind a "
        "proxy](security.md#behind-a-proxy))",
        "FAIRSHARE_BEHIND_TLS_PROXY": "trust `X-Forwarded-Proto`",
        "FAIRSHARE_SSL_REDIRECT": "redirect http to https (with `FAIRSHARE_PRODUCTION`)",
        "FAIRSHARE_PRODUCTION": "refuse sample data and default secrets, send secure cookies",
    },
    "Sign-in": {
        "FAIRSHARE_MFA_FOR_ADMINS": "administrators who sign in by password need a second factor; they set it up at "
        "their first sign-in",
        "FAIRSHARE_LINK_BY_NAME": "sources of people (`oidc`, `ldap`, `header`) whose user names may take over existing"
        " users of the same name, comma-separated",
        "FAIRSHARE_OIDC_ISSUER": "OpenID Connect issuer, as in its discovery document; the callback address is"
        " `/sign-in/oidc/site/callback/`. A mail address is stored if `email_verified` is true",
        "FAIRSHARE_OIDC_NAME": "text of its button",
        "FAIRSHARE_OIDC_CLIENT_ID": "client id",
        "FAIRSHARE_OIDC_CLIENT_SECRET": "client secret",
        "FAIRSHARE_OIDC_SCOPES": "requested OpenID scopes",
        "FAIRSHARE_OIDC_USERNAME_CLAIM": "claim with the user name",
        "FAIRSHARE_OIDC_GROUPS_CLAIM": "claim with the groups; a group is `oidc:NAME` in grants",
        "FAIRSHARE_LDAP_URL": "`ldaps://host` or `ldap://host` of a directory",
        "FAIRSHARE_LDAP_START_TLS": "protect `ldap://` by STARTTLS",
        "FAIRSHARE_LDAP_CA_FILE": "certificates of your own authority. Default: the system's",
        "FAIRSHARE_LDAP_BIND_DN": "DN that searches the directory. Default: anonymous",
        "FAIRSHARE_LDAP_BIND_PASSWORD": "its password",
        "FAIRSHARE_LDAP_PEOPLE": "base DN of people",
        "FAIRSHARE_LDAP_FILTER": "filter that finds one person",
        "FAIRSHARE_LDAP_GROUPS": "base DN of groups",
        "FAIRSHARE_LDAP_GROUP_FILTER": "filter that finds the groups of a person, beside `memberOf`; a group is "
        "`ldap:DN` in grants",
        "FAIRSHARE_TRUSTED_HEADER": "header in which a proxy sends the user name, such as `Remote-User`",
        "FAIRSHARE_TRUSTED_HEADER_ADDRESSES": "addresses of those proxies; from any other address these headers are "
        "removed",
        "FAIRSHARE_TRUSTED_HEADER_GROUPS": "header with the groups, separated by `,` or `;`; a group is `header:NAME` "
        "in grants",
        "FAIRSHARE_TRUSTED_HEADER_NAME": "header with the full name",
        "FAIRSHARE_TRUSTED_HEADER_SIGN_OUT": "address of the proxy's own sign-out, linked after signing out",
        "FAIRSHARE_TRUSTED_HEADER_EMAIL": "header with the mail address",
    },
    "Development and tests": {
        "FAIRSHARE_DEBUG": "Django's debug pages",
        "FAIRSHARE_TESTING": "fault points and a settable clock",
        "FAIRSHARE_CLOCK": "an instant, or a file that holds one; tests only",
        "FAIRSHARE_LEASE_S": "seconds after which a worker without a heartbeat loses its run; shorter in tests",
        "FAIRSHARE_SWEEP_S": "seconds between checks for lost workers and due collections; shorter in tests",
    },
}
