"""Taps of Harmonia's units: values at their ports while a model runs.

A tap shows complete operations of the model: the configuration of a case has the sizes of its tensors, and is a ready
one only if a ready one has these sizes. Of the many operations of a tensor these are shown:

- `bfp_aligner`: the group of a linear input with the largest value; `bfp_converter`: the block around it, eight tokens
  of a group, and the first block of V, 32 tokens of 16 channels;
- `bfp_pe`: the first output of a linear layer for that token, a score of a high and of a low key, and a channel of the
  context, each over all groups; `sub_pe` and `bfp_accumulator`: the groups of these; `bfp_pe_array`: the array's tile
  of eight tokens and sixteen outputs around that token, over all groups; `fp2half`: the columns of this tile;
- `fdgf`: every event of a product of at most LONGEST events;
- `k_offset`: all channels of every key of a prompt; `v_grouper`: the values of a prompt in KV head 0, whose channels
  are independent; `bit_allocator`: the prompt and all steps so far.

Attention is that of KV head 0 and the last query. Nothing is shown for widths and groups that the PE does not have.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith.integers import total
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.groups import count
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.schemes.harmonia import attention
from refemu.models.schemes.harmonia.cache import HarmoniaCache, Held, allocation
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.linear import Linear
from refemu.models.schemes.harmonia.operands import along, codes, left, operand, signed, stacked, weight
from refemu.models.schemes.harmonia.steps import Scoring, Units
from refemu.models.schemes.scheme import Half
from refemu.models.taps import Later, Watch, model_case, sized
from refemu.units.harmonia import bfp_converter
from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4
from refemu.units.harmonia.fdgf import PASS_COLUMNS, PASS_ROWS, SIZE_BITS, FdgfController
from refemu.units.harmonia.k_offset import WINDOW
from refemu.units.harmonia.sub_pe import LANES

ROWS, COLUMNS = 8, 16  #: size of the array
PE_UNITS = ("bfp_accumulator", "bfp_pe", "bfp_pe_array", "sub_pe")
OTHERS: dict[Half, tuple[str, ...]] = {  #: units that a half does not use
    "linear": ("bit_allocator", "k_offset", "v_grouper"),
    "attention": ("bfp_aligner", "bfp_pe_array", "fdgf", "fp2half"),
}
LONGEST = 1 << 16  #: most events of a product at the dataflow controller, 2.7 MB of a set


def parameters(config: HarmoniaConfig) -> dict[str, dict[str, Any]]:
    """Parameters of each unit of the scheme, except the sizes of tensors."""
    fmt = config.format(config.act_mantissa)
    conversion = {name: getattr(fmt, name) for name in ("rounding", "special", "subnormals", "zero_sign")}
    offsets = {name: getattr(config, name) for name in ("offset_k", "offset_scope", "offset_sign")}
    wanted: dict[str, dict[str, Any]] = {
        "fdgf": {"k": 64, "m": 64, "ema_unit": "elements", "b_type": "int4"},
        "fp2half": {"saturate": config.saturate},
    }
    if config.group == LANES:
        wanted |= {"bfp_aligner": conversion, "bfp_converter": conversion}
    if config.group == LANES and (fmt.special, fmt.subnormals, fmt.zero_sign) == ("error", "keep", "keep"):
        wanted["v_grouper"] = {"growth": "reconvert", "high": config.high, "rounding": config.rounding}
    if config.high > config.low:
        wanted["bit_allocator"] = {
            name: getattr(config, name) for name in ("n_initial", "n_local", "high", "low", "group")
        }
    if config.online:
        wanted["k_offset"] = {**offsets, "window": WINDOW}
    plain = config.weights == "int4" and not config.zero_point and config.scale_per == 32
    if plain and config.group == LANES and config.act_mantissa == 8:
        arithmetic = {"partial": config.partial, "product": config.product}
        wanted |= {"bfp_accumulator": arithmetic, "bfp_pe": arithmetic, "bfp_pe_array": arithmetic, "sub_pe": {}}
    return wanted


def tapped(config: HarmoniaConfig, half: Half | None = None) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order. half: None for both."""
    return tuple(sorted(parameters(config).keys() - set(OTHERS[half] if half else ())))


