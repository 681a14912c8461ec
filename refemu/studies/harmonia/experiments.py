"""Experiments of `refemu study harmonia` as steps: points of perplexity, statistics of keys and scores, dataflows.

Paper: [harmonia §II-C Fig. 4, Fig. 5; §III-B Fig. 7, Fig. 8; §III-C Fig. 9, Fig. 10; §IV-D; Tables I, II].
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import dot, fp16, fp32
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models import runtime, schemes
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.harmonia import search, smoothing
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.smoothing import Smoothing
from refemu.models.schemes.scheme import Progress
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.steps import Bench, Step
from refemu.units.harmonia import fdgf
from refemu.units.harmonia.k_offset import Offsets

BITS = (8, 6, 5, 4)  #: bits of a mantissa
EVERYTHING = "harmonia-kv8:act_mantissa={m},high={m},low={m},weights=fp16"
NONE = "harmonia-kv4:offline=false,online=false"  #: the first and the latest tokens at 8 bits, no smoothing
POINTS = {
    "scheme fp16": "fp16",
    **{f"all activations at {m} bits, FP16 weights [Fig. 4]": EVERYTHING.format(m=m) for m in BITS},
    **{
        f"keys and values at {m} bits, FP16 weights [Fig. 5]": f"harmonia-kv8:high={m},low={m},weights=fp16"
        for m in BITS[1:]
    },
    "INT4 weights, keys and values at 8 bits [Table I]": "harmonia-kv8",
    "at 4 bits, naive [Table II]": "harmonia-kv4-naive",
    "at 4 bits, first and latest tokens at 8 [Fig. 8]": NONE,
    "and offline smoothing [Fig. 10]": "harmonia-kv4:online=false",
    "and online smoothing [Fig. 10]": "harmonia-kv4:offline=false",
    "and both [Table I]": "harmonia-kv4",
}  #: description of a point -> its scheme
#: `fp16`, mantissa bits of everything and of the cache [harmonia Fig. 4, 5]
MANTISSAS = tuple(scheme for scheme in POINTS.values() if "weights=fp16" in scheme or scheme == "fp16")
WIDE = tuple(
    f"harmonia-kv8:act_mantissa={m},high={m},low={m},weights=fp16,group=128" for m in (8, 5)
)  #: larger groups [harmonia Fig. 4]
CACHE = tuple(scheme for scheme in POINTS.values() if scheme not in MANTISSAS)  #: [harmonia Fig. 8, 10; Table I]
PARTS = ("mantissas", "cache", "attention", "dataflows")
INITIAL, LOCAL = 32, 64  #: tokens at 8 bits [harmonia §III-B]
PROMPT = 512  #: tokens whose keys and values are measured
ROWS = tuple(1 << bits for bits in range(15))  #: M of a product [harmonia §IV-D]
INNER, TILE = 4096, 64  #: N = K, and m = k


def steps(setting: Setting, parts: Sequence[str], listed: Sequence[str] = (), tokens: int | None = None) -> list[Step]:
    """The steps of some of PARTS. listed: schemes instead of the points. tokens: number for learning smoothing."""
    setting.require_decoder("harmonia")
    points = [(halved(setting), name) for name in MANTISSAS + WIDE] if "mantissas" in parts else []
    points += [(setting, name) for name in CACHE] if "cache" in parts else []
    scored = [(setting, name) for name in listed] or points
    return [
        *(
            step
            for place, name in scored
            for step in evaluation.score_steps(place, schemes.text(with_tokens(name, tokens)), factors)
        ),
        *(_attention(setting) if "attention" in parts else []),
        *(_dataflows() if "dataflows" in parts else []),
    ]


def halved(setting: Setting) -> Setting:
    """The first half of the windows, for large differences."""
    count = (len(setting.windows) + 1) // 2
    return dataclasses.replace(setting, ids=setting.ids[: count * setting.win])


def with_tokens(name: str, tokens: int | None) -> Any:
    """The configuration of a scheme that learns offline smoothing on this number of tokens."""
    config = schemes.parse(name)
    if tokens is None or not isinstance(config, HarmoniaConfig):
        return config
    return dataclasses.replace(config, calib_tokens=tokens)


def factors(bench: Bench, config: Any, progress: Progress) -> Smoothing | None:
    """The factors of offline smoothing for a scheme: saved, shipped, or else learned and saved."""
    if not isinstance(config, HarmoniaConfig) or not config.offline:
        return None
    path = bench.store.path(
        {"what": "harmonia factors", **search.described(bench.model, config), **bench.depends}, ".npz"
    )
    try:
        return smoothing.load(path)
    except Refused:
        result = search.obtain(bench.model, config, bench.backend, bench.calibration, progress)
    bench.store.write(path, result.to_bytes())
    return result


def _attention(setting: Setting) -> list[Step]:
    """Rotated queries, keys and values under scheme `fp16`: places of attention, widths of channels."""
    ids = setting.ids[: min(PROMPT, setting.model.config.context)]
    if len(ids) <= INITIAL + LOCAL:
        return []

    def compute(bench: Bench, progress: Progress) -> Any:
        runner = search.Observer(bench.model, bench.backend)
        x = runtime.embeddings(runner, runtime.require_tokens(list(ids), runner), 0)
        layers = []
        for layer in range(runner.model.blocks):
            progress("attention", layer, runner.model.blocks)
            x = runner.block(layer, x)
            layers.append(_of_layer(runner.seen, layer, bench.model, bench.backend))
        return layers

    depends = {"what": "harmonia attention", "ids": evaluation.digest(ids)}
    return [Step("attention", depends, 4 * evaluation.token_macs(setting.model, len(ids)), compute, "fp16")]


def _of_layer(seen: dict[str, np.ndarray], layer: int, model: Model, backend: Backend) -> dict[str, Any]:
    """Attention on the first and the latest tokens by head; peaks of the channels of K and V; effect of smoothing."""
    from refemu.units.harmonia.k_offset import compiled as k_offset_compiled

    q, k, v = seen["q"], seen["k"], seen["v"]
    words = fp16.bits(fp16.narrow(k.reshape(len(k), -1)))
    offset, chosen = k_offset_compiled.select(Offsets(words.shape[1]), words)
    shipped = smoothing.shipped(model.name)
    scaled = k * shipped.s[layer] if shipped is not None and shipped.s.shape[2] == k.shape[2] else None
    both = None
    if scaled is not None:
        scaled_words = fp16.bits(fp16.narrow(fp16.round16(scaled.reshape(len(k), -1).astype(np.float32))))
        shifts, _ = k_offset_compiled.select(Offsets(words.shape[1]), scaled_words)
        both = _peaks(fp16.to_f32(k_offset_compiled.shift(scaled_words, shifts).view(np.float16)))
    return {
        **_masses(q, k, backend),
        "k": _peaks(k),
        "v": _peaks(v),
        "offline": None if scaled is None else _peaks(scaled),
        "online": _peaks(fp16.to_f32(k_offset_compiled.shift(words, offset).view(np.float16))),
        "both": both,
        "chosen": np.flatnonzero(chosen).tolist(),
    }


def _peaks(x: np.ndarray) -> list[float]:
    """Largest magnitude of every channel."""
    return [float(each) for each in np.abs(x.reshape(len(x), -1)).max(axis=0)]


def _masses(q: np.ndarray, k: np.ndarray, backend: Backend) -> dict[str, list[float]]:
    """Shares of attention on the first INITIAL tokens, and on the latest LOCAL others, by query head.

    Means over the queries of the last quarter of the prompt.
    """
    count, heads, size = q.shape
    first, places = count - count // 4, np.arange(count)
    rows = np.arange(first, count)[:, None]
    early, late = np.broadcast_to(places < INITIAL, (len(rows), count)), (places > rows - LOCAL) & (places >= INITIAL)
    shares: dict[str, list[float]] = {"initial": [], "local": []}
    for head in range(heads):
        keys = backend.weights(np.ascontiguousarray(k[:, head // (heads // k.shape[1])], np.float32))
        scores = backend.matmul(np.ascontiguousarray(q[first:, head], np.float32), keys, "fp32")
        scores = np.where(places > rows, -np.inf, scores * np.float32(1 / np.sqrt(size))).astype(np.float32)
        p = fp32.softmax32(scores, Sequential()).astype(np.float64)
        for name, some in (("initial", early), ("local", late)):
            shares[name].append(evaluation.mean_of(dot.total64(np.where(some, p, 0), order=Sequential()).tolist()))
    return shares


def _dataflows() -> list[Step]:
    """Fetched elements of both dataflows by the rows of A [harmonia §IV-D], counted by the unit."""

    def compute(bench: Bench, progress: Progress) -> Any:
        rows = []
        for place, count in enumerate(ROWS):
            progress("dataflows", place, len(ROWS))
            for flow in (fdgf.COLUMN_MAJOR, fdgf.ROW_MAJOR):
                rows.append({"rows": count, "dataflow": flow, "elements": _fetched(count, flow)})
        return rows

    return [Step("dataflows", {"what": "harmonia dataflows", "rows": list(ROWS)}, 1e8, compute)]


def _fetched(rows: int, flow: int) -> int:
    """Elements of A and B that a product fetches."""
    total = 0
    for tile in fdgf.FdgfController(TILE, TILE).tiles(rows, INNER, INNER, flow):
        total += tile.elements if tile.code in (fdgf.FETCH_A, fdgf.FETCH_B) else 0
    return total
