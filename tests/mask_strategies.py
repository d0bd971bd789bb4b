"""Random masks of every kind, with the rule of each mask as a function of integers."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import positional_embeddings as pe
from samples import BATCH, MASKS, Pair

# Rules of positions. The rule of a `ListMask` is of array indices.
AT_POSITIONS = tuple(kind for kind in MASKS if kind != "ListMask")


def draw_array(draw, values, backend):
    """Return numbers as a list, a NumPy array, or an array of the backend."""
    kinds = ["list", "numpy"] if backend is None else ["list", "numpy", "backend"]
    kind = draw(st.sampled_from(kinds))
    if kind == "list":
        return values
    array = np.asarray(values, dtype="int64")
    return array if kind == "numpy" else backend.array(array)


@st.composite
def one_mask(draw, n, backend, kind):
    """Draw a mask of one kind for up to n positions, and its rule."""
    parameters = draw(MASKS[kind].draws(n))
    arguments = {
        name: draw_array(draw, value, backend) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
    mask = getattr(pe, kind)(**arguments)
    return mask, lambda i, j, b: MASKS[kind].hides(Pair(i, j, b, n), **parameters)


@st.composite
def masks(draw, n, backend=None, kinds=AT_POSITIONS, depth=2):
    """Draw a mask for up to n positions, and the rule (i, j, b) -> whether it hides."""
    operator = draw(st.sampled_from(["one", "or", "and", "not"])) if depth else "one"
    if operator == "one":
        return draw(one_mask(n, backend, draw(st.sampled_from(kinds))))
    first, hides = draw(masks(n, backend, kinds, depth - 1))
    if operator == "not":
        return ~first, lambda i, j, b: not hides(i, j, b)
    second, second_hides = draw(masks(n, backend, kinds, depth - 1))
    # Padding on the left would shift the positions of other masks.
    leaves = first._leaves() + second._leaves()
    is_left = any(getattr(mask, "side", "right") == "left" for mask in leaves)
    assume(not (is_left and any(mask._uses_absolute_positions for mask in leaves)))
    if operator == "or":
        return first | second, lambda i, j, b: hides(i, j, b) or second_hides(i, j, b)
    return first & second, lambda i, j, b: hides(i, j, b) and second_hides(i, j, b)


def element_by_element(hides, q_len, k_len, start):
    """Return the mask (query, key, batch) of a rule."""
    shape = (q_len, k_len, BATCH)
    cells = [hides(i + start, j, b) for i, j, b in np.ndindex(shape)]
    return np.asarray(cells, dtype=bool).reshape(shape)
