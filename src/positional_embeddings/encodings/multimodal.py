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

# Largest position of a frame, and number of tokens of a part, with 1.6 GB of positions.
_MAX_FRAME_POSITION, _MAX_TOKENS = 2**48, 2**26

# A number of text tokens; (frames, height, width); or (frames, height, width, seconds).
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
    """Return the positions of text, images and videos, and the next position.

    The positions are as in the models of the Qwen-VL family. Text increases all three coordinates.
    A token of an image or video has the coordinates frame, row and column, from the start of the
    image. The next part starts after the longer side of the image, in tokens.

    Parameters
    ----------
    parts : list or tuple
        Parts of the sequence: an integer is a number of text tokens. An image is
        ``(1, height, width)`` and a video ``(frames, height, width)``, such as a row of the
        `image_grid_thw` of a processor. With a fourth number, the seconds between frames
        (`second_per_grid_ts`), the frame coordinate is the time, as in Qwen2.5-VL. For models with
        time as text, such as Qwen3-VL, each frame is an image between text.
    start : int, default 0
        Position of the first token, 0 or more: the next position of an earlier part of a
        conversation.
    spatial_merge_size : int, default 1
        Number of rows and of columns in a token; a divisor of height and width. 2 for the grids of
        most processors, 1 for grids of tokens.
    tokens_per_second : float, optional
        Positions per second, from the configuration of the model; for videos with seconds.
    xp, dtype, device : optional
        Array library (NumPy if None), integer or real dtype (the library's default integer
        if None) and device of the result.

    Returns
    -------
    positions : array, shape (3, seq)
        Frame, row and column of each token: positions for a `RoPE` with three `sections`.
    following : int
        The position of the next token, one more than the largest, as in transformers. Within
        `parts`, text after a video with more frames than rows and columns starts at a smaller
        position.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is out of range, a grid does not have three or four numbers,
        `spatial_merge_size` does not divide it, `tokens_per_second` is missing for seconds, or
        positions are beyond the range of `dtype`.

    See Also
    --------
    grid_positions : The coordinates of the points of a grid.

    References
    ----------
    Wang et al. (2024), Qwen2-VL, section 2.1; Bai et al. (2025), Qwen2.5-VL, section 2.1.2.

    Examples
    --------
    Two tokens of text, an image of two rows and three columns, and two tokens of text:

    >>> positions, following = multimodal_positions([2, (1, 2, 3), 2])
    >>> positions
    array([[0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
           [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
           [0, 1, 2, 3, 4, 2, 3, 4, 5, 6]])
    >>> following
    7

    A video with half a second between frames, and two by two tokens per frame:

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
    if start >= (max_position := checks.max_position(backend)):
        raise wrong_value("start", f"be below {max_position}", format_value(start))
    positions, following = [np.zeros((3, 0), dtype=np.int64)], start
    for index, part in enumerate(parts):
        name, numbers = f"parts[{index}]", part.tolist() if hasattr(part, "tolist") else part
        if isinstance(numbers, list | tuple):
            part_positions, extent = _positions_of_grid(name, numbers, merge, rate)
        else:
            extent = checks.positive_integer(name, numbers, max_value=_MAX_TOKENS)
            part_positions = np.broadcast_to(np.arange(extent), (3, extent))
        positions.append(start + part_positions)
        following = max(following, int(positions[-1].max()) + 1)
        if following > max_position:
            actual = f"one at {following - 1}"
            raise wrong_value(name, f"keep positions below {max_position}", actual)
        start += extent
    dtype = position_dtype(dtype, max(following - 1, 0), backend)
    stacked = np.concatenate(positions, axis=1)
    return backend.xp.asarray(stacked, dtype=dtype, device=backend.device), following


def _positions_of_grid(
    name: str, numbers: Sequence[Any], merge: int, rate: float | None
) -> tuple[Array, int]:
    """Return the positions of an image or video from 0, and the start of the next part."""
    actual = format_value(tuple(numbers))
    if len(numbers) not in (3, 4):
        requirement = "be an integer, (frames, height, width) or (frames, height, width, seconds)"
        raise wrong_value(name, requirement, actual)
    frames, height, width = (checks.positive_integer(name, n) for n in numbers[:3])
    checks.positive_integer(f"prod({name}[:3])", frames * height * width, max_value=_MAX_TOKENS)
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
        if not frames * step <= _MAX_FRAME_POSITION:
            raise wrong_value(name, f"have frames at positions below {_MAX_FRAME_POSITION}", actual)
    # In float32, as in the models, which truncate products rounded in float32.
    time = (np.arange(frames, dtype=np.float32) * np.float32(step)).astype(np.int64)
    grid = np.meshgrid(time, np.arange(height // merge), np.arange(width // merge), indexing="ij")
    return np.stack(grid).reshape(3, -1), max(height, width) // merge
