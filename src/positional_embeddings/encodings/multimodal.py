"""Positions of text, images and videos in one sequence."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    ignore_fp_errors,
    np,
)
from positional_embeddings.encodings.grid import position_dtype

# The largest position of a frame, and the most tokens of a part, whose positions are 1.6 GB.
_FARTHEST_FRAME, _MOST_TOKENS = 2**48, 2**26

# Text of some tokens; (frames, height, width); or (frames, height, width, seconds).
Part: TypeAlias = int | tuple[int, int, int] | tuple[int, int, int, float]


@compute_on_device
def multimodal_positions(
    parts: Sequence[Part],
    /,
    *,
    start: int = 0,
    spatial_merge_size: int = 1,
    tokens_per_second: float | None = None,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> tuple[Array, int]:
    """Return the positions of text, images and videos, and the position that follows them.

    As the models of the Qwen-VL family count: text counts on in all three coordinates; a token of
    an image or a video is at its frame, row and column, counted from where the image begins; and
    what comes after an image begins as many positions later as its longer side has tokens.

    Parameters
    ----------
    parts : list or tuple
        What follows one another in the sequence: an integer is that many tokens of text. An image
        is ``(1, height, width)`` and a video ``(frames, height, width)``, such as a row of the
        `image_grid_thw` of a processor. With a fourth number, the seconds from frame to frame
        (`second_per_grid_ts`), frames are at their time, as in Qwen2.5-VL. Models that write the
        time as text, such as Qwen3-VL, have each frame as an image, between its text.
    start : int, default 0
        Position of the first token, 0 or more: the position that follows an earlier part of a
        conversation.
    spatial_merge_size : int, default 1
        Number of rows, and of columns, that make one token; it divides height and width. 2 for the
        grids of most processors, 1 for grids that count tokens.
    tokens_per_second : float, optional
        Positions in a second, of the configuration of the model; for videos with seconds.
    xp, dtype, device : optional
        Array library (NumPy if None), integer or real dtype (the library's default integer
        if None) and device of the result.

    Returns
    -------
    positions : array, shape (3, seq)
        Frame, row and column of each token: positions for a `RoPE` with three `sections`.
    following : int
        The position of the next token, one more than the largest, as in transformers. Text of the
        same `parts` after a video with more frames than rows and columns begins before it.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is out of range, a grid has not three or four numbers or is not divided by
        `spatial_merge_size`, seconds have no `tokens_per_second`, or `dtype` cannot hold the
        positions.

    See Also
    --------
    grid_positions : The coordinates of the points of a grid.

    References
    ----------
    Wang et al. (2024), Qwen2-VL, section 2.1; Bai et al. (2025), Qwen2.5-VL, section 2.1.2.

    Examples
    --------
    Two tokens of text, an image of two rows and three columns, and two tokens more:

    >>> positions, following = multimodal_positions([2, (1, 2, 3), 2])
    >>> positions
    array([[0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
           [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
           [0, 1, 2, 3, 4, 2, 3, 4, 5, 6]])
    >>> following
    7

    A video with half a second from frame to frame, and two tokens a row and a column:

    >>> video = (3, 4, 4, 0.5)
    >>> positions, _ = multimodal_positions([video], spatial_merge_size=2, tokens_per_second=4)
    >>> positions[0]
    array([0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4])
    """
    backend = backend_for(xp, device)
    if not isinstance(parts, list | tuple):
        raise wrong_type("parts", "be a list or tuple of integers and grids", format_value(parts))
    start = checks.non_negative_integer("start", start)
    merge = checks.feature_count("spatial_merge_size", spatial_merge_size)
    rate = checks.optional(checks.positive_number)("tokens_per_second", tokens_per_second)
    if start >= (most := checks.max_position(backend)):
        raise wrong_value("start", f"be below {most}", format_value(start))
    positions, following = [np.zeros((3, 0), dtype=np.int64)], start
    for index, part in enumerate(parts):
        name, numbers = f"parts[{index}]", part.tolist() if hasattr(part, "tolist") else part
        if isinstance(numbers, list | tuple):
            part_positions, extent = _positions_of_grid(name, numbers, merge, rate)
        else:
            extent = checks.positive_integer(name, numbers, max_value=_MOST_TOKENS)
            part_positions = np.broadcast_to(np.arange(extent), (3, extent))
        positions.append(start + part_positions)
        following = max(following, int(positions[-1].max()) + 1)
        if following > most:
            raise wrong_value(name, f"keep positions below {most}", f"one at {following - 1}")
        start += extent
    dtype = position_dtype(dtype, max(following - 1, 0), backend)
    stacked = np.concatenate(positions, axis=1)
    return backend.xp.asarray(stacked, dtype=dtype, device=backend.device), following


def _positions_of_grid(
    name: str, numbers: Sequence[Any], merge: int, rate: float | None
) -> tuple[Array, int]:
    """Return the positions of an image or a video from 0 on, and where the next part begins."""
    actual = format_value(tuple(numbers))
    if len(numbers) not in (3, 4):
        requirement = "be an integer, (frames, height, width) or (frames, height, width, seconds)"
        raise wrong_value(name, requirement, actual)
    frames, height, width = (checks.positive_integer(name, n) for n in numbers[:3])
    checks.positive_integer(f"prod({name}[:3])", frames * height * width, max_value=_MOST_TOKENS)
    if height % merge or width % merge:
        requirement = f"have a height and a width that `spatial_merge_size` = {merge} divides"
        raise wrong_value(name, requirement, actual)
    step = 1.0  # positions from frame to frame
    if len(numbers) == 4:
        seconds = checks.positive_number(f"{name}[3]", numbers[3])
        if rate is None:
            hint = " It is in the `vision_config` of the model."
            requirement = f"be given for the seconds of `{name}`"
            raise wrong_value("tokens_per_second", requirement, "None", hint)
        with ignore_fp_errors():
            step = float(np.float32(rate) * np.float32(seconds))
        if not frames * step <= _FARTHEST_FRAME:
            raise wrong_value(name, f"have frames at positions below {_FARTHEST_FRAME}", actual)
    # In float32, as in the models: whole numbers are cut off products that are rounded in it.
    time = (np.arange(frames, dtype=np.float32) * np.float32(step)).astype(np.int64)
    grid = np.meshgrid(time, np.arange(height // merge), np.arange(width // merge), indexing="ij")
    return np.stack(grid).reshape(3, -1), max(height, width) // merge
