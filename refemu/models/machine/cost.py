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
from refemu.models.machine.report import Call, Cost
from refemu.models.machine.runner import PHASES, Phase, observed, prompt, require_parts
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.registry import costs as costs_of
from refemu.models.schemes.scheme import Progress

WORDS = ("weights", "activations", "kv")  #: kinds of words


@dataclass(frozen=True)
class LayerCost:
    """Cost of one kind of work in one layer."""

    layer: int  #: block, from 0; -1 is the head
    kind: str  #: "quantize", "linear", "attention", ...
    cost: Cost


@dataclass(frozen=True)
class CostReport:
    """Cost of a run."""

    model: str
    scheme: str
    tokens: int  #: tokens of the prompt, or before the decode step
    phase: str
    layers: tuple[LayerCost, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain lists, dictionaries and numbers.

        Returns
        -------
        dict
            Fields by name; a row has those of its cost.
        """
        rows = []
        for row in self.layers:
            plain = {**dataclasses.asdict(row.cost), "words": dict.fromkeys(WORDS, 0) | dict(row.cost.words)}
            rows.append({"layer": row.layer, "kind": row.kind, **plain})
        head = {"model": self.model, "scheme": self.scheme, "tokens": self.tokens, "phase": self.phase}
        return {**head, "layers": rows}


def counters(rows: Iterable[LayerCost]) -> dict[str, int]:
    """Every count of some rows by name: "blk.3.linear.cycles", "head.linear.words.weights", ..."""
    return dict(item for row in rows for item in _counters(row))


def _counters(row: LayerCost) -> Iterable[tuple[str, int]]:
    place = f"{'head' if row.layer < 0 else f'blk.{row.layer}'}.{row.kind}"
    for name in ("index_operations", "comparisons", "conversions", "cycles"):
        yield f"{place}.{name}", getattr(row.cost, name)
    for name in ("macs", "words"):
        yield from ((f"{place}.{name}.{part}", count) for part, count in getattr(row.cost, name).items())


class Meter:
    """Adds up the cost of every call of a prepared model's parts."""

    def __init__(self, prepared: Any) -> None:
        """prepared: of a scheme that has costs; raises Refused for others and for a model with parts without costs."""
        require_parts(prepared.name, prepared.model)
        self._prepared, self._costs = prepared, costs_of(prepared.config)
        self.clear()

    def __repr__(self) -> str:
        return f"Meter({self._prepared!r}, {len(self._rows)} rows)"

    def clear(self) -> None:
        """Reset all counts."""
        self._rows: dict[tuple[int, str], Cost] = {}

    def watched(self) -> Any:
        """The prepared model whose calls are counted."""
        return observed(self._prepared, self._add)

    def _add(self, layer: int, call: Call) -> None:
        for kind, cost in self._costs(self._prepared, layer, call):
            self._rows[layer, kind] = self._rows.get((layer, kind), Cost()) + cost

    @property
    def counters(self) -> dict[str, int]:
        """All counts so far, by name."""
        return counters(self.layers())

    def layers(self) -> tuple[LayerCost, ...]:
        """The rows so far, by block; the head is last."""
        blocks = [LayerCost(layer, kind, cost) for (layer, kind), cost in self._rows.items() if layer >= 0]
        return (*blocks, *(LayerCost(layer, kind, cost) for (layer, kind), cost in self._rows.items() if layer < 0))


def run(
    model: Model | str,
    scheme: str,
    tokens: int = 16,
    phase: Phase = "prompt",
    backend: str = "jit",
    progress: Progress | None = None,
    token_ids: Sequence[int] | None = None,
    calibration: Sequence[int] | None = None,
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

    Returns
    -------
    CostReport
        A row for every layer and kind of work.

    Raises
    ------
    Refused
        A scheme without an accelerator, an encoder, or more tokens than the context holds.

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
    meter = Meter(models.prepare(loaded, config, backend, calibration, progress))
    session = Session(meter.watched())
    session.append(ids[:tokens], last=True)
    if phase == "decode":
        meter.clear()
        session.append(ids[tokens : tokens + 1], last=True)
    return CostReport(loaded.name, schemes.text(config), tokens, phase, meter.layers())
