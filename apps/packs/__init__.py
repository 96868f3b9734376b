"""Committee packs: a report for an allocation board about part of a policy and a period, as JSON, PDF
and shared link.
"""
