"""Preparation of a mix: its parts in turn, each calibrated with those prepared before it (D-mix-1).

The attention is first, with linear layers in FP16. Its changes to W_Q and W_K are in the weights that the linear parts
then get (D-mix-2). A linear part that trains on its own run does so with that attention. Inputs that are frozen as they
arrive are last: one run of the whole mix, block by block.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.kind import kind_of
from refemu.models.schemes.mix.config import Mix, Part
from refemu.models.schemes.mix.decoder import Mixed
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.scheme import CalibrationTokens, PreparedPart, Progress, require_layers


@dataclass
class Entry:
    """A prepared linear part."""

    share: Share
    prepared: PreparedPart

    @property
    def arrives(self) -> bool:
        """Whether its inputs are frozen as they arrive, after everything else."""
        return self.prepared.config.arriving_tokens is not None


def prepare(
    config: Mix, model: Model, backend: Backend, calibration: CalibrationTokens | None, progress: Progress
) -> Mixed:
    """Prepare every part and join them.

    calibration: token ids for every part that calibrates; None: the default of each. Raises Refused for an object that
    one scheme learned, since parts read it through their own parameters.
    """
    if calibration is not None and not isinstance(calibration, np.ndarray | Sequence):
        raise Refused(f"mix: calibration must be token ids for all parts, got {type(calibration).__name__}")
    for part in config.parts:
        require_layers(part.scheme, model)
    layers = [config.layers_of(part, model.config.blocks) for part in config.linear]

    def prepared(part: Part, share: Share) -> PreparedPart:
        function = kind_of(part.scheme).prepare
        return cast(PreparedPart, function(part.scheme, share, backend, calibration, progress))

    attention = prepared(config.attention, _share(model, attends=True))
    smoothed, scaled = attention.smoothed(model), attention.config.scales_queries
    entries = []
    for part, blocks in zip(config.linear, layers, strict=True):
        share = _share(smoothed, blocks=blocks, outer=part.layers is None, scaled=scaled, attention=attention)
        entries.append(Entry(share, prepared(part, share)))
    return settled(entries, attention, model, config, backend, calibration)


def _share(model: Model, **options: Any) -> Share:
    return Share(**{field.name: getattr(model, field.name) for field in dataclasses.fields(Model)}, **options)


def settled(
    entries: Sequence[Entry], attention: Any, model: Model, config: Mix, backend: Backend, calibration: Any
) -> Mixed:
    """The mix with frozen inputs; if a part then widens layers by their errors, all inputs are frozen again."""
    mixed = _frozen(entries, attention, model, config, backend, calibration)
    wider = [entry.prepared.wider(entry.share) for entry in entries]
    if not any(wider):
        return mixed
    for entry, prepared in zip(entries, wider, strict=True):
        if prepared is not None:
            entry.prepared = prepared
        elif entry.arrives:
            entry.prepared.thaw()
    return _frozen(entries, attention, model, config, backend, calibration)


def _frozen(
    entries: Sequence[Entry], attention: Any, model: Model, config: Mix, backend: Backend, calibration: Any
) -> Mixed:
    """The mix: parts that freeze inputs in their own run do so before the run of the whole."""
    by_layer = {layer: entry.prepared for entry in entries for layer in entry.share.blocks}
    outer = next(entry.prepared for entry in entries if entry.share.outer)
    mixed = Mixed(model, config, backend, by_layer, outer, attention)
    for entry in sorted(entries, key=lambda entry: (entry.arrives, not entry.share.outer)):
        entry.prepared.settle(entry.share, calibration, mixed)
    return mixed
