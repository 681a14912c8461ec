"""Parameters of scheme `fp16`, which every paper's scheme builds on [D-arith-15]."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from refemu.arith.operands import Precision
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.schemes.scheme import Half, Scheme, Scope


@parameters
class Fp16Config(Scheme):
    """Parameters of scheme `fp16`."""

    paper: ClassVar[str] = "docs/fp16-scheme.md"
    encoders: ClassVar[bool] = True
    experts: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("linear", "attention")
    only: ClassVar[Mapping[Scope, frozenset[str]]] = {"linear": frozenset({"acc"}), "outer": frozenset({"residual"})}

    #: accumulator of the linear layers and the head; attention always sums in fp32
    acc: Literal["fp32", "fp32_fma", "fp16", "fp16_fma"] = "fp32"
    residual: Precision = "fp16"  #: "fp16": rounded after every block half; "fp32": never rounded

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "fp16")

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ()


READY = {"fp16": Fp16Config()}  #: by name of the scheme