class Taps:
    """The taps of one scheme in one block."""

    def __init__(self, steps: Units, layer: int, watch: Watch, scoring: Scoring) -> None:
        self._scoring = scoring
        self._steps, self._config, self._layer, self._watch = steps, steps.config, layer, watch
        self._parameters = parameters(self._config)

    def __repr__(self) -> str:
        return f"Taps(layer={self._layer})"

    def _wants(self, *names: str) -> bool:
        return any(name in self._parameters and self._watch.wants(name) for name in names)

    def _emit(
        self,
        unit: str,
        why: str,
        tensor: str,
        inputs: Mapping[str, Any],
        sizes: Mapping[str, int] | None = None,
        **source: Any,
    ) -> None:
        """inputs: arrays by port, with the axis of cases first. sizes: parameters that depend on tensors."""
        name = sized(unit, {}, **self._parameters[unit], **(sizes or {})) if self._wants(unit) else None
        if name is not None:
            first = {"first_token": self._watch.first_token, **source}
            self._watch.emit(self._layer, unit, model_case(why, name, tensor, self._layer, inputs, **first))

    def linear(self, layers: Linear, x: np.ndarray, a: BfpTensor) -> None:
        """Linear layers that read x (tokens, inputs), converted to a."""
        tensor = f"{layers.names[0]}.input"
        token, place = divmod(int(np.argmax(np.abs(x))), x.shape[1])
        source = {"token": token, "largest": float(np.abs(x).max())}
        words, group = self._steps.words(x), place // LANES
        if self._wants("bfp_aligner", "bfp_converter"):
            self._conversions(tensor, words, token, group, a, source)
        if self._wants("fp2half"):
            self._half(layers, a, token, source)
        if self._wants("fdgf"):
            self._dataflow(layers.names[0], len(x), x.shape[1], layers.columns[0].stop - layers.columns[0].start)
        weights = layers.weight if self._wants(*PE_UNITS) else None
        if weights is not None:
            self._products(layers.names[0], left(along(a, token)), *weight(weights, 0), source)
            self._tile(layers.names[0], weights, a, token, source)

    def _dataflow(self, tensor: str, *sizes: int) -> None:
        """A product, M x N x K, from start to end."""
        events = duration(*sizes)
        if max(sizes) < 1 << SIZE_BITS and events <= LONGEST:
            why = "every event of a product"
            self._emit("fdgf", why, tensor, Later(lambda: started(sizes, events)), largest=events)

    def _conversions(
        self, tensor: str, words: np.ndarray, token: int, group: int, a: BfpTensor, source: dict[str, Any]
    ) -> None:
        some = slice(group * LANES, (group + 1) * LANES)
        piece = words[token, some]
        if piece.size % ROWS == 0:
            inputs = {
                "x": piece.reshape(-1, ROWS),
                "emax": np.full((piece.size // ROWS, ROWS), a.exponent[token, group]),
                "m": np.full(piece.size // ROWS, self._config.act_mantissa),
            }
            self._emit("bfp_aligner", "the group of the largest value", tensor, inputs, **source)
        rows = _block(token, ROWS, len(words))
        self._converter(tensor, words[rows, some], 0, f"tokens {rows.start} to {rows.stop - 1}, group {group}", source)

    def _converter(self, tensor: str, block: np.ndarray, kind: int, why: str, source: dict[str, Any]) -> None:
        """A block, then as many clocks without a column as its alignment takes."""
        clocks = bfp_converter.clocks(block, kind, self._config.high if kind else self._config.act_mantissa)
        inputs = bfp_converter.port_values([clocks + [bfp_converter.IDLE] * (len(clocks) + 1)])
        self._emit("bfp_converter", why, tensor, inputs, **source)

    def _half(self, layers: Linear, a: BfpTensor, token: int, source: dict[str, Any]) -> None:
        """Columns of the array in FP32: up to eight tokens, sixteen outputs."""
        rows = _block(token, ROWS, len(a.mantissa))
        some = BfpTensor(a.format, a.sign[rows].copy(), a.mantissa[rows].copy(), a.exponent[rows].copy(), 1)
        columns = np.zeros((COLUMNS, ROWS), np.float32)
        sums = layers.accumulated(layers.sums(some))[:, :COLUMNS]
        columns[: sums.shape[1], : sums.shape[0]] = sums.T
        self._emit("fp2half", "sums of the first outputs", layers.names[0], {"x": columns.view(np.uint32)}, **source)

    def _products(
        self,
        tensor: str,
        a: Mapping[str, np.ndarray],
        mode: np.ndarray,
        b: Mapping[str, np.ndarray],
        source: dict[str, Any],
    ) -> None:
        """One output of the array: a and b by groups, (groups, 32) and (groups,)."""
        groups = len(mode)
        clear = np.eye(1, groups, dtype=np.uint8)[0]
        ports = {"mode": mode, "clear": clear, **a, **b}
        why = "one output, group after group"
        self._emit("bfp_pe", why, tensor, _case(ports), **source)
        if not self._wants("sub_pe", "bfp_accumulator"):
            return
        sign = np.where((mode == M8W4)[:, None], b["b"] >> 3, b["b_sign"])
        magnitude = np.where((mode == M8W4)[:, None] & (b["b"] > 7), 16 - b["b"], b["b"])
        high = np.where((mode == M8M8)[:, None], magnitude >> 4, magnitude)
        if self._wants("sub_pe"):
            inputs = {"a_sign": a["a_sign"], "a_mag": a["a_mag"], "b_sign": sign, "b_mag": high}
            self._emit("sub_pe", f"{why}, the upper bits", tensor, inputs, **source)
        low = np.where((mode == M8M8)[:, None], magnitude & 15, 0)
        psums = {
            name: total(signed(a["a_sign"], a["a_mag"]) * signed(sign, part), axis=1)
            for name, part in (("psum", high), ("low", low))
        }
        scales = {"a_exp": a["a_exp"], "b_exp": b["b_exp"], "w_scale": b["w_scale"]}
        self._emit("bfp_accumulator", why, tensor, _case({"mode": mode, "clear": clear, **psums, **scales}), **source)

    def _tile(self, name: str, weights: GroupIntTensor, a: BfpTensor, token: int, source: dict[str, Any]) -> None:
        """A tile of the array, over the whole reduction."""
        if not self._wants("bfp_pe_array"):
            return
        groups, rows, whole = a.exponent.shape[1], _block(token, ROWS, len(a.mantissa)), slice(None)
        outputs = min(COLUMNS, len(weights.code))
        tokens = [left(along(a, row)) for row in range(rows.start, rows.stop)]
        columns = [weight(weights, output)[1] for output in range(outputs)]
        ports = stacked(tokens, whole, ROWS) | stacked(columns, whole, COLUMNS)
        ports |= {
            "mode": np.full(groups, M8W4),
            "row_valid": np.arange(ROWS) < len(tokens),
            "col_valid": np.arange(COLUMNS) < outputs,
        }
        inputs = {port: part.astype(np.int64).reshape(1, -1) for port, part in ports.items()}
        why, sizes = "the tile of the largest value, first outputs", {"groups": groups}
        self._emit("bfp_pe_array", why, name, inputs, sizes, **source)

    def prompt(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """A prompt that the cache has processed."""
        tensor = f"blk.{self._layer}"
        _, v = cache.words()
        why, sizes = "the prompt's values of KV head 0", {"channels": v.shape[2]}
        self._emit("v_grouper", why, f"{tensor}.v", {"v": v[None, :, 0]}, sizes)
        self._offsets(f"{tensor}.k", cache)
        if self._wants("bfp_converter"):
            block = v.reshape(len(v), -1)[:LANES, :COLUMNS]
            self._converter(f"{tensor}.v", block, 1, "the first tokens and channels", {})
        self._allocation(cache)
        self._attention(q[-1:], held)

    def decoded(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """A decode step."""
        self._allocation(cache)
        self._attention(q, held)

    def _offsets(self, tensor: str, cache: HarmoniaCache) -> None:
        """The window, the events after it, later tokens."""
        if not self._wants("k_offset"):
            return
        rule, words = cache.offsets, cache.first.reshape(len(cache.first), -1)
        inside = min(WINDOW, len(words))
        idle = inside + rule.chosen
        k = np.concatenate([words[:inside], np.zeros((idle, rule.channels), np.uint16), words[inside:]])
        valid, last = (np.zeros(len(k), np.uint8) for _ in range(2))
        valid[:inside], valid[inside + idle :] = 1, 1
        last[inside - 1] = inside < WINDOW
        why = f"the window, and the {len(words) - inside} later tokens of the prompt"
        sizes = {"channels": rule.channels, "heads": rule.heads if rule.offset_scope == "head" else 1}
        self._emit("k_offset", why, tensor, _case({"k": k, "valid": valid, "last": last}), sizes)

    def _allocation(self, cache: HarmoniaCache) -> None:
        steps = cache.taken - cache.prompt
        events = np.zeros((1, 1 + steps), np.int64)
        events[0, 0] = cache.prompt
        why = "the prompt and the steps so far"
        self._emit("bit_allocator", why, f"blk.{self._layer}.kv", {"prefill": events}, largest=cache.taken)

    def _attention(self, q: np.ndarray, held: Held) -> None:
        """The last query: scores with a high and a low key, and its first output."""
        config = self._config
        if not self._wants(*PE_UNITS) or {config.high, config.low} - {4, 8} or config.v_granularity != "group":
            return
        tensor, tokens, (k, v) = f"blk.{self._layer}", held.tokens, held.head(0)
        slopes = attention.slopes_of(self._scoring.rule, slice(0, 1), 1)
        seen = np.array([tokens])
        query, p = attention.scores(self._steps, q[:, 0], k, tokens, seen, self._scoring, tensor, slopes)
        k_bits, v_bits = allocation(config).bits(tokens)
        source = {"query": tokens - 1, "largest": tokens}
        for key in dict.fromkeys((0, int(np.argmin(k_bits)))):
            stored = along(k, key)
            right = codes(stored, np.full(len(stored.exponent), k_bits[key]), self._config.high)
            self._products(f"{tensor}.logits, {k_bits[key]} bits", left(along(query, 0)), *right, source)
        column = operand(v.sign[:, 0], v.mantissa[:, 0], v.exponent[:, 0])
        self._products(f"{tensor}.context", left(along(p, 0)), *codes(column, v_bits, self._config.high), source)


def duration(rows: int, inner: int, columns: int) -> int:
    """Number of events of a product at the dataflow controller, start and end included."""
    reads = count(rows, PASS_ROWS) * count(columns, PASS_COLUMNS) * count(inner, LANES)
    return 2 + reads + len(list(FdgfController().tiles(rows, inner, columns)))


def started(sizes: tuple[int, ...], events: int) -> dict[str, np.ndarray]:
    """A product, M x N x K, at the ports of the dataflow controller: a start, then further events."""
    inputs = np.zeros((6, 1, events), np.int64)
    inputs[:4, 0, 0] = (1, *sizes)
    return dict(zip(("start", "rows", "inner", "columns", "forced", "v"), inputs, strict=True))


def _case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """One case: the values of every port, with a new first axis."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def _block(place: int, size: int, length: int) -> slice:
    """The rows of a block of `size` that includes `place`."""
    start = place // size * size
    return slice(start, min(start + size, length))
