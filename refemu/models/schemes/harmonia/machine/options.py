"""Options of Harmonia's accelerator, by default as in the paper: clock and memory of §V-A, tiles, buffers, and what the
paper leaves open.

Paper: [harmonia §IV-A, §IV-D, §V-A, §V-C].
"""

from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.machine.system import MEMORY, Price, System
from refemu.models.schemes.harmonia.machine.flow import Port
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, FP16, INT4, Format
from refemu.units.declaration import decides
from refemu.units.harmonia.fdgf import BType, FdgfController
from refemu.units.harmonia.harmonia_core import Codes

MHZ, GB, KB = 10**6, 10**9, 8 << 10
MACS = 8 * 16 * 32  #: products of all PEs in a clock, of 8 by 4 bits [harmonia §IV-A]
LEAST = 32  #: rows or columns of the smallest tile
B_TYPES: dict[Format, BType] = {INT4: "int4", BFP8: "bfp8", BFP4: "bfp4"}  #: of B for FDGF

Design: TypeAlias = Literal["harmonia", "fp16", "fp-int", "figna", "anda"]


class Datapath(NamedTuple):
    """Formats of a design, and clocks of a group of 32 in a PE (D-harmonia-62)."""

    linear: Format  #: inputs of linear layers
    weights: int  #: clocks with INT4 weights
    attention: Format | None = None  #: queries, keys, values, scores; None: those of the scheme
    products: int = 0  #: clocks of a group of them

    @property
    def converts(self) -> bool:
        """Whether results become block floating point."""
        return self.attention is None


#: fp16 by fp16: 11 by 11 bits are 2 x 3 products of 8 by 4; fp16 by INT4: 2; FIGNA multiplies 16 bits, Anda 8 in series
DESIGNS: dict[Design, Datapath] = {
    "harmonia": Datapath(BFP8, 1),
    "fp16": Datapath(FP16, 6, FP16, 6),
    "fp-int": Datapath(FP16, 2, FP16, 6),
    "figna": Datapath(FP16, 2, FP16, 6),
    "anda": Datapath(BFP8, 1, FP16, 6),
}


@parameters
class HarmoniaMachine:
    """Options of the accelerator."""

    tile_m: int = 64  #: most rows of a tile of A
    tile_k: int = 64  #: most columns of a tile of B
    sram_kb: int = 4096  #: buffers of both operands, two tiles each (D-harmonia-61)
    #: FDGF: the dataflow that reads fewer elements, or fewer stored bits, or one of both (D-harmonia-31)
    dataflow: Literal["fewer", "bits", "column", "row"] = "fewer"
    lanes: int = 8  #: values that the vector unit takes in a clock (D-harmonia-50)
    clock: int = 300  #: MHz
    memory_gb: int = 256  #: GB/s of the memory
    overlap: Literal["none", "tiles"] = "tiles"  #: whether tiles are loaded while the array works
    array: Literal["overlap", "drain"] = "overlap"  #: whether tiles overlap in the array (D-harmonia-58)
    future: Literal["skip", "compute"] = "skip"  #: tiles of keys that no query of a pass may see (D-harmonia-59)
    heads: Literal["shared", "separate"] = "shared"  #: query heads of a KV head in one product (D-harmonia-60)
    codes: Codes = "sets"  #: rows that see other widths (D-harmonia-46)
    design: Design = "harmonia"  #: a baseline on the same timeline instead (D-harmonia-62)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "accelerator")
        for name in ("sram_kb", "lanes", "clock", "memory_gb"):
            require_int(getattr(self, name), 1, 1 << 20, "accelerator", name)
        for name in ("tile_m", "tile_k"):
            value = getattr(self, name)
            require_int(value, LEAST, 1 << 13, "accelerator", name)
            if value % LEAST:
                raise Refused(f"accelerator: {name} must be a multiple of {LEAST}, got {value}")
        if self.dataflow == "bits" and self.design != "harmonia":
            raise Refused(f"accelerator: dataflow=bits counts bits of design=harmonia, got {self.design}")

    @property
    def datapath(self) -> Datapath:
        """Formats of the design."""
        return DESIGNS[self.design]

    @decides("D-harmonia-31")
    def force(self, rows: int, inner: int, columns: int, tiles: tuple[int, int], b: Format) -> int:
        """Dataflow that FDGF must take for a product; 0: the one that reads fewer elements."""
        if self.dataflow == "bits":
            return FdgfController(*tiles, "bits", B_TYPES[b]).choose(rows, inner, columns)
        return {"fewer": 0, "column": 1, "row": 2}[self.dataflow]

    @decides("D-harmonia-61")
    def tiles(self, rows: int, inner: int, columns: int, a: Format, b: Format) -> tuple[int, int]:
        """Rows and columns of the tiles of a product: the largest up to `tile_m` and `tile_k` that the buffers hold."""
        sizes = [self._tile(self.tile_m, rows), self._tile(self.tile_k, columns)]
        bits = [codes + shared for codes, shared in (each.of(inner) for each in (a, b))]
        while 2 * (sizes[0] * bits[0] + sizes[1] * bits[1]) > self.sram_kb * KB:
            if max(sizes) == LEAST:
                need = -(-2 * LEAST * (bits[0] + bits[1]) // KB)
                raise Refused(
                    f"accelerator: sram_kb must be at least {need} for tiles of {LEAST} with a reduction of {inner}, "
                    f"got {self.sram_kb}"
                )
            first = sizes[0] > LEAST and (sizes[1] == LEAST or sizes[0] * bits[0] >= sizes[1] * bits[1])
            sizes[0 if first else 1] -= LEAST
        return sizes[0], sizes[1]

    @staticmethod
    def _tile(most: int, size: int) -> int:
        return min(most, -(-size // LEAST) * LEAST)

    def port(self, fed: bool) -> Port:
        """Rates of the timeline. fed: whether operands come from the memory, or are there at once."""
        rate = Fraction(8 * self.memory_gb * GB, self.clock * MHZ) if fed else None
        return Port(rate, self.lanes, self.array)

    @property
    def system(self) -> System:
        """Resources and prices."""
        place = "harmonia §V-A"
        return System(
            "Harmonia's accelerator" if self.design == "harmonia" else f"{self.design} on Harmonia's timeline",
            self.clock * MHZ,
            Fraction(self.memory_gb * GB, self.clock * MHZ),
            MACS,
            self.overlap,
            {
                "clock": place,
                "rate": f"{self.memory_gb} GB/s, {place}",
                "peak": "8 x 16 PEs of 32 products of 8 by 4 bits, harmonia §IV-A",
            },
            {MEMORY: Price(Fraction("3.9"), "bit", place)},
            "the paper gives 542 mW for all parts together",
        )
