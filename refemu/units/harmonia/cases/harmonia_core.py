"""Golden cases of harmonia_core: small products through all steps of [harmonia §IV-A, Fig. 12].

This module describes stimuli only; the descriptor, and with it every answer, is in harmonia_core.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import find
from refemu.units.stimuli import Seeds, random, random_inputs
from refemu.units.unit import Cases, Config, Kind

LANES = 32


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("harmonia_core").ports(config).inputs
    if kind == "random":
        inputs = {port.name: random("harmonia_core", port, (2,), seed, first=2) for port in ports}
        yield Cases(kind, "exponents and factors as real tensors have them", legal(config, inputs))
        return
    drawn = legal(config, random_inputs("harmonia_core", ports, (2,), seed))
    if kind == "paper":
        yield Cases(kind, "[harmonia §IV-A] one product through all steps", {p: a[:1] for p, a in drawn.items()})
    if kind == "edge":
        some = {p: a[1:] for p, a in drawn.items()}
        yield Cases(kind, "activations of 0, of either sign", {**some, "a_mag": 0 * some["a_mag"]})
        why = "results that are subnormal in FP16, or 0"
        yield Cases(kind, why, {**some, "a_exp": 0 * some["a_exp"] + 1, "w_scale": some["w_scale"] & 0x03FF})


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field, and in a range whose results have a BFP code."""
    fitted = {**inputs, "a_exp": inputs["a_exp"] & 3 | 12}
    if "frozen" in inputs:
        fitted["frozen"] = _offsets(inputs["frozen"])
    if config["b_type"] == "int4":
        none = {port: np.zeros_like(inputs[port]) for port in ("b_sign", "b_exp")}
        return fitted | none | {"b": inputs["b"] & 15, "w_scale": inputs["w_scale"] & 0x03FF | 0x2400}
    b = inputs["b"] & 15 if config["b_type"] == "bfp4" else inputs["b"]
    return fitted | {"b": b, "b_exp": inputs["b_exp"] & 3 | 12, "w_scale": np.zeros_like(inputs["w_scale"])}


def _offsets(words: np.ndarray) -> np.ndarray:
    """Words (..., channels), below 2 in magnitude, of one channel of every whole 32, or one: a window gives no more."""
    channels = words.shape[-1]
    place = np.arange(channels)
    kept = (place % LANES == words[..., :1] % min(LANES, channels)) & (place < max(channels // LANES, 1) * LANES)
    return np.where(kept, words & 0xBFFF, 0)


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Products of each flag."""
    words = result.y & 0x7FFF
    return {"SUBNORMAL": np.asarray(((words > 0) & (words < 0x0400)).any(axis=-1))}
