"""Result of a KLLM scheme's offline training, and the file that keeps it [kllm §III-A, §V-A].

Codebooks of activations and weights, static limits of outliers, and the sample weights of the weights' training. The
file is an .npz without pickled objects whose array `description` is canonical JSON; what NumPy and zipfile add holds no
date.
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
SETTINGS = FORMATS + SENSITIVITY  #: fields of the configuration that decide what is trained on given tokens


@dataclass(frozen=True, eq=False)
class Calibration:
    """Trained once, used by every run."""

    description: Mapping[str, Any]  #: model, weights_sha256, tokens_sha256, sensitivity_sha256, and the settings
    codebook: Mapping[str, np.ndarray]  #: FP16 words, by activation ("blk.3.attn_in") and by weight ("blk.3.q")
    limits: Mapping[str, np.ndarray]  #: FP16 words hi, lo of an activation's inliers
    moment: Mapping[str, np.ndarray]  #: float64 (inputs,) of a weight: summed squares of what multiplies it

    def __repr__(self) -> str:
        return f"Calibration({self.description['model']!r}, {len(self.codebook)} codebooks)"

    def to_bytes(self) -> bytes:
        """The file: equal calibrations give equal bytes, on one platform."""
        arrays = {
            f"{kind}.{name}": np.asarray(array, np.dtype(dtype).newbyteorder("<"))
            for kind, dtype in KINDS.items()
            for name, array in sorted(getattr(self, kind).items())
        }
        return offline_file.to_bytes(self.description, arrays)

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to `path`, all of it or nothing."""
        offline_file.save(path, self.to_bytes())

    def named(self, model: str) -> "Calibration":
        """The same for weights under another name."""
        return replace(self, description={**self.description, "model": model})

    def require(self, wanted: Mapping[str, Any], thing: str) -> "Calibration":
        """Itself; refused where it was made for another model or other settings than `wanted`."""
        for name, value in wanted.items():
            if self.description.get(name) != value:
                raise Refused(f"{thing}: made for {name} {self.description.get(name)!r}, {value!r} is needed")
        return self


def load(path: str | Path) -> Calibration:
    """Load a calibration of `Calibration.save`. Refuses a missing, damaged or foreign file; nothing is unpickled."""
    description, arrays = offline_file.load(path, "calibration", _arrays)
    return Calibration(description, **arrays)


def read(data: bytes, where: Path) -> Calibration:
    """The same of the bytes of such a file; where: its path, for messages."""
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
        raise Refused(f"finite {np.dtype(dtype)} of one axis is needed, got {array.dtype} of shape {array.shape}")
    return array


def settings(config: Any) -> dict[str, Any]:
    """The settings of a configuration that a stored calibration must share."""
    return {name: getattr(config, name) for name in SETTINGS}
