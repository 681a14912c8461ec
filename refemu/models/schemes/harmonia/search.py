"""Learning the factors of offline smoothing [harmonia §III-C, Eq. 3]: Powell's method, head by head (D-harmonia-37).

A model runs under scheme `fp16` on the calibration tokens. Block by block, the search looks for factors that minimize
the error of the conversion to block floating point. Truncation has no gradient, so the search uses none. Equal calls
give equal bits, but another version of scipy may find different factors: they are data, and the small ones ship.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import dot, fp32
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models import runtime
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import Recipe, prepared_cache
from refemu.models.schemes import offline_file
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.harmonia import smoothing
from refemu.models.schemes.harmonia.attention import attend
from refemu.models.schemes.harmonia.cache import HarmoniaCache
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.harmonia.smoothing import Smoothing, pairs
from refemu.models.schemes.harmonia.steps import Scoring, Units
from refemu.models.schemes.scheme import Progress, silent
from refemu.models.taps import Watch

SHORTEST = 32  #: fewest tokens of a calibration text: a group of V, the window of the offsets
BOUND = 3.0  #: largest |log2| of a factor
STEPS = 64  #: factors are powers of 2 to multiples of 1/64
POWELL: dict[str, float] = {"maxiter": 1, "xtol": 1 / 16, "ftol": 1e-3}
#: parameters that decide what is learned
SETTINGS = ("act_mantissa", "low", "group", "rounding", "target", "calib_tokens", "calib_kv")
#: further ones with `calib_kv="scheme"`
ALLOCATION = ("high", "n_initial", "n_local")


def no_factors(model: Model) -> Smoothing:
    """Factors of 1."""
    sizes: Any = model.config
    return smoothing.ones(sizes)


def obtain(model: Model, config: HarmoniaConfig, backend: Backend, source: Any, progress: Progress) -> Smoothing:
    """Smoothing factors: in `source`, in the configuration's file, or shipped; or learned from tokens `source`."""
    if not config.offline:
        return no_factors(model)
    if source is None and config.smoothing is not None:
        source = smoothing.load(config.smoothing).of_first(model)
    if source is None:
        factors = smoothing.shipped(model.name)
        if factors is not None and all(
            factors.description.get(name) == value for name, value in described(model, config).items()
        ):
            source = factors.of_first(model)
    if not isinstance(source, Smoothing):
        source = _learned(model, config, backend, source, progress)
    wanted = source.description.get("weights_sha256", model.sha256)
    if wanted != model.sha256:
        raise Refused(f"smoothing of {model.name}: must be made for weights {model.sha256}, got {wanted}")
    sizes: Any = model.config
    return source.require(sizes, model.name)


def _learned(
    model: Model, config: HarmoniaConfig, backend: Backend, tokens: Sequence[int] | None, progress: Progress
) -> Smoothing:
    """`learn`, or its cached result for the same tokens."""
    names = ("model", "weights_sha256")
    settings = {name: value for name, value in described(model, config).items() if name not in names}
    sources = ("formats/**/*.py", "units/**/*.py", "models/**/*.py")
    place = prepared_cache(model, backend, Recipe("harmonia-factors", sources, settings, width=0))
    if place.folder is None:
        return learn(model, config, backend, tokens, progress)
    # factors of a block do not depend on later blocks, but a file has those of all blocks of its model
    ids = [calibration_ids(model, config, tokens), [model.config.blocks]]
    return smoothing.read(
        *offline_file.remembered(place, ids, lambda: learn(model, config, backend, tokens, progress).to_bytes())
    )


def described(model: Model, config: HarmoniaConfig) -> dict[str, Any]:
    """Description of factors for this model and configuration."""
    names = SETTINGS if config.calib_kv == "low" else SETTINGS + ALLOCATION
    settings = {name: getattr(config, name) for name in names}
    return {"model": model.name, "weights_sha256": model.sha256, **settings}


def learn(
    model: Model, config: HarmoniaConfig, backend: Backend, tokens: Sequence[int] | None, progress: Progress = silent
) -> Smoothing:
    """Run the search. tokens: token ids; None: the shipped calibration text.

    Raises Refused for a text of less than 32 tokens.
    """
    ids = calibration_ids(model, config, tokens)
    runner = Observer(model, backend)
    rest = _rest(model, config, backend) if config.target == "block" else None
    x, factors = runtime.embeddings(runner, runtime.require_tokens(ids, runner), 0), []
    for layer in range(model.config.blocks):
        progress("smoothing", layer, model.config.blocks)
        y = runner.block(layer, x)
        factors.append(Search(runner, config, layer, x, y, rest).factors())
        x = y
    progress("smoothing", model.config.blocks, model.config.blocks)
    digest = hashlib.sha256(np.array(ids, "<i8").tobytes()).hexdigest()
    return Smoothing({**described(model, config), "tokens_sha256": digest}, np.stack(factors))


