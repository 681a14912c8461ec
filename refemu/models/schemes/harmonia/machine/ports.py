"""The ports of Harmonia's units, with arrays shaped for them, for the operations of one block."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.machine.report import Operation, differences, unchecked
from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.products import linear
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, INT4, Product
from refemu.models.schemes.harmonia.steps import Units
from refemu.units.harmonia.harmonia_core import HarmoniaCore
from refemu.units.unit import Config

CORE = "harmonia_core"
#: parameters that may have any value: of the cache, of smoothing, and of work outside the units
FREE = frozenset(
    {
        *("high", "low", "n_initial", "n_local", "prefill_window", "bias_add", "residual"),
        *("offline", "online", "smoothing", "target", "calib_tokens", "calib_kv"),
    }
)
WIDTHS = {4: "bfp4", 8: "bfp8"}  #: type of B by mantissa bits


class Ports:
    """The units for one block of a prepared model, at their ports."""

    def __init__(self, prepared: Any, layer: int, machine: HarmoniaMachine | None = None) -> None:
        """prepared: of a Harmonia scheme with the paper's datapath. machine: options of the accelerator."""
        require(prepared)
        self.prepared: Any = prepared
        self.layer: int = layer
        self.machine: HarmoniaMachine = machine or HarmoniaMachine()
        self.steps: Units = prepared.units

    def __repr__(self) -> str:
        return f"Ports(layer={self.layer})"

    def full(self, name: str) -> str:
        """Name of a tensor of the block."""
        return f"blk.{self.layer}.{name}"

    def encode(self, words: np.ndarray, axis: int = -1, m: int | None = None) -> BfpTensor:
        """The scheme's codes of words, by default with the bits of activations."""
        scheme = self.prepared.harmonia
        return self.steps.encode(scheme.format(m or scheme.act_mantissa), words, axis)

    @property
    def kv_type(self) -> str:
        """Type of B for keys or values."""
        scheme = self.prepared.harmonia
        return WIDTHS[scheme.high] if scheme.high == scheme.low else "mixed"

    def heads(self) -> dict[str, Any]:
        """Parameters of queries and keys."""
        model = self.prepared.model
        turned = "interleaved" if model.rope_interleaved else "half"
        rotation = turned if model.positions == "rotary" else "none"
        base = int(model.rope_base) if model.positions == "rotary" else 10000
        return {"head_dim": model.head_dim, "base": base, "rotation": rotation}

    def core(self, kind: str, rows: int, inner: int, columns: int, **options: Any) -> Config:
        """Configuration of a product."""
        usual = {**units.find(CORE).configs["linear"], "activation": "none"}
        machine = self.machine
        sizes = {"kind": kind, "rows": rows, "inner": inner, "columns": columns, "codes": machine.codes}
        b = {"int4": INT4, "bfp4": BFP4}.get(options.get("b_type", "int4"), BFP8)
        tiles = machine.tiles(rows, inner, columns, BFP8, b)
        flow = {"tile_m": tiles[0], "tile_k": tiles[1], "force": machine.force(rows, inner, columns, tiles, b)}
        return Config(**{**usual, **sizes, **flow, **options})

    def linear(self, names: Any) -> Any:
        """The scheme's linear layers that read one input."""
        return self.prepared._linears[self.layer, tuple(names)]

    def evaluate(self, unit: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
        """Result of the compiled unit for arrays (cases, ..., lanes); a scalar has one lane."""
        device = units.find(unit)
        single = {port.name for port in device.ports(Config(**config)).inputs if not port.lanes}
        shaped = {name: array[..., 0] if name in single else array for name, array in inputs.items()}
        return device.evaluate(config, shaped)

    def multiply(
        self,
        name: str,
        config: Config,
        inputs: Mapping[str, np.ndarray],
        kind: str,
        due: np.ndarray,
        codes: Any,
        product: Product | None = None,
        stream: str = "weights",
    ) -> tuple[Operation, Any]:
        """Products of one size on the core, compared with the scheme's words and, if any, codes.

        inputs: arrays by port, (products, ...). due: uint16, expected `y`. codes: signs, mantissas, exponents.
        product: on the timeline, by default a linear layer. stream: of B.
        """
        cases = len(inputs["a_sign"])
        flat = {port: np.asarray(array).reshape(cases, -1) for port, array in inputs.items()}
        answer = self.evaluate(CORE, config, flat)
        counters = {counter: getattr(answer, counter) for counter in HarmoniaCore.counters}
        wrong = differences(np.ravel(answer.y), np.ravel(due))
        for port, wanted in zip(("sign", "mantissa", "exponent"), codes or (), strict=False):
            answered = np.ravel(getattr(answer, port))
            wrong += differences(answered, np.ravel(wanted).astype(answered.dtype))
        product = product or linear(config, self.machine)
        cost = work.cost(name, kind, product, stream, self.machine, cases)
        operation = Operation(
            self.full(name),
            CORE,
            dict(config),
            (cases * config["rows"], config["columns"], config["inner"]),
            due.size + (answer.mantissa.size if codes else 0),
            wrong,
            cost.cycles,
            work.use(product, self.machine, cases),
            {**cost.words, "B to the array": counters["words"], **{f"MACs {m}": n for m, n in cost.macs.items()}},
            kind,
            cost,
            work.flow(product),
            unchecked=unchecked(CORE, config, "y", *(("sign", "mantissa", "exponent") if codes else ())),
        )
        return operation, answer

    def converted(self, name: str, words: np.ndarray, codes: BfpTensor) -> Operation:
        """Conversion of a matrix of words, compared with the scheme's codes."""
        from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled

        done = bfp_converter_compiled.convert(words.view(np.float16), kind="token", m=codes.format.mantissa_bits)
        wrong = 0
        for port in ("sign", "mantissa", "exponent"):
            answered = getattr(done.tensor, port)
            wrong += differences(answered, getattr(codes, port).astype(answered.dtype))
        return Operation(
            self.full(f"{name}.input"),
            "bfp_converter",
            {"m": codes.format.mantissa_bits},
            words.shape,
            words.size,
            wrong,
            done.cycles,
            {"comparators": done.compare_cycles / done.cycles, "aligner": done.align_cycles / done.cycles},
            {"values": words.size},
            "quantize",
            work.converted(f"{name}.input", *words.shape),
            unchecked=unchecked("bfp_converter", {"m": codes.format.mantissa_bits}, "sign", "mantissa", "exponent"),
        )


def require(prepared: Any) -> None:
    """Raise Refused for schemes and models that the units do not support."""
    require_scheme(prepared.harmonia)
    model = prepared.model
    if model.positions == "rotary" and model.rope_base != int(model.rope_base):
        raise Refused(f"machine: the base of the rotary angles must be an integer, got {model.rope_base}")


def require_scheme(scheme: Any) -> None:
    """Raise Refused for another datapath."""
    fixed = {field.name: field.default for field in dataclasses.fields(scheme) if field.name not in FREE}
    other = [name for name, value in fixed.items() if getattr(scheme, name) != value]
    if other or {scheme.high, scheme.low} - {4, 8}:
        names = ", ".join(f"{name}={getattr(scheme, name)}" for name in other or ("high", "low"))
        raise Refused(f"machine: Harmonia's accelerator needs the paper's datapath and 4 or 8 bits of KV, got {names}")
