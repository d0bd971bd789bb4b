"""Old names, while the rooms move to `Space`."""

from positional_embeddings.arrays.namespace import is_dtype
from positional_embeddings.arrays.shims import is_concretely_true, values_on_host  # noqa: F401
from positional_embeddings.arrays.space import on_given_device  # noqa: F401


def integers_on_host(array, xp):
    return values_on_host(array, xp) if is_dtype(array.dtype, "integral", xp) else None
