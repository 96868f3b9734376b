"""From a scheduler's tree and its accounting log to a first policy: entitlement beside usage."""
