"""Rotary position embeddings (RoPE).

Each pair of features is rotated by an angle proportional to the position, so that the
scalar product of two rotated vectors depends on the distance of their positions only
(Su et al. 2021).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike
from typing import Annotated, Any, Literal

from positional_embeddings.angles import frequencies
from positional_embeddings.angles.frequencies import DecimalFrequencies, geometric_frequencies
from positional_embeddings.angles.pages import PositionTables
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.caching import call_key, read_only, remember
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    HostArray,
    Namespace,
    np,
)
from positional_embeddings.rotary import layouts
from positional_embeddings.rotary.rotate import (
    RotationPlan,
    check_installed,
    plan_rotation,
    rotate,
    rotate_full_width,
)
from positional_embeddings.rotary.scaling import Scaling, scaled_frequencies
from positional_embeddings.rotary.tables import RotaryTables

# Functions that read configurations of Hugging Face; `models/hf_config.py` fills the dict.
config_readers: dict[str, Callable[..., Any]] = {}

SectionFrequencies = Literal["shared", "restart"]
SectionOrder = Literal["contiguous", "strided", "first_last"]

# Largest shift, in positions. The sum of a shift and a position fits in int64.
MAX_SHIFT = 2**60


@dataclass(frozen=True)
class RoPE(checks.CheckedDataclass):
    """Rotary position embeddings for queries and keys.

    For queries and keys with the axes ``(batch, heads, seq, head)``, as in PyTorch and
    transformers:

    >>> import numpy as np
    >>> rope = RoPE(64, 4096, feature_axis=-1, seq_axis=-2)
    >>> q, k = np.random.default_rng(0).standard_normal((2, 1, 8, 100, 64))
    >>> rope(q).shape, rope(k).shape
    ((1, 8, 100, 64), (1, 8, 100, 64))

    The layer is immutable and works with any array library. It computes tables of cosine and sine
    for the library, device and dtype of each `x`. It caches a few pages of positions for each, of
    at most `seq_len` positions in total. Pickles and copies do not contain them. With CuPy each
    stream has its own tables, so any number of streams may share a layer. The tables of the latest
    16 streams, dtypes and memory orders are cached. Call the layer once on a stream before
    capturing a graph there.

    Parameters
    ----------
    head_size : int
        Number of features of a head, positive, at most 2**20; even if `rotary_dim` is None.
    seq_len : int
        Number of positions in the table, positive, at most 2**63, such as the
        `max_position_embeddings` of a model. A large number takes no memory before its positions
        are rotated. Longer sequences need explicit `positions`.
    base : float, default 10_000
        Base of the frequencies, positive.
    scale : float, default 1.0
        Factor on the frequencies, positive: 0.5 halves each step (linear position interpolation).
    layout : {"half", "interleaved"}, default "half"
        Whether features i and i + n/2 form a pair, or 2i and 2i + 1.
    rotary_dim : int, optional
        Number n of leading features that are rotated, positive and even. None rotates all features,
        also after `dataclasses.replace` with another `head_size`.
    scaling : callable, optional
        Frequency scaling for a longer context: `LinearScaling`, `NTKScaling`, `DynamicNTKScaling`,
        `YaRNScaling`, `Llama3Scaling`, `LongRoPEScaling`, `ProportionalScaling`, or another
        hashable function from (dim, base, seq_len) to frequencies in radians per position and a
        factor on cosine and sine.
    sections : sequence of int, optional
        Number of pairs that each coordinate of the positions rotates, positive; their sum is half
        of `rotary_dim`. Positions then have a leading axis of coordinates.
    section_frequencies : {"shared", "restart"}, default "shared"
        Whether the coordinates share one range of frequencies (multimodal RoPE), or each has its
        own full range (axial RoPE).
    section_order : {"contiguous", "strided", "first_last"}, default "contiguous"
        Whether the pairs of a coordinate are contiguous, or alternate with the pairs of the other
        coordinates. In strided order the first coordinate has the remaining pairs. In the order
        "first_last", all other coordinates alternate, and then follow the pairs of the first one,
        as in Ernie 4.5 VL.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `x`: 0 and 1 by default for arrays of at most three
        axes, and required for more: -1 and -2 for ``(batch, heads, seq, head)``.
    fused : bool, optional
        Whether a compiled kernel rotates in one pass over memory. numba (the extra ``fast``)
        compiles it for NumPy arrays of float16, float32 and float64, for ``NUMBA_NUM_THREADS``
        threads, by default one per core. CuPy compiles it for its arrays of these dtypes and of
        bfloat16. If None, an available kernel is used; if True, a call without one raises. The
        result is the same. The first call for a dtype and a number of axes takes a second or two to
        compile; later processes load the kernel from disk. Complex numbers are rotated by one
        multiplication, even if `fused` is True.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ImportError
        If `fused` is True and neither numba nor CuPy is installed.
    ValueError
        If a size is not positive, is odd or does not match another one, `base` or `scale` is not
        positive, a choice is unknown, or both axes are the same.

    References
    ----------
    Su et al. (2021), RoFormer, equations 15 and 34; Wang et al. (2024), Qwen2-VL,
    section 2.1, for `sections`.

    Examples
    --------
    By default, features are on the first axis and the sequence on the second:

    >>> import numpy as np
    >>> rope = RoPE(64, 1024)
    >>> q = np.random.default_rng(0).standard_normal((64, 100, 8))
    >>> rope(q).shape
    (64, 100, 8)

    The next token of a cached sequence is at position 100:

    >>> token = q[:, :1, :]
    >>> np.allclose(rope(token, offset=100), rope(token, positions=np.asarray([100])))
    True

    Cached keys are shifted by five positions:

    >>> np.allclose(rope.shift(rope(token, offset=100), 5), rope(token, offset=105))
    True
    """

    head_size: int
    seq_len: checks.PositionCount
    base: checks.PositiveNumber = 10_000
    scale: checks.PositiveNumber = 1.0
    _: KW_ONLY
    layout: Annotated[layouts.Layout, checks.one_of(layouts.Layout)] = "half"
    rotary_dim: int | None = None
    scaling: Scaling | None = None
    sections: Sequence[int] | None = None
    section_frequencies: Annotated[SectionFrequencies, checks.one_of(SectionFrequencies)] = "shared"
    section_order: Annotated[SectionOrder, checks.one_of(SectionOrder)] = "contiguous"
    feature_axis: int | None = None
    seq_axis: int | None = None
    fused: Annotated[bool | None, checks.optional_boolean] = None
    _tables: PositionTables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        axes.set_axes(self)
        rotary_dim = self.rotary_dim
        head_size = checks.feature_count("head_size", self.head_size, even=rotary_dim is None)
        if rotary_dim is not None:
            limit = f"`head_size` = {head_size}"
            rotary_dim = layouts.rotated_features(rotary_dim, head_size, limit)
        sections = layouts.checked_sections(self.sections, rotary_dim or head_size)
        checks.set_fields(self, head_size=head_size, rotary_dim=rotary_dim, sections=sections)
        if self.fused:
            check_installed()
        coordinates = sections and layouts.coordinates_of_pairs(sections, self.section_order)
        per_pair, factor = self._frequencies(coordinates)
        tables = PositionTables(per_pair, self.seq_len, "seq_len", None, coordinates, factor)
        checks.set_fields(self, _tables=tables)

    def _frequencies(self, coordinates: Sequence[int] | None) -> tuple[DecimalFrequencies, float]:
        """Return the frequencies of the pairs, and the factor on cosine and sine."""
        if self.sections and coordinates and self.section_frequencies == "restart":
            if self.scaling is not None:
                requirement = "be None with section_frequencies='restart'"
                raise wrong_value("scaling", requirement, format_value(self.scaling))
            parts = [geometric_frequencies(2 * n, self.base, self.scale) for n in self.sections]
            return frequencies.merge(parts, coordinates), 1.0
        rotary_dim, scaling = self.rotary_dim or self.head_size, self.scaling
        if scaling is None:
            return geometric_frequencies(rotary_dim, self.base, self.scale), 1.0
        radians, factor = scaled_frequencies(scaling, rotary_dim, self.base, self.seq_len)
        return frequencies.from_radians(tuple(radians), self.scale), factor

    def __call__(
        self,
        x: ArrayT,
        /,
        *,
        positions: Array | None = None,
        offset: int = 0,
        inverse: bool = False,
        out: ArrayT | None = None,
    ) -> ArrayT:
        """Rotate queries or keys to their positions.

        Parameters
        ----------
        x : array
            Real floating-point numbers with `head_size` features along
            `feature_axis` and a sequence along `seq_axis`; or complex ones with
            ``head_size / 2`` features, one for each pair.
        positions : array, optional
            Integer or real positions of any sign and order, also beyond the table; real positions
            beyond 2**63 give NaN. Positions of float16 must be within 2047, and of bfloat16 within
            255, beyond which not every integer exists. Traced, lazy and GPU values are not checked.
            The axes are (seq,), (seq, batch) in the axis order of `x`, or the axes of `x` without
            the features. Each has the length in `x`, or 1. Positions (seq, batch) are repeated for
            the heads of a merged axis, ``(head, seq, heads * batch)``. With `sections` the first
            axis holds the coordinates; without positions every coordinate counts the sequence.
        offset : int, default 0
            Position of the first element if `positions` is None.
        inverse : bool, default False
            Whether to rotate by the opposite angles.
        out : array, optional
            Array to write the result to, with the shape and dtype of `x`. It may be `x`, which is
            then rotated in place. Arrays of JAX and dask are not writable.

        Returns
        -------
        array
            Shape, dtype and memory order of `x`, or `out`. Half precision is rotated in float32.

        Raises
        ------
        TypeError
            If `x` does not hold floating-point numbers, `positions` are of another library or are
            not numbers, `out` has another dtype or is not writable, an option is of the wrong
            kind, or `fused` is True and there is no kernel for `x`.
        ImportError
            If `fused` is True and the kernel for `x` is not installed.
        ValueError
            If `x` or `positions` has the wrong shape, the sequence exceeds the table, positions are
            too large for half precision, both `positions` and `offset` are given, or `out` has
            another shape or is read-only.

        Notes
        -----
        Options are keyword-only. Their names in other libraries are in the page
        :doc:`/coming_from/frameworks`.
        """
        offset = checks.non_negative_integer("offset", offset)
        inverse = checks.boolean("inverse", inverse)
        # The tables include the attention factor, by which the inverse divides.
        divisor = self.attention_factor**2 if inverse else 1.0
        plan, cos, sin = self._prepare(x, positions, offset, out)
        return rotate(x, cos, sin, plan, inverse=inverse, divisor=divisor, out=out)

    def _prepare(
        self, x: Array, positions: Array, offset: int, out: Array = None
    ) -> tuple[RotationPlan, Array, Array]:
        """Check the arrays of a call, and return its plan and its tables."""
        key = call_key(x, out, positions)
        plan = self._tables.plans.get(key) or self._plan(key, x, positions, out=out)
        full_width = plan.kernel is rotate_full_width
        cos, sin = self._tables.aligned_tables(
            plan.x_axes, positions, offset, plan.backend, full_width=full_width
        )
        return plan, cos, sin

    def _plan(
        self, key: Any, x: Array, positions: Array, name: str = "positions", out: Array = None
    ) -> RotationPlan:
        """Check the arrays of a call, and return its plan."""
        backend = get_backend(x=x, **namespace.drop_none(**{name: positions, "out": out}))
        x_axes = axes.input_axes(x, backend, self, "head_size", complex_pairs=True)
        x_axes = self._tables.with_positions(x_axes, positions, backend, name, for_heads=True)
        inputs = () if positions is None else (positions,)
        plan = plan_rotation(x_axes.feature_axis, self, backend, x, out, *inputs)._replace(
            x_axes=x_axes
        )
        # Values of half-precision positions are checked in each call.
        if key and (positions is None or dtypes.dtype_name(positions.dtype) not in dtypes.HALF):
            remember(self._tables.plans, key, plan)
        return plan

    def tables(
        self,
        positions: Array | Sequence[int],
        /,
        *,
        xp: Namespace | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
    ) -> RotaryTables:
        """Return cosine and sine at positions, computed once for many calls.

        In a step of a model the queries and keys of all layers have the same positions.

        Parameters
        ----------
        positions : array, or sequence of int
            Positions, as in a call of the layer, such as ``step.positions`` of a `KVCache`.
        xp, dtype, device : optional
            Array library (NumPy if None), real dtype and device of the arrays to rotate. The
            library and the device apply only to a sequence such as ``range(100)``. The dtype is the
            library's default if None; half precision is rotated by float32 tables. Except in NumPy,
            tables of a wider dtype than the rotated array are cast in each call.

        Returns
        -------
        RotaryTables
            ``tables(q)`` equals ``rope(q, positions=positions)``. Its `cos` and `sin` include the
            `attention_factor`. Other functions also need the layout:
            ``apply_rope(q, tables.cos, tables.sin, layout=rope.layout, ...)``.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If `positions` have no axis, lack the leading axis of coordinates for `sections`, or are
            too large for half precision, or the device does not support `dtype`.

        Examples
        --------
        >>> import numpy as np
        >>> rope = RoPE(64, 1024, feature_axis=-1, seq_axis=-2)
        >>> q, k = np.ones((2, 8, 100, 64)), np.ones((2, 4, 100, 64))
        >>> tables = rope.tables(np.arange(100))
        >>> np.array_equal(tables(q), rope(q)), np.array_equal(tables(k), rope(k))
        (True, True)
        >>> tables.cos.shape
        (100, 32)
        """
        array: Any = positions
        if isinstance(array, list | tuple | range):
            backend = backend_for(xp, device)
            numbers = checks.sequence_of("positions", array)
            max_position = dtypes.largest_integer(backend.int_dtype, backend.xp)
            if (wrong := next((n for n in numbers if abs(n) > max_position), None)) is not None:
                raise wrong_value(
                    "positions", f"hold positions within {max_position}", format_value(wrong)
                )
            array = backend.xp.asarray(numbers, dtype=backend.int_dtype, device=backend.device)
        else:
            backend = get_backend(positions=array)
            checks.omitted("where `positions` is an array", wrong_type, xp=xp, device=device)
        backend = backend.with_dtype(
            checks.float_dtype(dtype, backend.default_float_dtype, backend)
        )
        order: axes.Order = "F" if axes.has_features_last(self) else "C"
        return RotaryTables(self, self._tables.tables_of_positions(array, order, backend))

    def shift(self, x: ArrayT, delta: Any, /) -> ArrayT:
        """Shift the positions of a rotated array, such as cached keys.

        Parameters
        ----------
        x : array
            Result of a call.
        delta : int, float or array
            Number of positions to add, of any sign, or an array in the form of the `positions` of a
            call.

        Returns
        -------
        array
            Shape and dtype of `x`. Half precision is rotated in float32.

        Raises
        ------
        TypeError
            If `x` does not hold floating-point numbers, or `delta` is neither a number nor
            an array of its library.
        ValueError
            If `x` or `delta` has the wrong shape, a number is beyond 2**60 positions, or an array
            is too large for half precision.
        """
        is_number = namespace.is_real_number(delta) or not hasattr(delta, "shape")
        number = _checked_shift(delta) if is_number else 0
        if not (is_number or delta.shape):  # the same for all positions
            backend = get_backend(x=x, delta=delta)
            x_axes = axes.input_axes(x, backend, self, "head_size", complex_pairs=True)
            seq_len = axes.length(x, x_axes.seq_axis)
            delta = backend.xp.broadcast_to(delta, (*self._tables.coordinate_shape, seq_len))
        plan = self._plan(None, x, None if is_number else delta, "delta")
        backend, x_axes = plan.backend, plan.x_axes
        if is_number:
            cos, sin = self._tables.tables_of_number(number, x_axes, backend)
        else:
            cos, sin = self._tables.aligned_tables(x_axes, delta, 0, backend)
        return rotate(x, cos, sin, plan, divisor=self.attention_factor)

    @classmethod
    def from_hf_config(
        cls,
        config: Mapping[str, Any] | str | PathLike[str],
        seq_len: int | None = None,
        **options: Any,
    ) -> "RoPE":
        """Return the rotary embedding of a model from its Hugging Face ``config.json``.

        Scores of queries and keys equal the scores of the model in transformers. An unknown
        ``model_type`` raises an error if `layout` is None. So does a model without rotation, or one
        whose layers rotate differently.

        Parameters
        ----------
        config : dict or path
            The configuration, its file or its folder, with ``rope_theta`` and ``rope_scaling``, or
            with ``rope_parameters``. A ``text_config`` in it is read instead; pass another part,
            such as ``vision_config``, by itself. Missing keys have the defaults of transformers.
        seq_len : int, optional
            Number of positions in the table, the configuration's
            ``max_position_embeddings`` if None. Dynamic NTK and LongRoPE depend on it;
            LongRoPE requires it.
        **options : Any
            `layer_type` if the types of layers have different parameters, and arguments
            of `RoPE`, such as `feature_axis` or `layout`, which override the configuration.

        Returns
        -------
        RoPE
            Head size, base, partial rotation, scaling and sections of the configuration, in the
            layout of its ``model_type``. Models of images have two sections: positions are rows and
            columns of patches, from `grid_positions`.

        Raises
        ------
        TypeError
            If the configuration is not a dict, or a number or a flag in it is of another kind.
        ValueError
            If the file is not JSON, the model's rotation is unknown, a type or a key of the rotary
            parameters is unknown or missing, or layers differ. The message suggests a remedy.

        See Also
        --------
        layers_from_hf_config : The rotary embedding of each layer.

        Examples
        --------
        >>> RoPE.from_hf_config({
        ...     "model_type": "llama", "hidden_size": 576, "num_attention_heads": 9,
        ...     "rope_theta": 100_000, "max_position_embeddings": 2048,
        ... }).head_size
        64

        Other models need an explicit layout:

        >>> RoPE.from_hf_config({
        ...     "model_type": "my_model", "head_dim": 64, "max_position_embeddings": 2048,
        ... }, layout="interleaved").layout
        'interleaved'

        DINOv3 rotates by the centres of patches, with image coordinates from -1 to 1:

        >>> import numpy as np
        >>> from positional_embeddings import grid_positions
        >>> rope = RoPE.from_hf_config({"model_type": "dinov3_vit", "hidden_size": 384})
        >>> height, width = 14, 16
        >>> patches = grid_positions((height, width), dtype=np.float64)
        >>> centres = (2 * patches + 1) / np.asarray([[height], [width]]) - 1
        >>> rope(np.ones((64, height * width, 6)), positions=centres).shape
        (64, 224, 6)
        """
        layer_type, layout = options.pop("layer_type", None), options.pop("layout", None)
        arguments = config_readers["rope"](config, seq_len, layer_type, layout)
        return cls(**(arguments | options))

    @classmethod
    def layers_from_hf_config(
        cls,
        config: Mapping[str, Any] | str | PathLike[str],
        seq_len: int | None = None,
        **options: Any,
    ) -> "list[RoPE | None]":
        """Return the rotary embedding of each layer of a model, or None for layers without one.

        Parameters
        ----------
        config : dict or path
            As in `from_hf_config`, with the number of layers.
        seq_len : int, optional
            Number of positions in the tables, as in `from_hf_config`.
        **options : Any
            Arguments of `RoPE`, which override the configuration.

        Returns
        -------
        list of RoPE or None
            One per layer. Layers with the same rotation share one object; layers without rotation
            or attention have None.

        Raises
        ------
        TypeError, ValueError
            As in `from_hf_config`, except that layers may differ; also if the configuration has
            neither the number nor the types of the layers.

        Examples
        --------
        SmolLM3 does not rotate queries and keys in every fourth layer:

        >>> ropes = RoPE.layers_from_hf_config({"model_type": "smollm3", "num_hidden_layers": 8})
        >>> [rope is not None for rope in ropes]
        [True, True, True, False, True, True, True, False]

        Gemma 3 has another base in layers with full attention:

        >>> ropes = RoPE.layers_from_hf_config({"model_type": "gemma3_text"})
        >>> [rope.base for rope in ropes[:6]]
        [10000.0, 10000.0, 10000.0, 10000.0, 10000.0, 1000000.0]
        """
        layers, arguments = config_readers["layers"](config, seq_len, options.pop("layout", None))
        ropes = {layer: cls(**(values | options)) for layer, values in arguments.items()}
        shared = {rope: rope for rope in ropes.values()}
        return [shared[ropes[layer]] if layer in ropes else None for layer in layers]

    @property
    def inv_freq(self) -> HostArray:
        """Frequencies in radians per position, float64 NumPy array (rotated features / 2,)."""
        radians = frequencies.in_radians(self._tables.frequencies)
        return read_only(np.asarray(radians, dtype=np.float64))

    @property
    def attention_factor(self) -> float:
        """Factor of `scaling` on cosine and sine; 1 without `scaling`."""
        return self._tables.factor

    @property
    def cos(self) -> HostArray:
        """Cosine table, float64 NumPy array (rotated features / 2, seq_len), read-only."""
        return self._tables.full_tables()[0]

    @property
    def sin(self) -> HostArray:
        """Sine table, float64 NumPy array (rotated features / 2, seq_len), read-only."""
        return self._tables.full_tables()[1]


def _checked_shift(delta: Any) -> float:
    """Check a shift and return it, as an exact int if it is an integer."""
    number = checks.finite_number("delta", delta)
    if abs(number) > MAX_SHIFT:
        raise wrong_value("delta", "be within 2**60 positions", format_value(number))
    return int(number) if number == int(number) else number
