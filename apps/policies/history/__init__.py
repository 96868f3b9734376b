"""The past of a policy, limited to what its reader may see."""
