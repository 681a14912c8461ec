"""The base class of a scheme of one's own: hooks that quantize weights, inputs, keys and values.

Everything that no hook changes is scheme `fp16`.
"""

import inspect
import traceback
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType
from refemu.models.backend import Backend
from refemu.models.cache import Cache, KVCache
from refemu.models.model import Model
from refemu.models.schemes import model_share
from refemu.models.schemes.scheme import CalibrationTokens, Half, Prepared, Progress, Scheme


class LinearScheme(Scheme):
    """Base class of your own scheme: decorate the subclass with `@dataclass(frozen=True)`, override the hooks.

    The fields of the dataclass are its parameters. A hook returns an array of the shape that it gets, in any float
    dtype; refemu rounds it to float32, keys and values to fp16. In Python pass an instance as `scheme`; on the
    command line name the file: `--scheme path/to/file.py:NAME`.
    """

    paper: ClassVar[str] = "your own"
    halves: ClassVar[tuple[Half, ...]] = ("linear",)
    every_decoder: ClassVar[bool] = True
    experts: ClassVar[bool] = True
    calibrates: ClassVar[bool] = False  #: whether `prepare` needs a calibration text, by default the shipped one

    @property
    def calibrated_halves(self) -> tuple[Half, ...] | None:
        """Halves that depend on a calibration text; None: not known."""
        if self.calibrates:
            return ("linear",)
        return () if type(self).prepare is LinearScheme.prepare else None

    def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Quantize the weights of a linear layer; by default they stay as they are.

        Parameters
        ----------
        name : str
            Layer: "blk.3.q", with k, v, o, gate, up and down.
        rows : ndarray of float32 (outputs, inputs)
            Weights, fp16 values.

        Returns
        -------
        ndarray of float (outputs, inputs)
            Values that the layer multiplies.
        """
        return rows

    def inputs(self, name: str, x: np.ndarray) -> np.ndarray:
        """Quantize the inputs of linear layers; by default they stay as they are.

        Parameters
        ----------
        name : str
            First layer that reads the input: "blk.3.q" for q, k and v, "blk.3.gate" for gate and up.
        x : ndarray of float32 (tokens, inputs)
            Inputs, fp16 values.

        Returns
        -------
        ndarray of float (tokens, inputs)
            Values that the layers multiply. A row may depend on that row only, so that a prompt and single tokens give
            the same bits.
        """
        return x

    def keys(self, layer: int, k: np.ndarray) -> np.ndarray:
        """Quantize keys as they enter the KV cache, after the rotation; by default they stay as they are.

        Parameters
        ----------
        layer : int
            Block.
        k : ndarray of float32 (tokens, KV heads, head_dim)
            Keys, fp16 values.

        Returns
        -------
        ndarray of float (tokens, KV heads, head_dim)
            Values that attention reads, after a rounding to fp16.
        """
        return k

    def values(self, layer: int, v: np.ndarray) -> np.ndarray:
        """Quantize values as they enter the KV cache; by default they stay as they are.

        Parameters
        ----------
        layer : int
            Block.
        v : ndarray of float32 (tokens, KV heads, head_dim)
            Values, fp16 values.

        Returns
        -------
        ndarray of float (tokens, KV heads, head_dim)
            Values that attention reads, after a rounding to fp16.
        """
        return v

    def prepare(
        self, model: Model, backend: Backend, calibration: CalibrationTokens | None, progress: Progress
    ) -> Prepared:
        """Prepare a model: call `weight` for each layer. Override it to calibrate first, and set `calibrates = True`.

        Parameters
        ----------
        model : Model
            Model, or the part of a model that a mix computes.
        backend : Backend
            Backend that computes the steps.
        calibration : sequence of int, or of sequences, optional
            Token ids to calibrate on: those that were given, else those of the shipped text if `calibrates`, else None.
        progress : callable
            Called as progress(what, done, total).

        Returns
        -------
        Prepared
            Model under the scheme.

        Raises
        ------
        Refused
            A hook returns another shape, or values that are not finite.
        RefusedType
            A hook does not return floats.
        """
        return hooked(self, model, backend, progress)


def hooked(config: LinearScheme, model: Model, backend: Backend, progress: Progress) -> Prepared:
    """The model under the hooks of a configuration."""
    from refemu.models.schemes.quantized import Quantized

    def weight(name: str, rows: np.ndarray) -> np.ndarray:
        return hook_result(config, "weight", name, rows.astype(np.float32))

    class Hooked(Quantized):
        """A decoder whose layers call the hooks."""

        def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Any) -> Sequence[np.ndarray]:
            name = f"blk.{layer}.{names[0]}"
            changed = hook_result(config, "inputs", name, x)
            return super(Quantized, self).linear(layer, names, changed, watch)

        def cache(self, layer: int) -> Cache:
            sizes = self.model.kv_heads, self.model.head_dim, self.model.context
            return HookedCache(config, layer, *sizes) if model_share.attends(model) else super().cache(layer)

    # a mix asks each part for its own half only
    return Hooked(model, config, backend, progress, weight, lambda x: x)


class HookedCache(KVCache):
    """Keys and values as the hooks return them."""

    def __init__(self, config: LinearScheme, layer: int, heads: int, head_dim: int, context: int) -> None:
        super().__init__(heads, head_dim, context)
        self._config, self._layer = config, layer

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Add what the hooks make of keys and values, each (tokens, heads, head_dim)."""
        config, layer = self._config, self._layer
        super().append(
            fp16.round16(hook_result(config, "keys", layer, keys)),
            fp16.round16(hook_result(config, "values", layer, values)),
        )


def hook_result(config: LinearScheme, hook: str, where: str | int, array: np.ndarray) -> np.ndarray:
    """What a hook returns for an array, as float32.

    where: first argument of the hook. Raises Refused for a hook that fails, returns another shape, or makes NaN or
    infinity of finite values, RefusedType for one that does not return floats.
    """
    thing, place = f"{type(config).__name__}.{hook}", f"blk.{where}" if isinstance(where, int) else where
    try:
        result: Any = getattr(config, hook)(where, array)
    except (Refused, RefusedType):
        raise
    except Exception as error:  # the user's code may raise anything
        line = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        at = f" ({line.filename}:{line.lineno})"
        if line.filename == __file__:  # the hook takes other arguments
            at = f"; define {hook}{inspect.signature(getattr(LinearScheme, hook))}"
        raise Refused(f"{thing}: fails for {place}: {said}{at}") from error
    if not isinstance(result, np.ndarray) or result.dtype.kind != "f":
        got = getattr(result, "dtype", type(result).__name__)
        raise RefusedType(f"{thing}: must return an array of floats, got {got} for {place}")
    if result.shape != array.shape:
        raise Refused(f"{thing}: must return shape {array.shape}, got {result.shape} for {place}")
    with np.errstate(over="ignore"):
        changed: np.ndarray = result.astype(np.float32)
    if not np.isfinite(changed).all() and np.isfinite(array).all():
        raise Refused(f"{thing}: must return finite values, got NaN or infinity for {place}")
    return changed
