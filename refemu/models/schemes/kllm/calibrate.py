"""The calibration run of a KLLM scheme: scheme `fp16` with unquantized weights, layer by layer [kllm §III-A, §V-A].

All windows pass a block before the next block runs, so that only one block's activations are in memory. The codebooks
are trained on them, each token (all heads together) divided by the scale of its own inliers. The samples of weights are
weighted by what multiplies them [D-kllm-29].
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import dot, fp16
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.formats.kllm.kmeans_train import Histogram
from refemu.models import runtime
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import Recipe, prepared_cache
from refemu.models.schemes import model_share, offline_file
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.kllm import calibration, quantize
from refemu.models.schemes.kllm import weights as kllm_weights
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.tensors import INPUTS, NORMED, encoded, readers
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.scheme import Progress, require_layers, silent
from refemu.models.taps import Watch


def obtain(
    model: Model, config: KllmConfig, backend: Backend, source: Any, progress: Progress, mix_attention: Any = None
) -> Calibration:
    """The calibration in `source` or in the configuration's file, or from a run on tokens `source`.

    `mix_attention`: the attention of a mix, instead of that of scheme `fp16`.
    """
    if source is None and config.calibration is not None:
        source = calibration.load(config.calibration)
    if isinstance(source, Calibration):
        return source.require(described(model, config), f"calibration of {model.name}")
    if mix_attention is not None or isinstance(model, Share):  # only calibrations without a mix are cached
        return calibrate(model, [config], backend, source, progress, mix_attention)[0]
    return _trained(model, config, backend, source, progress)


def _trained(
    model: Model, config: KllmConfig, backend: Backend, tokens: Sequence[int] | None, progress: Progress
) -> Calibration:
    """`calibrate` for one configuration, or its cached result for the same tokens."""
    wanted = described(model, config)
    settings = {name: value for name, value in wanted.items() if name not in ("model", "weights_sha256")}
    sources = ("formats/**/*.py", "units/kllm/**/*.py", "models/**/*.py")
    place = prepared_cache(model, backend, Recipe("kllm-calibration", sources, settings, width=0))
    if place.folder is None:
        return calibrate(model, [config], backend, tokens, progress)[0]
    windows = [*cut(model, config, tokens), [model.config.blocks]]
    kept = calibration.read(
        *offline_file.remembered(
            place, windows, lambda: calibrate(model, [config], backend, tokens, progress)[0].to_bytes()
        )
    )
    return kept.named(model.name)


def described(model: Model, config: KllmConfig) -> dict[str, Any]:
    """Description that a calibration for this model and configuration must have."""
    file = kllm_weights.user_weights(config, model)
    return {
        "model": model.name,
        "weights_sha256": model.sha256,
        "sensitivity_sha256": file.sha256,
        **calibration.settings(config),
    }


def calibrate(
    model: Model,
    configs: Sequence[KllmConfig],
    backend: Backend,
    tokens: Sequence[int] | None,
    progress: Progress = silent,
    mix_attention: Any = None,
) -> list[Calibration]:
    """One calibration per configuration, from one run over the windows of the first configuration.

    tokens: token ids; None: the shipped text. `mix_attention` as for `obtain`. Raises Refused for an empty list, and
    for a model with layers that the schemes do not compute.
    """
    for config in configs:
        require_layers(config, model)
        config.require_gains(model)
    windows = cut(model, configs[0], tokens)
    ids = hashlib.sha256(b"".join(np.array(window, "<i8").tobytes() + b"|" for window in windows)).hexdigest()
    runner = Observer(model_share.whole(model), backend, mix_attention)
    states = [runtime.embeddings(runner, runtime.require_tokens(window, runner), 0) for window in windows]
    trainers = [Trainer(model, config) for config in configs]
    for layer in range(model.config.blocks):
        progress("calibration", layer, model.config.blocks)
        states = [runner.block(layer, x) for x in states]
        seen = Seen(runner.take())
        for trainer in trainers:
            trainer.block(layer, seen)
    progress("calibration", model.config.blocks, model.config.blocks)
    return [trainer.found(ids) for trainer in trainers]


def cut(model: Model, config: KllmConfig, tokens: Sequence[int] | None) -> list[list[int]]:
    """Windows of token ids, each read from position 0."""
    if tokens is None:
        from refemu.models import text

        tokens = model.tokenizer.encode(text.calibration())
    size = min(config.calibration_tokens, model.config.context)
    windows = [list(tokens[at : at + size]) for at in range(0, len(tokens), size)][: config.calibration_windows]
    if not windows:
        raise Refused("kllm: calibration needs token ids, got none")
    return windows


QK_NORMS = ("q_norm", "k_norm")  #: norms that the attention of a mix computes
AFTER = {norm: tensor for tensor, norm in NORMED.items()}  #: norm -> the activation after it


class Observer(Fp16):
    """Scheme `fp16` that records the activations of a block."""

    def __init__(self, model: Model, backend: Backend, mix_attention: Any = None) -> None:
        """`mix_attention`: attention that also computes norms of q and k, instead of scheme `fp16`'s."""
        super().__init__(model, Fp16Config(), backend, silent)
        self._mix_attention = mix_attention
        self._kept: dict[str, list[np.ndarray]] = {}

    def block(self, layer: int, x: np.ndarray) -> np.ndarray:
        """The residual stream after a block, for one window."""
        watch = Watch()
        with np.errstate(over="ignore", invalid="ignore"):
            x = self.add(x, runtime.attention(self, layer, x, self.cache(layer), watch))
            return self.add(x, runtime.feed_forward(self, layer, x, watch))

    def take(self) -> dict[str, np.ndarray]:
        """The activations since the last call, float32 (tokens, size); "z.": inputs of the linear layers."""
        kept = {name: np.concatenate(parts) for name, parts in self._kept.items()}
        self._kept = {}
        return kept

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """As in scheme `fp16`; records x, x * gain and quotient without the gain. For q and k, see `mix_attention`."""
        part = name.rpartition(".")[2]
        if part in QK_NORMS and self._mix_attention is not None:
            return np.asarray(self._mix_attention.norm(name, x))
        tensor = AFTER.get(part)
        if tensor is None:  # norms of embeddings, of q and k, after a block half
            return super().norm(name, x)
        gain = self._vectors[name]
        self._keep(f"raw.{tensor}", x)
        ones = np.ones_like(gain)
        if self.model.norm == "layer":
            self._keep(f"plain.{tensor}", self.backend.layernorm(x, ones, np.zeros_like(gain), self._eps))
        else:
            self._keep(f"gained.{tensor}", self.backend.round16(x * gain))
            self._keep(f"plain.{tensor}", self.backend.rmsnorm(x, ones, self._eps))
        return super().norm(name, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """As in scheme `fp16`; records the input."""
        self._keep(f"read.{INPUTS[tuple(names)]}", x)
        return super().linear(layer, names, x, watch)

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`; records q, k and v after the rotation."""
        start = len(cache) - len(q)
        for name, array in (("q", q), ("k", cache.keys[start:]), ("v", cache.values[start:])):
            self._keep(name, array.reshape(len(q), -1).copy())
        if self._mix_attention is not None:
            return np.asarray(self._mix_attention.prompt_attention(layer, q, cache.keys, cache.values))
        return super().attention(layer, q, cache, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`; records both operands."""
        self._keep("gate", gate)
        self._keep("up", up)
        return super().activation(layer, gate, up, watch)

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`; records the operand."""
        self._keep("up", up)
        return super().activate(layer, up, watch)

    def _keep(self, name: str, x: np.ndarray) -> None:
        self._kept.setdefault(name, []).append(x)


class Seen:
    """The activations of a block, and results about them that several configurations share."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._known: dict[tuple[Any, ...], Any] = {}

    def __repr__(self) -> str:
        return f"Seen({', '.join(self._arrays)})"

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The result of `make` for this key, computed once."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


class Trainer:
    """The codebooks of one configuration, block by block."""

    def __init__(self, model: Model, config: KllmConfig) -> None:
        self._model, self._config = model, config
        self._user = kllm_weights.user_weights(config, model)
        self._readers = readers(model.config)  # type: ignore[arg-type]
        self._codebook: dict[str, np.ndarray] = {}
        self._limits: dict[str, np.ndarray] = {}
        self._moment: dict[str, np.ndarray] = {}

    def found(self, tokens_sha256: str) -> Calibration:
        """Result of the training."""
        description = {**described(self._model, self._config), "tokens_sha256": tokens_sha256}
        return Calibration(description, self._codebook, self._limits, self._moment)

    def block(self, layer: int, seen: Seen) -> None:
        """Train the codebooks of a block on its activations."""
        for tensor, names in self._readers.items() if layer in model_share.blocks(self._model) else ():
            for name in names:
                self._weight(layer, name, tensor, seen)
        for tensor in encoded(self._model, layer):
            self._activation(layer, tensor, seen)

    def _weight(self, layer: int, name: str, tensor: str, seen: Seen) -> None:
        full, reads, config = f"blk.{layer}.w{name}", self._reads(tensor), self._config
        moment = seen.once(("moment", reads), lambda: input_moment(seen[reads]))

        def samples() -> Histogram:
            stored = self._stored(layer, name, seen)
            scale = kllm_weights.scales(stored)
            weighing = self._user.arrays.get(full)
            if weighing is None and config.weight_sensitivity == "input_moment":
                wide = scale.astype(np.float64)
                weighing = moment * (wide * wide)[:, None]
            return quantize.samples(stored, scale, None, weighing)

        key = ("weight", name, reads, config.weight_sensitivity, config.sensitivity)
        self._moment[full] = moment
        self._codebook[full] = quantize.codebook(seen.once(key, samples), config.weight_bits)

    def _activation(self, layer: int, tensor: str, seen: Seen) -> None:
        full, name, config = f"blk.{layer}.{tensor}", self._quantized(tensor), self._config
        percent = config.percent(tensor)
        activation = seen.once(("found", name, percent), lambda: quantize.Found(seen[name], percent))

        def samples() -> Histogram:
            weighing = self._user.arrays.get(full)
            if weighing is None and config.act_sensitivity == "column_norm":
                weights = [self._stored(layer, reader, seen) for reader in self._readers.get(tensor, ())]
                weighing = column_norm(weights, activation.values.shape[1])
            histogram: Histogram = activation.samples(
                None if weighing is None else np.broadcast_to(weighing, activation.values.shape)
            )
            return histogram

        key = ("activation", name, percent, config.act_sensitivity, config.sensitivity, kllm_weights.folded(config))
        self._codebook[full] = quantize.codebook(seen.once(key, samples), config.act_bits)
        limits = activation.limits(config.static_statistic)
        if limits is not None:
            self._limits[full] = limits

    def _stored(self, layer: int, name: str, seen: Seen) -> np.ndarray:
        key = ("stored", name, kllm_weights.folded(self._config))
        stored: np.ndarray = seen.once(key, lambda: kllm_weights.stored(self._model, self._config, layer, name))
        return stored

    def _quantized(self, tensor: str) -> str:
        """The tensor that is quantized as the input of a linear layer: after the norm or before it (D-kllm-18)."""
        if tensor not in NORMED:
            return f"read.{tensor}" if tensor in self._readers else tensor
        if self._config.norm == "fp16":
            return f"read.{tensor}"
        return f"raw.{tensor}" if self._config.gamma == "weights" else f"gained.{tensor}"

    def _reads(self, tensor: str) -> str:
        """The FP16 factor of the stored weights: normalized, without the gain if that is in the weights."""
        folded = kllm_weights.folded(self._config) and tensor in NORMED
        return f"plain.{tensor}" if folded else f"read.{tensor}"


def input_moment(x: np.ndarray) -> np.ndarray:
    """Sum of squares over the tokens, in their order, float64 (inputs,)."""
    columns = np.ascontiguousarray(x.T, np.float64)
    return dot.total64(columns * columns, order=Sequential())


def column_norm(weights: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Sum of squares of the weights that read an input, output by output, float64 (inputs,); 1 if none does."""
    if not weights:
        return np.ones(size, np.float64)
    return input_moment(np.concatenate([fp16.to_f32(weight) for weight in weights]))
