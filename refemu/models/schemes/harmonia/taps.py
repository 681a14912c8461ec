"""What crosses the ports of Harmonia's units while a model runs.

Ready configurations are smaller than a model's tensors, so a tap shows a piece: of a linear input the token with the
largest value against the first output, of keys and values the first channels, of scores the last query of KV head 0.
Everything shown is what the scheme worked with. Widths and groups that the PE does not have show nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu import units
from refemu.arith.integers import total
from refemu.formats.bfp_tensor import BfpTensor
from refemu.models.schemes import harmonia_attention
from refemu.models.schemes.harmonia_cache import HarmoniaCache, Held
from refemu.models.schemes.harmonia_linear import Linear
from refemu.models.schemes.harmonia_operands import along, codes, left, operand, signed, stacked, weight
from refemu.models.taps import Watch, config_of, model_case
from refemu.units.bfp_accumulator import M8M8, M8W4
from refemu.units.fdgf import SIZE_BITS
from refemu.units.k_offset import WINDOW
from refemu.units.sub_pe import LANES

if TYPE_CHECKING:
    from refemu.models.schemes.harmonia import HarmoniaConfig
    from refemu.models.schemes.harmonia_layers import Harmonia

ROWS, COLUMNS = 8, 16  #: of the array
PE_UNITS = ("bfp_accumulator", "bfp_pe", "bfp_pe_array", "sub_pe")
TOKENS = 40  #: of a prompt that the V grouper shows: a group, and some beyond


def parameters(config: "HarmoniaConfig") -> dict[str, dict[str, Any]]:
    """What a configuration of each unit must have to be the one that the scheme uses."""
    fmt = config.format(config.act_mantissa)
    conversion = {
        "rounding": fmt.rounding,
        "special": fmt.special,
        "subnormals": fmt.subnormals,
        "zero_sign": fmt.zero_sign,
    }
    offsets = {
        "offset_k": config.offset_k,
        "offset_scope": config.offset_scope,
        "offset_sign": config.offset_sign,
        "window": WINDOW,
    }
    found: dict[str, dict[str, Any]] = {
        "fdgf": {"k": 64, "m": 64, "ema_unit": "elements", "b_type": "int4"},
        "fp2half": {"saturate": config.saturate},
    }
    if config.group == LANES:
        found |= {
            "bfp_aligner": conversion,
            "bfp_converter": conversion,
            "v_grouper": {"growth": "reconvert", "high": config.high},
        }
    if config.high > config.low and config.group == LANES:
        found["bit_allocator"] = {name: getattr(config, name) for name in ("n_initial", "n_local", "high", "low")}
    if config.online:
        found["k_offset"] = offsets
    plain = config.weights == "int4" and not config.zero_point and config.scale_per == 32
    if plain and config.group == LANES and config.act_mantissa == 8:
        arithmetic = {"partial": config.partial, "product": config.product}
        found |= {"bfp_accumulator": arithmetic, "bfp_pe": arithmetic, "bfp_pe_array": arithmetic, "sub_pe": {}}
    return found


def tapped(config: "HarmoniaConfig") -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order."""
    return tuple(sorted(unit for unit, wanted in parameters(config).items() if config_of(unit, wanted) is not None))


