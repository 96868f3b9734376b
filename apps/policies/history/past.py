"""What of a tree of the past somebody may see: grants of now decide, as long as the entry hasn't moved out of reach."""

from __future__ import annotations

import numpy as np

from apps.policies.access.scope import Visibility
from apps.policies.tree.adoption import indexes_of
from apps.policies.tree.columns import Mask


def seen_then(then: Visibility, now: Visibility) -> Mask:
    """Entries seen in the tree of then, and in the one in force where they are still in it; and the way to them."""
    mask = then.mask.copy()
    if then.all_visible or then.tree is now.tree:
        return mask
    there = indexes_of(then.tree.uid, now.tree)
    mask &= (there < 0) | now.mask[np.maximum(there, 0)]
    for level in then.tree.subtree(0)[:0:-1]:
        here = slice(level.start, level.stop)
        mask[then.tree.parent[here][mask[here]]] = True
    return mask
