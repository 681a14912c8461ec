"""Options of OliVe's array, by default those of the paper and of the simulator that it extends.

Paper: [olive §4.3, §5.1, §5.4, Table 11]. Decisions: D-olive-57 (clock, port, buffers), D-olive-58 (overlap).
"""

from fractions import Fraction
from typing import Literal, TypeAlias

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.machine.system import Overlap, System
from refemu.units.declaration import decides

MHZ, KB = 10**6, 1024
Reuse: TypeAlias = Literal["least", "activations", "weights"]
DesignName: TypeAlias = Literal["olive", "int8", "ant", "gobo", "olaccel", "adafloat"]


@parameters
class OliveMachine:
    """Options of the array."""

    rows: int = 64  #: rows of 4-bit elements [olive Table 11]
    cols: int = 64  #: columns of 4-bit elements
    pairs: int = 32  #: pairs that the encoder, and the output stage, take a cycle (D-olive-59)
    encoder_stages: int = 2  #: registers from an input to its pair (D-olive-59)
    output_stages: int = 5  #: registers from a sum to its pair (D-olive-59)
    weight_kb: int = 128  #: buffer of weights, two halves (D-olive-57)
    act_kb: int = 256  #: buffer of activations, two halves
    clock: int = 500  #: MHz
    port: int = 128  #: bytes of the external memory a cycle
    overlap: Overlap = "tiles"  #: what the schedule overlaps (D-olive-58)
    reuse: Reuse = "least"  #: the side that stays in its buffer while the other passes (D-olive-60)
    design: DesignName = "olive"  #: OliVe, or another accelerator on the same area (D-olive-61)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "accelerator")
        for name in ("rows", "cols"):
            require_int(getattr(self, name), 2, 1 << 12, "accelerator", name)
            if getattr(self, name) % 2:
                raise Refused(
                    f"accelerator: {name} must be even, since four elements multiply 8 bits, got {getattr(self, name)}"
                )
        for name in ("pairs", "encoder_stages", "output_stages", "weight_kb", "act_kb", "clock", "port"):
            require_int(getattr(self, name), 1, 1 << 20, "accelerator", name)
        for lines, buffer, half in zip(("rows", "cols"), ("act_kb", "weight_kb"), self.halves, strict=True):
            if half < 2 * getattr(self, lines):
                raise Refused(
                    f"accelerator: half of {buffer} must hold a value of 16 bits for each of the {lines}, got {buffer}="
                    f"{getattr(self, buffer)} and {lines}={getattr(self, lines)}; enlarge the buffer"
                )

    @property
    def system(self) -> System:
        """Resources; the paper prices no event."""
        return System(
            "OliVe's array" if self.design == "olive" else f"{self.design} on the area of OliVe's array",
            self.clock * MHZ,
            Fraction(self.port),
            self.rows * self.cols,
            self.overlap,
            {
                "clock": "D-olive-57: simulator of ANT, which olive §5.1 extends",
                "rate": f"{self.port} bytes a cycle, D-olive-57",
                "peak": "4-bit elements, olive Table 11",
            },
            no_price="the paper gives areas (Tables 10, 11) and relative energies (Fig. 9, 10), and prices no event",
        )

    @property
    @decides("D-olive-57")
    def halves(self) -> tuple[int, int]:
        """Bytes of half of the buffers of activations and of weights: one is read while the other fills."""
        return self.act_kb * KB // 2, self.weight_kb * KB // 2
