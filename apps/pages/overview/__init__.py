"""The overview: whether usage follows the policy, and what needs attention."""
