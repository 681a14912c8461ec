"""Descriptor of harmonia_core: one matrix product through the whole accelerator. [harmonia §IV-A, Fig. 12]"""

import inspect
from typing import Any

from refemu.units.declaration import DeclaredState
from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.stepping import Result
from refemu.units.unit import AnyUnit, Config, Flag, RunFunction, Unit


def _config(kind: str, rows: int, inner: int, columns: int, b_type: str = "int4", **others: Any) -> Config:
    usual = {name: each.default for name, each in inspect.signature(HarmoniaCore).parameters.items()}
    return Config(**usual | {"kind": kind, "rows": rows, "inner": inner, "columns": columns, "b_type": b_type} | others)


UNIT: AnyUnit = Unit(
    unit_class=HarmoniaCore,
    version=2,
    paper="harmonia §IV-A, Fig. 12",
    meaning="one product through all steps of the accelerator",
    configs={
        "linear": _config("linear", 3, 40, 33, activation="silu"),
        "k": _config("k", 9, 8, 32, head_dim=16),
        "decode": _config("k", 2, 8, 16, head_dim=16, start=4000, rotation="interleaved"),
        "v": _config("v", 11, 32, 17, m=4),
        "score": _config("score", 3, 32, 35, "bfp8", start=30),
        "placed": _config("k", 6, 8, 16, head_dim=16, window=4, rotation="interleaved", positions="port"),
        "keys": _config("score", 3, 16, 18, "mixed", start=15),
        "values": _config("final", 3, 70, 5, "mixed"),
        "bias": _config("linear", 2, 8, 17, activation="gelu_tanh", bias_add="after"),
    },
    flags={"SUBNORMAL": Flag(0, "a result is subnormal in FP16")},
)
State: type[DeclaredState] = HarmoniaCore.State
run: RunFunction[Result] = UNIT.run