class Taps:
    """The taps of one scheme in one block."""

    def __init__(self, parts: "Harmonia", layer: int, watch: Watch) -> None:
        self._parts, self._config, self._layer, self._watch = parts, parts.harmonia, layer, watch
        self._parameters = parameters(self._config)

    def __repr__(self) -> str:
        return f"Taps(layer={self._layer})"

    def _wants(self, *names: str) -> bool:
        return any(name in self._parameters and self._watch.wants(name) for name in names)

    def _sizes(self, unit: str) -> Mapping[str, Any]:
        """The parameters of the configuration that shows a unit, none if none does or nobody listens."""
        name = config_of(unit, self._parameters[unit]) if self._wants(unit) else None
        return {} if name is None else units.find(unit).configs[name]

    def _emit(self, unit: str, why: str, tensor: str, inputs: Mapping[str, Any], **source: Any) -> None:
        """inputs: arrays by port, beginning with the axis of cases."""
        name = config_of(unit, self._parameters[unit]) if self._wants(unit) else None
        if name is not None:
            first = {"first_token": self._watch.first_token, **source}
            self._watch.emit(self._layer, unit, model_case(why, name, tensor, self._layer, inputs, **first))

    def linear(self, made: Linear, x: np.ndarray, a: BfpTensor) -> None:
        """Layers `made` read x (tokens, inputs), converted to a."""
        tensor = f"{made.names[0]}.input"
        token, place = divmod(int(np.argmax(np.abs(x))), x.shape[1])
        source = {"token": token, "largest": float(np.abs(x).max())}
        words, group = self._parts.units.words(x), place // LANES
        if self._wants("bfp_aligner", "bfp_converter"):
            self._conversions(tensor, words, token, group, a, source)
        if self._wants("fp2half"):
            self._half(made, a, token, source)
        if self._wants("fdgf"):
            sizes = (1, len(x), x.shape[1], made.columns[0].stop - made.columns[0].start, 0, 0)
            names = ("start", "rows", "inner", "columns", "forced", "v")
            events = np.zeros((len(names), 1, 64), np.int64)
            events[:, 0, 0] = sizes
            if max(sizes) < 1 << SIZE_BITS:
                self._emit(
                    "fdgf", "the first 64 events of a product", made.names[0], dict(zip(names, events, strict=True))
                )
        if made.weight is not None and self._wants(*PE_UNITS):
            self._products(made.names[0], left(along(a, token)), *weight(made.weight, 0), source)
            self._tile(made, a, token, group, source)

    def _conversions(
        self, tensor: str, words: np.ndarray, token: int, group: int, a: BfpTensor, source: dict[str, Any]
    ) -> None:
        some = slice(group * LANES, (group + 1) * LANES)
        piece = words[token, some]
        if piece.size == LANES:
            given = {
                "x": piece.reshape(-1, ROWS),
                "emax": np.full((LANES // ROWS, ROWS), a.exponent[token, group]),
                "m": np.full(LANES // ROWS, self._config.act_mantissa),
            }
            self._emit("bfp_aligner", "the group of the largest value", tensor, given, **source)
        rows = _block(token, ROWS, len(words))
        self._converter(tensor, words[rows, some], 0, f"tokens {rows.start} to {rows.stop - 1}, group {group}", source)

    def _converter(self, tensor: str, block: np.ndarray, kind: int, why: str, source: dict[str, Any]) -> None:
        """A block, then as many clocks without a column as its alignment takes."""
        from refemu.units import bfp_converter_cases as columns

        clocks = columns.clocks(block, kind, self._config.high if kind else self._config.act_mantissa)
        self._emit(
            "bfp_converter", why, tensor, columns.inputs([clocks + [columns.IDLE] * (len(clocks) + 1)]), **source
        )

    def _half(self, made: Linear, a: BfpTensor, token: int, source: dict[str, Any]) -> None:
        """Columns of the array behind FP32: up to eight tokens, sixteen outputs."""
        rows = _block(token, ROWS, len(a.mantissa))
        some = BfpTensor(a.format, a.sign[rows].copy(), a.mantissa[rows].copy(), a.exponent[rows].copy(), 1)
        columns = np.zeros((COLUMNS, ROWS), np.float32)
        sums = made.sums(some)[:, :COLUMNS]
        columns[: sums.shape[1], : sums.shape[0]] = sums.T
        self._emit("fp2half", "sums of the first outputs", made.names[0], {"x": columns.view(np.uint32)}, **source)

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
        given = {"mode": mode, "clear": clear, **a, **b}
        why = "one output, group after group"
        self._emit("bfp_pe", why, tensor, _case(given), **source)
        if not self._wants("sub_pe", "bfp_accumulator"):
            return
        sign = np.where((mode == M8W4)[:, None], b["b"] >> 3, b["b_sign"])
        magnitude = np.where((mode == M8W4)[:, None] & (b["b"] > 7), 16 - b["b"], b["b"])
        high = np.where((mode == M8M8)[:, None], magnitude >> 4, magnitude)
        if self._wants("sub_pe"):
            self._emit(
                "sub_pe",
                f"{why}, the upper bits",
                tensor,
                {"a_sign": a["a_sign"], "a_mag": a["a_mag"], "b_sign": sign, "b_mag": high},
                **source,
            )
        low = np.where((mode == M8M8)[:, None], magnitude & 15, 0)
        psums = {
            name: total(signed(a["a_sign"], a["a_mag"]) * signed(sign, part), axis=1)
            for name, part in (("psum", high), ("low", low))
        }
        self._emit(
            "bfp_accumulator",
            why,
            tensor,
            _case(
                {
                    "mode": mode,
                    "clear": clear,
                    **psums,
                    "a_exp": a["a_exp"],
                    "b_exp": b["b_exp"],
                    "w_scale": b["w_scale"],
                }
            ),
            **source,
        )

    def _tile(self, made: Linear, a: BfpTensor, token: int, group: int, source: dict[str, Any]) -> None:
        """A tile of the array, with as many groups of the reduction as its configuration has."""
        groups = self._sizes("bfp_pe_array").get("groups", 0)
        if not 0 < groups <= a.exponent.shape[1]:
            return
        first = min(group, a.exponent.shape[1] - groups)
        some, rows = slice(first, first + groups), _block(token, ROWS, len(a.mantissa))
        outputs = min(COLUMNS, len(made.weight.code))
        tokens = [left(along(a, one)) for one in range(rows.start, rows.stop)]
        columns = [weight(made.weight, output)[1] for output in range(outputs)]
        given = stacked(tokens, some, ROWS) | stacked(columns, some, COLUMNS)
        given |= {
            "mode": np.full(groups, M8W4),
            "row_valid": np.arange(ROWS) < len(tokens),
            "col_valid": np.arange(COLUMNS) < outputs,
        }
        self._emit(
            "bfp_pe_array",
            "tokens around the largest value, first outputs",
            made.names[0],
            {port: part.astype(np.int64).reshape(1, -1) for port, part in given.items()},
            **source,
        )

    def prompt(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """A prompt that the cache has taken in."""
        tensor = f"blk.{self._layer}"
        _, v = cache.words()
        values = v.reshape(len(v), -1)
        channels = self._sizes("v_grouper").get("channels", 0)
        if 0 < channels <= values.shape[1]:
            self._emit(
                "v_grouper",
                "the first channels of the first tokens",
                f"{tensor}.v",
                {"v": values[None, :TOKENS, :channels]},
            )
        self._offsets(f"{tensor}.k", cache)
        if self._wants("bfp_converter"):
            self._converter(f"{tensor}.v", values[:LANES, :COLUMNS], 1, "the first tokens and channels", {})
        self._allocation(cache)
        self._attention(q[-1:], held)

    def decoded(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """A decode step."""
        self._allocation(cache)
        self._attention(q, held)

    def _offsets(self, tensor: str, cache: HarmoniaCache) -> None:
        """The window, events in which the generator goes on by itself, later tokens."""
        channels, words = self._sizes("k_offset").get("channels", 0), cache.first.reshape(len(cache.first), -1)
        if not 0 < channels <= words.shape[1]:
            return
        inside = min(WINDOW, len(words))
        idle = inside + max(channels // LANES, 1)
        later = len(words) - inside
        k = np.concatenate(
            [words[:inside, :channels], np.zeros((idle, channels), np.uint16), words[inside:, :channels]]
        )
        valid, last = (np.zeros(len(k), np.uint8) for _ in range(2))
        valid[:inside], valid[inside + idle :] = 1, 1
        last[inside - 1] = inside < WINDOW
        self._emit(
            "k_offset",
            f"channels 0 to {channels - 1} of the window, and {later} later tokens",
            tensor,
            _case({"k": k, "valid": valid, "last": last}),
        )

    def _allocation(self, cache: HarmoniaCache) -> None:
        steps = cache.taken - cache.prompt
        events = np.zeros((1, 1 + steps), np.int64)
        events[0, 0] = cache.prompt
        self._emit(
            "bit_allocator",
            "the prompt and the steps so far",
            f"blk.{self._layer}.kv",
            {"prefill": events},
            largest=cache.taken,
        )

    def _attention(self, q: np.ndarray, held: Held) -> None:
        """The last query: scores with a high and a low key, and its first output."""
        config = self._config
        if not self._wants(*PE_UNITS) or {config.high, config.low} - {4, 8} or config.v_granularity != "group":
            return
        tensor, tokens, (k, v) = f"blk.{self._layer}", held.tokens, held.head(0)
        query, p = harmonia_attention.scores(self._parts.units, q[:, 0], k, tokens, np.array([tokens]), tensor)
        k_bits, v_bits = config.allocation().bits(tokens)
        source = {"query": tokens - 1, "largest": tokens}
        for key in dict.fromkeys((0, int(np.argmin(k_bits)))):
            one = along(k, key)
            found = codes(one, np.full(len(one.exponent), k_bits[key]), self._config.high)
            self._products(f"{tensor}.logits, {k_bits[key]} bits", left(along(query, 0)), *found, source)
        column = operand(v.sign[:, 0], v.mantissa[:, 0], v.exponent[:, 0])
        self._products(f"{tensor}.context", left(along(p, 0)), *codes(column, v_bits, self._config.high), source)


def _case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """One case: every port's values under a new first axis."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def _block(place: int, size: int, length: int) -> slice:
    """The rows of a block of `size` that hold `place`."""
    start = place // size * size
    return slice(start, min(start + size, length))
