"""Cost of a whole run on the scheme's accelerator, by layer and kind of work; no unit is stepped.

The function `cost` of a scheme computes the cost of a call of one of its parts from sizes and masks alone. The units of
the accelerator count the same when they run the operations.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from refemu import models
from refemu.arith.checks import Refused, require_choice, require_int
from refemu.models import schemes
from refemu.models.encoder.config import EncoderConfig
from refemu.models.machine import totals
from refemu.models.machine.options import options as options_of
from refemu.models.machine.options import others, require_effect
from refemu.models.machine.report import Absent, Blocks, Call, Cost
from refemu.models.machine.runner import PHASES, Phase, observed, prompt, require_parts
from refemu.models.machine.schedule import Placed, placed
from refemu.models.machine.shapes import find
from refemu.models.machine.system import System
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.kind import kind_of
from refemu.models.schemes.registry import costs as costs_of
from refemu.models.schemes.scheme import Progress

WORDS = ("weights", "activations", "kv")  #: kinds of words


@dataclass(frozen=True)
class LayerCost:
    """Cost of one kind of work in one layer."""

    layer: int  #: block, from 0; -1 is the head
    kind: str  #: "quantize", "linear", "attention", ...
    cost: Cost
    count: int = 1  #: equal layers in sequence that the row stands for, this one included

    @property
    def blocks(self) -> range:
        """Numbers of the layers."""
        return range(self.layer, self.layer + self.count)


@dataclass(frozen=True)
class CostReport:
    """Cost of a run."""

    model: str
    scheme: str
    tokens: int  #: tokens of the prompt, or before the decode step
    phase: str
    layers: tuple[LayerCost, ...]
    batch: int = 1  #: requests of the same lengths
    system: System | None = None  #: None: the machine has no records of work yet
    sections: tuple[totals.Section, ...] = ()  #: records of the blocks, in order
    not_on_the_machine: tuple[Absent, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return plain lists, dictionaries and numbers.

        Returns
        -------
        dict
            Fields by name; a row has those of its cost, and the sums of its records of work.
        """
        rows = []
        for row in self.layers:
            plain = {field.name: getattr(row.cost, field.name) for field in dataclasses.fields(row.cost)}
            del plain["works"]
            plain |= {"macs": dict(row.cost.macs), "words": dict.fromkeys(WORDS, 0) | dict(row.cost.words)}
            plain |= {"cycles": row.cost.cycles or None} | self.measured(row)
            rows.append({"layer": row.layer, "count": row.count, "kind": row.kind, **plain})
        head = {"model": self.model, "scheme": self.scheme, "tokens": self.tokens, "phase": self.phase}
        absent = [dataclasses.asdict(entry) for entry in self.not_on_the_machine]
        return {**head, "batch": self.batch, "layers": rows, "not_on_the_machine": absent, "total": self.total}

    def line(self, section: totals.Section) -> list[Placed]:
        """Place the operations of a block on the machine's schedule.

        Parameters
        ----------
        section : Section
            One of `sections`.

        Returns
        -------
        list of Placed
            Starts and ends.
        """
        return placed(section.works, self.system) if self.system else []

    def measured(self, row: LayerCost) -> dict[str, Any]:
        """Sum the records of a row.

        Parameters
        ----------
        row : LayerCost
            One of `layers`.

        Returns
        -------
        dict
            Sums as in JSON; empty without records.
        """
        if self.system is None or not row.cost.works:
            return {}
        section = next(each for each in self.sections if each.layer == row.layer)
        return totals.of_works(row.cost.works, self.line(section), self.system).as_json(self.system)

    @property
    def total(self) -> dict[str, Any] | None:
        """What the run adds up to; None without records of work."""
        if self.system is None:
            return None
        tokens = self.batch * (self.tokens if self.phase == "prompt" else 1)
        return totals.total(self.sections, self.system, tokens)


def counters(rows: Iterable[LayerCost]) -> dict[str, int]:
    """Every count of some rows by name: "blk.3.linear.cycles", "head.linear.words.weights", ..."""
    return dict(item for row in rows for layer in row.blocks for item in _counters(row, layer))