def calibration_ids(model: Model, config: HarmoniaConfig, tokens: Sequence[int] | None) -> list[int]:
    """Token ids to learn from; None: the shipped calibration text. At least 32."""
    if tokens is None:
        from refemu.models import text

        tokens = model.tokenizer.encode(text.calibration())
    ids = list(tokens)[: min(config.calib_tokens, model.config.context)]
    if len(ids) < SHORTEST:
        raise Refused(f"harmonia: smoothing needs at least {SHORTEST} calibration tokens, got {len(ids)}")
    return ids


def _rest(model: Model, config: HarmoniaConfig, backend: Backend) -> Any:
    """Block without its attention: converted inputs, FP16 weights, a float32 stream."""
    plain = replace(config, weights="fp16", residual="fp32", offline=False, online=False)
    return Harmonia(model, plain, backend, silent, no_factors(model))


class Observer(Fp16):
    """Scheme `fp16` that records the inputs of its attention."""

    def __init__(self, model: Model, backend: Backend) -> None:
        super().__init__(model, Fp16Config(), backend, silent)
        self.seen: dict[str, np.ndarray] = {}

    def block(self, layer: int, x: np.ndarray) -> np.ndarray:
        """The residual stream after a block."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = self.add(x, runtime.attention(self, layer, x, self.cache(layer), Watch()))
            return self.add(x, runtime.feed_forward(self, layer, x, Watch()))

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`; records q, k and v after the rotation."""
        self.seen = {"q": q, "k": cache.keys.copy(), "v": cache.values.copy()}
        context = super().attention(layer, q, cache, watch)
        self.seen["context"] = context
        return context


