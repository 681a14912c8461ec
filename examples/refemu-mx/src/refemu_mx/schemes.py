"""Schemes that compute a decoder's linear layers on MX or NVFP4 values; all else is refemu's scheme `fp16`.

Weights and inputs of every linear layer of a block are encoded along the inputs of the layer and decoded; the products
of the decoded values are added in float32, input 0 first, and rounded to fp16 once. The output matrix stays FP16.
Decisions: D-mx-13 (a weight matrix has one factor of NVFP4, an activation one for each token, so that a decode step
gives the bits of the prefill), D-mx-15 (weights are encoded from fp16).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from refemu.arith import Refused
from refemu.models import Model, Prepared, Progress, Scheme, SchemeKind, quantized
from refemu_mx.elements import ElementName
from refemu_mx.mx_encoder import RULES, Rule
from refemu_mx.tensors import MxFormat, Nvfp4Format, Share

Name: TypeAlias = Literal["mxfp8", "mxfp8_e5m2", "mxfp6", "mxfp6_e3m2", "mxfp4", "mxint8", "nvfp4"]
ELEMENT_OF: Mapping[str, ElementName] = {
    "mxfp8": "e4m3",
    "mxfp8_e5m2": "e5m2",
    "mxfp6": "e2m3",
    "mxfp6_e3m2": "e3m2",
    "mxfp4": "e2m1",
    "mxint8": "int8",
}


@dataclass(frozen=True)
class MxConfig(Scheme):
    """Parameters of the schemes."""

    paper: ClassVar[str] = "ocp MX 1.0"
    every_decoder: ClassVar[bool] = True
    halves = ("linear",)
    other_half: ClassVar[str] = "MX blocks are of linear layers here: put the scheme of the KV cache last"

    weights: Name = "mxfp4"  #: format of the weights
    activations: Name | None = "mxfp4"  #: format of the inputs of linear layers; None: fp16
    rule: Rule = "floor"  #: of the scales of MX blocks (D-mx-1)

    def __post_init__(self) -> None:
        for what, value in (("weights", self.weights), ("activations", self.activations)):
            if value not in get_args(Name) and not (value is None and what == "activations"):
                raise Refused(f"mx: {what} must be one of {', '.join(get_args(Name))}, got {value!r}")
        if self.rule not in RULES:
            raise Refused(f"mx: rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        if self.rule != "floor" and {self.weights, self.activations} <= {"nvfp4", None}:
            raise Refused(f"mx: rule has no effect without MX blocks, got {self.rule!r}")


def values(name: Name, rule: Rule, share: Share) -> Callable[[np.ndarray], np.ndarray]:
    """A function of float32 (rows, inputs) that encodes and decodes it. share: values under a factor of NVFP4."""
    fmt: Any = Nvfp4Format(share) if name == "nvfp4" else MxFormat(ELEMENT_OF[name], rule)
    return lambda x: fmt.encode(x).decode()  # type: ignore[no-any-return]


def prepare(config: MxConfig, model: Model, backend: Any, calibration: object, progress: Progress) -> Prepared:
    """Prepare a decoder, or the linear layers of a mix. calibration: not used."""
    of_weights = values(config.weights, config.rule, "tensor")
    name = config.activations
    of_inputs = (lambda x: x) if name is None else values(name, config.rule, "row")
    return quantized(model, config, backend, progress, lambda _, rows: of_weights(rows.astype(np.float32)), of_inputs)


READY: tuple[Name, ...] = ("mxfp8", "mxfp6", "mxfp4", "mxint8", "nvfp4")
SCHEME = SchemeKind(config=MxConfig, prepare=prepare, ready={name: MxConfig(name, name) for name in READY})
