"""Result of a KLLM scheme's offline training, and its file [kllm §III-A, §V-A].

Codebooks of activations and weights, static limits of outliers, and the sample weights for training the weights. The
file is an .npz without pickled objects or dates; its array `description` is canonical JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.archive import Archive
from refemu.arith.checks import Refused
from refemu.models.schemes import offline_file

KINDS: dict[str, type[np.uint16] | type[np.float64]] = {
    "codebook": np.uint16,
    "limits": np.uint16,
    "moment": np.float64,
}  #: arrays are named "<kind>.<tensor>"
FORMATS = ("act_bits", "weight_bits", "outlier_percent", "static_statistic", "kv_outliers")
SENSITIVITY = ("gamma", "norm", "weight_sensitivity", "act_sensitivity")
SETTINGS = FORMATS + SENSITIVITY  #: parameters that decide the result for given tokens


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of a training, used by every run."""

    description: Mapping[str, Any]  #: model, weights_sha256, tokens_sha256, sensitivity_sha256, and the settings
    codebook: Mapping[str, np.ndarray]  #: FP16 words, by activation ("blk.3.attn_in") and by weight ("blk.3.q")
    limits: Mapping[str, np.ndarray]  #: FP16 words hi, lo of an activation's inliers
    moment: Mapping[str, np.ndarray]  #: float64 (inputs,) of a weight: summed squares of what multiplies it

    def __repr__(self) -> str:
        return f"Calibration({self.description['model']!r}, {len(self.codebook)} codebooks)"

    def to_bytes(self) -> bytes:
        """The bytes of the file: equal calibrations give equal bytes, on one platform."""
        arrays = {
            f"{kind}.{name}": np.asarray(array, np.dtype(dtype).newbyteorder("<"))
            for kind, dtype in KINDS.items()
            for name, array in sorted(getattr(self, kind).items())
        }
        return offline_file.to_bytes(self.description, arrays)

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to `path` atomically."""
        offline_file.save(path, self.to_bytes())

    def named(self, model: str) -> "Calibration":
        """A copy for weights of another name."""
        return replace(self, description={**self.description, "model": model})

    def require(self, wanted: Mapping[str, Any], thing: str) -> "Calibration":
        """Return itself; raise Refused unless made for the model and settings `wanted`."""
        for name, value in wanted.items():
            if self.description.get(name) != value:
                raise Refused(f"{thing}: {name} must be {value!r}, got {self.description.get(name)!r}")
        return self


def load(path: str | Path) -> Calibration:
    """Load a calibration of `Calibration.save`. Refuses a missing, damaged or foreign file; nothing is unpickled."""
    description, arrays = offline_file.load(path, "calibration", _arrays)
    return Calibration(description, **arrays)


def read(data: bytes, where: Path) -> Calibration:
    """`read` from the bytes of a file; where: its path, for messages."""
    description, arrays = offline_file.read(data, where, "calibration", _arrays)
    return Calibration(description, **arrays)


def _arrays(archive: Archive) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of every kind by tensor."""
    arrays: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in KINDS}
    for name in archive.names:
        kind, _, tensor = name.partition(".")
        if tensor:
            arrays[kind][tensor] = _array(archive.array(name), KINDS[kind])
    return arrays


def _array(array: np.ndarray, dtype: Any) -> np.ndarray:
    """A row of finite numbers of the right dtype."""
    finite = array.view(np.float16) if dtype is np.uint16 and array.dtype == np.uint16 else array
    if array.dtype != dtype or array.ndim != 1 or not np.isfinite(finite).all():
        raise Refused(
            f"an array must be finite {np.dtype(dtype)} of one axis, got {array.dtype} of shape {array.shape}"
        )
    return array


def settings(config: Any) -> dict[str, Any]:
    """The settings of a configuration that a stored calibration must share."""
    return {name: getattr(config, name) for name in SETTINGS}
