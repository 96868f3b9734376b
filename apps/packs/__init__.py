"""Committee packs: what an allocation board reads of a part of a policy and a period, as numbers, PDF and link."""
