"""Daily and hourly series of every entry of a policy, built by a background run from usage buckets and revisions. They
can be deleted and rebuilt at any time.
"""