def _counters(row: LayerCost, layer: int) -> Iterable[tuple[str, int]]:
    place = f"{'head' if layer < 0 else f'blk.{layer}'}.{row.kind}"
    for name in ("index_operations", "comparisons", "conversions", "cycles"):
        yield f"{place}.{name}", getattr(row.cost, name)
    for name in ("macs", "words"):
        yield from ((f"{place}.{name}.{part}", count) for part, count in getattr(row.cost, name).items())


class Meter:
    """Adds up the cost of every call of a prepared model's parts."""

    def __init__(self, prepared: Any, options: Any = None) -> None:
        """prepared: of a scheme that has costs. options: of its machine, by default those of the paper.

        Raises Refused for other schemes and for a model with parts without costs.
        """
        require_parts(prepared.name, prepared.model)
        self._prepared, self._costs = prepared, costs_of(prepared.config)
        chosen = options_of(prepared.config, options or "")
        self._options = () if chosen is None else (chosen,)
        self.clear()

    def __repr__(self) -> str:
        return f"Meter({self._prepared!r}, {len(self._rows)} rows)"

    def clear(self) -> None:
        """Reset all counts."""
        self._rows: dict[tuple[int, str], Cost] = {}
        self._works: dict[int, tuple[Any, ...]] = {}

    def watched(self) -> Any:
        """The prepared model whose calls are counted."""
        return observed(self._prepared, self.add)

    def add(self, layer: int, call: Call) -> None:
        """Add the cost of a call."""
        for kind, cost in self._costs(self._prepared, layer, call, *self._options):
            self._rows[layer, kind] = self._rows.get((layer, kind), Cost()) + cost
            self._works[layer] = self._works.get(layer, ()) + cost.works

    @property
    def counters(self) -> dict[str, int]:
        """All counts so far, by name."""
        return counters(self.layers())

    def layers(self) -> tuple[LayerCost, ...]:
        """The rows so far, by block; the head is last."""
        blocks = [LayerCost(layer, kind, cost) for (layer, kind), cost in self._rows.items() if layer >= 0]
        return (*blocks, *(LayerCost(layer, kind, cost) for (layer, kind), cost in self._rows.items() if layer < 0))

    def blocks(self) -> list[Blocks]:
        """The costs so far, equal blocks in sequence together; the head is last."""
        costs: dict[int, tuple[tuple[str, Cost], ...]] = {}
        for row in self.layers():
            costs[row.layer] = (*costs.get(row.layer, ()), (row.kind, row.cost))
        found: list[Blocks] = []
        for layer, mine in costs.items():
            if found and found[-1].costs == mine and layer >= 0:
                found[-1] = dataclasses.replace(found[-1], count=found[-1].count + 1)
            else:
                found.append(Blocks(layer, 1, mine))
        return found

    def sections(self, blocks: Sequence[Blocks]) -> tuple[totals.Section, ...]:
        """Records of blocks, in the order of the work."""
        return tuple(totals.Section(each.layer, each.count, self._works.get(each.layer, ())) for each in blocks)