class Search:
    """Search for the factors of one block, KV head by KV head; other heads have the factors found so far, or 1."""

    def __init__(
        self, runner: Observer, config: HarmoniaConfig, layer: int, x: np.ndarray, y: np.ndarray, rest: Any = None
    ) -> None:
        """x, y: the stream before and after the block. rest: for target "block"."""
        self._sizes, self._layer, self._x, self._y, self._rest = runner.model, layer, x, y, rest
        self._seen, self._target = runner.seen, config.target
        if rest is not None:  # candidates read converted inputs; the reference does not
            q, k, v = runtime.projections(rest, layer, x, 0, Watch())
            self._seen = {"q": q, "k": k, "v": v, "context": runner.seen["context"]}
        high = config.low if config.calib_kv == "low" else config.high
        self._config = replace(
            config, offline=False, online=False, prefill_window="end", score_scale="softmax", high=high
        )
        self._units = Units(runner.backend, self._config)
        self._group = self._sizes.heads // self._sizes.kv_heads
        self._pairs = pairs(self._sizes)
        self._context: np.ndarray | None = None  #: context of all heads, for target "block"

    def __repr__(self) -> str:
        return f"Search(layer={self._layer}, target={self._target!r})"

    def factors(self) -> np.ndarray:
        """float32 (KV heads, head_dim)."""
        count, unit = self._sizes.kv_heads, np.zeros(len(self._pairs))
        if self._target == "block":
            contexts = [self.context(shared, self.expand(unit)) for shared in range(count)]
            self._context = np.concatenate(contexts, axis=1)
        best = np.ones((count, self._sizes.head_dim), np.float32)
        for shared in range(count):
            best[shared] = self.expand(self.theta(shared))
            if self._context is not None:
                self._context[:, self._heads(shared)] = self.context(shared, best[shared])
        return best

    def theta(self, shared: int) -> np.ndarray:
        """log2 of the factors of one KV head by pair, multiples of 1/64; zeros if none has a smaller error."""
        from scipy import optimize

        used = self._peaks(shared) > 0
        unit = np.zeros(len(self._pairs))
        best = Best(lambda part: self.error(shared, _put(part, used)))
        for start in (unit[used], self._by_peaks(shared, used, best)):
            optimize.minimize(best, start, method="Powell", bounds=[(-BOUND, BOUND)] * start.size, options=POWELL)
        rounded = _put(np.rint(best.place * STEPS) / STEPS, used)
        return rounded if self.error(shared, rounded) < self.error(shared, unit) else unit

    def _by_peaks(self, shared: int, used: np.ndarray, error: Callable[[np.ndarray], float]) -> np.ndarray:
        """Factors that level the peaks, raised to the best of 11 powers."""
        log = np.log2(self._peaks(shared)[used].astype(np.float64))
        level = log - np.cumsum(log)[-1] / log.size
        starts = [np.clip(-tenths / 10 * level, -BOUND, BOUND) for tenths in range(11)]
        return min(starts, key=error)

    def _peaks(self, shared: int) -> np.ndarray:
        """Largest |K| of every rotary pair."""
        return np.abs(self._seen["k"][:, shared]).max(axis=0)[self._pairs].max(axis=1)

    def expand(self, theta: np.ndarray) -> np.ndarray:
        """Factors by channel, float32: 2**theta of each pair."""
        factor = np.empty(self._sizes.head_dim, np.float32)
        factor[self._pairs] = powers(theta)[:, None]
        return factor

    def _heads(self, shared: int) -> slice:
        """Columns of the context of the query heads of a KV head."""
        size = self._group * self._sizes.head_dim
        return slice(shared * size, (shared + 1) * size)

    def context(self, shared: int, factor: np.ndarray) -> np.ndarray:
        """Context of the query heads of a KV head with keys times `factor` and queries divided by it, converted."""
        some = slice(shared * self._group, (shared + 1) * self._group)
        q = self._units.backend.round16(self._seen["q"][:, some] / factor)
        k = self._units.backend.round16(self._seen["k"][:, shared : shared + 1] * factor)
        cache = HarmoniaCache(1, self._sizes.head_dim, len(q), self._config, self._units, f"blk.{self._layer}")
        cache.append(k, self._seen["v"][:, shared : shared + 1])
        return attend(self._units, q, cache.held(), 0, self._scoring_of(some), f"blk.{self._layer}").reshape(len(q), -1)

    def _scoring_of(self, heads: slice) -> Scoring:
        """Operations of the block on the logits of some query heads."""
        rule = self._sizes.score_rule(self._layer)
        return Scoring(self._sizes.attention_scale, replace(rule, slopes=rule.slopes[heads]))

    def error(self, shared: int, theta: np.ndarray) -> float:
        """Sum of squared differences from scheme `fp16`, token by token, then over the tokens [harmonia Eq. 3]."""
        context = self.context(shared, self.expand(theta))
        wanted = self._seen["context"][:, self._heads(shared)]
        if self._context is not None:
            self._context[:, self._heads(shared)] = context
            context, wanted = self._block(self._context), self._y
        off = (context - wanted).astype(np.float64)
        return float(dot.total64(dot.total64((off * off).T, order=Sequential())[None], order=Sequential())[0])

    def _block(self, context: np.ndarray) -> np.ndarray:
        """The stream after the block with the attention result `context`."""
        watch = Watch()
        x = self._x + runtime.attended(self._rest, self._layer, context, watch)
        return np.asarray(x + runtime.feed_forward(self._rest, self._layer, x, watch))


class Best:
    """A function that records its minimum: bounded Powell can return a worse point than its start."""

    def __init__(self, function: Callable[[np.ndarray], float]) -> None:
        self._function = function
        self.place: np.ndarray = np.empty(0)
        self.value: float = float("inf")

    def __repr__(self) -> str:
        return f"Best({self.value!r})"

    def __call__(self, place: np.ndarray) -> float:
        value = self._function(place)
        if value < self.value:
            self.place, self.value = place.copy(), value
        return value


def powers(theta: np.ndarray) -> np.ndarray:
    """2**theta, float32, for multiples of 1/64, from the table of `exp32`, rounded once."""
    steps = np.rint(theta * STEPS)
    whole, rest = np.divmod(steps, STEPS)
    exact = np.ldexp(fp32.exp_table()[rest.astype(np.int64)], whole.astype(np.int32))
    return np.where(steps == theta * STEPS, exact, np.exp2(theta)).astype(np.float32)


def _put(part: np.ndarray, used: np.ndarray) -> np.ndarray:
    theta = np.zeros(used.size)
    theta[used] = part
    return theta
