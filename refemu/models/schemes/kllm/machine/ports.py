"""The ports of KLLM's units, with arrays shaped for them, for the operations of one block."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu import units
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.operands import Operands
from refemu.units.kllm import pe_lane
from refemu.units.kllm.index_matmul import Scores
from refemu.units.kllm.kllm_chip import ChipSizes, Product
from refemu.units.unit import Config


class Ports:
    """The units for one block at their ports, and the scheme's operands."""

    def __init__(self, operands: Operands, layer: int, machine: KllmMachine | None = None) -> None:
        """operands: of the scheme. layer: block. machine: options of the chip."""
        self.machine: KllmMachine = machine or KllmMachine()
        self.chip: ChipSizes = self.machine.chip
        self.operands: Operands = operands
        self.layer: int = layer
        self.static: list[str] = []  #: activations whose outliers no unit searched

    def __repr__(self) -> str:
        return f"Ports(layer={self.layer})"

    def full(self, name: str) -> str:
        """Name of a tensor of the block."""
        return f"blk.{self.layer}.{name}"

    def encode(self, tensor: str, x: np.ndarray) -> KMeansTensor:
        """The scheme's indices of an activation, float32 (tokens, size)."""
        return self.operands.encode(self.full(tensor), x)

    def outliers(self, tensor: str, size: int) -> int:
        """Outliers that Orizuru pops on each side; 0 if it is not used."""
        limits = self.operands.formats[self.full(tensor)].outliers
        return limits.count(size) if isinstance(limits, TopK) else 0

    def multiply(self, a: KMeansTensor | Scores, b: KMeansTensor, **options: Any) -> Product:
        """A product on the lanes of the chip, edge by edge. options: for `kllm_chip.matmul`."""
        from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled

        return kllm_chip_compiled.matmul(a, b, chip=self.chip, preset=self.operands.config.preset, **options)

    def lane(self, a_bits: int, b_bits: int, integer: bool = False) -> dict[str, Any]:
        """Parameters of a lane, and the number of lanes."""
        sizes = self.chip
        lane = sizes.lane(a_bits, b_bits, integer)
        names = Config(**pe_lane.UNIT.configs["column"])
        return {"lanes": sizes.lanes, **{name: getattr(lane, name) for name in names if name != "counter_bits"}}

    def evaluate(self, unit: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
        """Result of the compiled unit for arrays (cases, lanes); a scalar is (cases,)."""
        return units.find(unit).evaluate(config, inputs)
