"""Committee packs: a report for an allocation board about part of a policy and a period, as signed JSON."""