def run(
    model: Model | str,
    scheme: str,
    tokens: int = 16,
    phase: Phase = "prompt",
    backend: str = "jit",
    progress: Progress | None = None,
    token_ids: Sequence[int] | None = None,
    calibration: Sequence[int] | None = None,
    options: Any = "",
) -> CostReport:
    """Run a model under a scheme and add up what its accelerator would do.

    Parameters
    ----------
    model : Model or str
        Decoder, or a name that `models.load` knows.
    scheme : str
        `name:parameter=value,...` of a scheme with a accelerator.
    tokens : int
        Tokens of the prompt, from the start of the text that refemu ships, or of `token_ids`.
    phase : {"prompt", "decode"}
        The prompt, or the token after it.
    backend : str
        Backend of the scheme.
    progress : callable, optional
        Called as progress(what, done, total).
    token_ids : sequence of int, optional
        Token ids instead of the text.
    calibration : sequence of int, optional
        Token ids for schemes that calibrate, as for `refemu.models.prepare`.
    options : str or object
        Options of the machine, `name=value,...`, where the scheme's machine has some.

    Returns
    -------
    CostReport
        A row for every kind of work in every layer, equal layers together.

    Raises
    ------
    Refused
        A scheme without an accelerator, an encoder, more tokens than the context holds, or an option that changes no
        number.

    References
    ----------
    [olive §4.3; kllm §IV-A]
    """
    config = schemes.find(scheme)
    costs_of(config)
    require_choice(phase, PHASES, "cost", "phase")
    loaded = models.load(model) if isinstance(model, str) else model
    if isinstance(loaded.config, EncoderConfig):
        raise Refused(f"cost: {loaded.name} is an encoder; decoders have machines")
    require_int(tokens, 1, loaded.config.context - (phase == "decode"), "cost", "tokens")
    ids = prompt(loaded, token_ids, tokens + (phase == "decode"), "cost")
    chosen = options_of(config, options)
    prepared = models.prepare(loaded, config, backend, calibration, progress)
    meters = [Meter(prepared, each) for each in (chosen, *others(chosen).values())]
    session = Session(observed(prepared, lambda layer, call: [meter.add(layer, call) for meter in meters]))
    session.append(ids[:tokens], last=True)
    if phase == "decode":
        for meter in meters:
            meter.clear()
        session.append(ids[tokens : tokens + 1], last=True)
    name, text, left_out = loaded.name, schemes.text(config), kind_of(config).absent

    def report(meter: Meter, some: Any) -> CostReport:
        blocks = meter.blocks()
        sections = meter.sections(blocks)
        system = some.system if some is not None else None
        absent = tuple(left_out(prepared)) if left_out else ()
        return CostReport(name, text, tokens, phase, _rows(blocks), 1, system, sections, absent)

    measured = dict(zip((chosen, *others(chosen).values()), meters, strict=True))
    require_effect(chosen, lambda some: report(measured[some], some).as_json())
    return report(meters[0], chosen)


def of_shape(
    shape: str, scheme: str, tokens: int = 2048, phase: Phase = "prompt", batch: int = 1, options: Any = ""
) -> CostReport:
    """Add up what an accelerator would do for a model of known sizes, without weights.

    Parameters
    ----------
    shape : str
        Name in `shapes.SHAPES`: "llama-2-7b", ...
    scheme : str
        `name:parameter=value,...` of a scheme whose accelerator takes shapes.
    tokens : int
        Tokens of each prompt, or before the decode step.
    phase : {"prompt", "decode"}
        The prompts, or the token after each.
    batch : int
        Requests of these lengths at once.
    options : str or object
        Options of the machine, `name=value,...`.

    Returns
    -------
    CostReport
        A row for every kind of work in a block, one for all equal blocks, and the head.

    Raises
    ------
    Refused
        A scheme without such an accelerator, an unknown shape, decoding of an encoder, an option that changes no
        number.
    """
    config, sizes = schemes.find(scheme), find(shape)
    costs_of(config)
    function = kind_of(config).shape
    if function is None:
        raise Refused(f"cost: the accelerator of scheme {schemes.name(config)} takes no shapes; use --model")
    require_choice(phase, PHASES, "cost", "phase")
    require_int(tokens, 1, 1 << 20, "cost", "tokens")
    require_int(batch, 1, 1 << 16, "cost", "batch")
    if sizes.encoder and phase == "decode":
        raise Refused(f"cost: phase must be prompt for the encoder {shape}, got decode")
    chosen, text = options_of(config, options), schemes.text(config)

    def report(some: Any) -> CostReport:
        blocks, absent = function(config, sizes, tokens, phase, batch, some)
        sections = tuple(
            totals.Section(each.layer, each.count, tuple(work for _, cost in each.costs for work in cost.works))
            for each in blocks
        )
        return CostReport(shape, text, tokens, phase, _rows(blocks), batch, some.system, sections, tuple(absent))

    require_effect(chosen, lambda some: report(some).as_json())
    return report(chosen)


def _rows(blocks: Sequence[Blocks]) -> tuple[LayerCost, ...]:
    """A row for every kind of work of every block; costs of one kind are added."""
    rows: dict[tuple[int, str], LayerCost] = {}
    for each in blocks:
        for kind, cost in each.costs:
            before = rows.get((each.layer, kind), LayerCost(each.layer, kind, Cost(), each.count))
            rows[each.layer, kind] = dataclasses.replace(before, cost=before.cost + cost)
    return tuple(rows.values())
