"""Bounds of what forms and requests accept: those of columns and services, and those that only interfaces have.

A form or serializer takes each bound from here or from the service that checks it, never as a literal of its own.
"""

from __future__ import annotations

from apps.accounts.models import Account, AuditEvent, User
from apps.accounts.people import LONGEST_SIGN_IN_GROUP
from apps.core.column_bounds import most_characters
from apps.federation.models import Mount, Publication, Subscription
from apps.policies.changesets.change_sets import LONGEST_DECISION_REASON
from apps.policies.models import Adjustment, Policy
from apps.policies.tree.names import LONGEST_KIND, LONGEST_TYPED_PATH, MAX_DEPTH
from apps.usage.models import Import, Record, Source

# Characters of texts that are stored.
POLICY_SLUG = most_characters(Policy, "slug")
POLICY_NAME = most_characters(Policy, "name")
SOURCE_SLUG = most_characters(Source, "slug")
SOURCE_NAME = most_characters(Source, "name")
SITE = most_characters(Source, "site")
CLUSTER = most_characters(Source, "cluster")
ORIGIN = most_characters(Source, "origin")
TIME_ZONE = most_characters(Source, "time_zone")
NAMESPACE = most_characters(Account, "namespace")
USER = most_characters(Account, "user_name")
GROUP = most_characters(Account, "group_name")
DN = most_characters(Account, "dn")
FQAN = most_characters(Account, "fqan")
PROJECT = most_characters(Account, "project")
ACCOUNT = max(USER, DN)  # a user name or a DN
PERSON = most_characters(User, "username")
PEOPLE = LONGEST_SIGN_IN_GROUP
ENTRY_KIND = LONGEST_KIND
ENTRY = LONGEST_TYPED_PATH  # a path or a uid
ACCOUNT_OR_ENTRY = max(ACCOUNT, ENTRY)
LEVELS = MAX_DEPTH
REASON = LONGEST_DECISION_REASON
NOTE = most_characters(Adjustment, "note")
JOB = most_characters(Record, "job")
JOB_AND_TASK = JOB + most_characters(Record, "array_task") + 8  # as 12[3] or 12_3, with a few blanks
VERB = most_characters(AuditEvent, "verb")
FILE_NAME = most_characters(Import, "file_name")
URL = most_characters(Mount, "url")
ISSUER = most_characters(Mount, "issuer")
PUBLICATION = most_characters(Publication, "name")
MOUNTED_PUBLICATION = most_characters(Mount, "publication")
SUBSCRIBED_FEED = most_characters(Subscription, "feed")

# Characters of texts that are read or sealed, and never stored as they are.
DIGEST = 64
FINGERPRINT = 400  # 64 digits, with whatever separates them
BEARER_TOKEN = 4_000  # of another site
CURSOR = 200
KEYED_CURSOR = 2_000  # of a list in the order of names
INSTANT = 64  # an instant, a day or the number of a revision
MONTH = 7  # 2026-12
NUMBER = 40  # as a person types it, with its unit or sign
PASSWORD = 4_096
SEALED = 2 * BEARER_TOKEN  # between the steps of a form
COMMAND = 8_192  # with its arguments
FACTOR_LINES = 20_000  # factors of job classes or weights of kinds, one a line
FOLDER = 1_024
FILE_PATTERN = 128
FIELD = 64  # name of a setting or field
SEARCHED = 128  # part of a name

# Numbers.
WHOLE4 = 2**31 - 1  # of a column of 4 bytes
REVISION = WHOLE4
ROW = 2**63 - 1
PAGE_ROWS = 200
CHOICES = 20  # of a few names in one request
QUALITY_DAYS = 366
