"""The file of a calibration: equal bytes, read back; anything else is rejected."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.kllm import calibration
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.tensors import activations
from tests.models.schemes.kllm import plain

IDS = [5, 3, 0, 12, 7, 1]


@cache
def made() -> Calibration:
    prepared = models.prepare(plain.small(), "kllm-a4", calibration=IDS)
    found: Calibration = prepared.calibration  # type: ignore[attr-defined]
    return found


def test_file_is_read_back_and_gives_same_logits(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    made().save(path)
    config = KllmConfig(calibration=str(path))
    stored, fresh = (
        models.prepare(plain.small(), one, calibration=ids) for one, ids in ((config, None), (KllmConfig(), IDS))
    )

    assert calibration.load(path).to_bytes() == made().to_bytes() == path.read_bytes()
    assert models.session(stored).append([1, 2, 3]).tobytes() == models.session(fresh).append([1, 2, 3]).tobytes()
    assert [one.name for one in tmp_path.iterdir()] == ["small.npz"]


def test_file_says_what_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    made().save(path)
    with np.load(path, allow_pickle=False) as archive:
        text = archive["description"].tobytes().decode()

    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(text)["model"] == "small"
    names = [*activations(plain.small().config), "wq", "wk", "wv", "wo", "wgate", "wup", "wdown"]
    assert set(made().codebook) == {f"blk.{layer}.{name}" for layer in range(2) for name in names}
    assert set(made().limits) == {name for name in made().codebook if ".w" not in name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"act_bits": 3}, "act_bits must be 3, got 4"),
        ({"outlier_percent": "2"}, "outlier_percent must be '2', got '1'"),
        ({"gamma": "activations"}, "gamma must be 'activations', got 'weights'"),
    ],
)
def test_other_settings_are_rejected(change: dict, message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.prepare(plain.small(), KllmConfig(**change), calibration=made())  # type: ignore[arg-type]


def test_another_model_is_rejected() -> None:
    with pytest.raises(Refused, match="calibration of tiny: model must be 'tiny', got 'small'"):
        models.prepare("tiny", "kllm-a4", calibration=made())  # type: ignore[arg-type]


def test_runs_may_differ_in_what_needs_no_training() -> None:
    found = models.prepare(plain.small(), "kllm-a4-s:preset=exact,score_bits=8", calibration=made())  # type: ignore[arg-type]

    assert found.calibration is made()  # type: ignore[attr-defined]


def broken(tmp_path: Path, **changes: np.ndarray | None) -> Path:
    path = tmp_path / "broken.npz"
    made().save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays |= {name.replace("__", "."): array for name, array in changes.items() if array is not None}
    np.savez(path, **{name: array for name, array in arrays.items() if changes.get(name, 0) is not None})
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"codebook__blk": np.zeros(16, np.float32)},
        {"codebook__blk": np.full(16, 0x7C00, np.uint16)},
        {"moment__blk": np.zeros((2, 2))},
        {"moment__blk": np.array([np.nan])},
        {"other__blk": np.zeros(2)},
        {"description": None},
        {"description": np.frombuffer(b"{}", np.uint8)},
        {"codebook__blk": np.array(["a"], object)},
    ],
    ids=str,
)
def test_damaged_files_are_rejected(tmp_path: Path, changes: dict) -> None:
    with pytest.raises(Refused, match=r"calibration .*broken\.npz: not a readable calibration"):
        calibration.load(broken(tmp_path, **changes))


def test_other_versions_and_other_files_are_rejected(tmp_path: Path) -> None:
    text = np.frombuffer(json.dumps({"version": 2}).encode(), np.uint8)
    with pytest.raises(Refused, match="version must be 1, got 2"):
        calibration.load(broken(tmp_path, description=text))
    (tmp_path / "text").write_text("nothing of the kind")
    with pytest.raises(Refused, match="not a readable calibration"):
        calibration.load(tmp_path / "text")


def test_a_failed_save_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    path.write_bytes(b"before")
    bad = Calibration({"model": object()}, {}, {}, {})

    with pytest.raises(TypeError):
        bad.save(path)
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_calibration_repr() -> None:
    assert repr(made()) == "Calibration('small', 32 codebooks)"
