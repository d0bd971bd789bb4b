"""What models of Hugging Face do with positions, by `model_type`.

`facts.json` is written by `.ci/write_models.py`, which runs the models of transformers. A
line has, as far as a model needs them:

- `layout`; `interleave`: whether its code reads ``rope_interleave``.
- `defaults`: values that its configuration may leave out.
- `names`: the keys that its configuration has in place of the usual ones.
- `bases`: for each type of layers the default of its base, and the keys that set it;
  `scaled`: the types of layers that ``rope_scaling`` is for. `base_keys`: the keys that set the
  base of all layers, if not the usual ones; `own_bases`: whether ``layer_rope_theta`` does.
- `ignored`: rotary parameters that are no part of the rotation.
- `types`: the rule for layers where the configuration lists no types: one in `every` is a `type`,
  layer `at` the first, and the rest are `others`, but for the `last` layer; `key` is the key of
  another period.
- `rotates`: the types of layers that rotate; `windowless`: those without a sliding window.
- `share`: whether its code reads which share of the features rotates.
- `sections`: the order of sections; `axial`: the number of coordinates, and the frequencies.
- `optional`: it rotates only if ``position_embedding_type`` says so.
- `unrotated`: it does not rotate. `text`, `vision`: the `model_type` of its text model, and of its
  model of images if that rotates.
- `ask`, `refused`: why no `RoPE` is made without a `layout`, or at all.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any


@cache
def models() -> dict[str, dict[str, Any]]:
    """Return what is known of each `model_type`."""
    import json  # noqa: PLC0415 - take long to import
    from importlib import resources  # noqa: PLC0415

    file = resources.files(__package__).joinpath("facts.json")
    return json.loads(file.read_bytes())["models"]  # type: ignore[no-any-return]


def facts_of(model_type: str | None) -> Mapping[str, Any]:
    """Return what is known of a `model_type`, nothing if it is unknown."""
    return models().get(str(model_type), {})
