"""What a reader may see of a past tree: present grants decide, while the entry hasn't moved out of reach."""

from __future__ import annotations

import numpy as np

from apps.policies.access.scope import Visibility
from apps.policies.tree.columns import Mask
from apps.policies.tree.document_merge import indexes_of


def seen_then(then: Visibility, now: Visibility) -> Mask:
    """Entries visible in the past tree, and in the current one where they still exist; and the path to them."""
    mask = then.mask.copy()
    if then.all_visible or then.tree is now.tree:
        return mask
    there = indexes_of(then.tree.uid, now.tree)
    mask &= (there < 0) | now.mask[np.maximum(there, 0)]
    for level in then.tree.subtree(0)[:0:-1]:
        here = slice(level.start, level.stop)
        mask[then.tree.parent[here][mask[here]]] = True
    return mask
