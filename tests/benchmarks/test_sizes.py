"""Measurements of a start at a toy shape: the child answers with every field, and the command says what it measured."""

import itertools
import json
import math
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import roofline, seeded_checkpoint, sizes
from refemu import models

TOY = {"blocks": 2, "width": 32, "ffn": 48, "heads": 4, "kv_heads": 2, "head_dim": 8}
START = {
    "scheme",
    "weights",
    "load_s",
    "prepare_s",
    "start_s",
    "load_cpu_s",
    "prepare_cpu_s",
    "anonymous_mb",
    "peak_mb",
}
PREFILL = {"prefill_s", "blas_s", "blas/prefill"}
DECODE = {"decode_s", "decode_blas_s", "blas/decode", "bytes", "copy_gb_s", "macs"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(seeded_checkpoint.SHAPES, "toy", TOY)
    monkeypatch.setattr(seeded_checkpoint, "VOCAB", 300)
    return tmp_path


def require_plausible(answer: dict[str, Any], scheme: str, count: int) -> None:
    assert (answer["scheme"], answer["weights"]) == (scheme, count)
    assert abs(answer["load_s"] + answer["prepare_s"] - answer["start_s"]) < 1e-6
    assert all(answer[name] >= 0 for name in answer if name.endswith("_s"))
    assert 20 < answer["anonymous_mb"] <= answer["peak_mb"] < 4000


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["fp16", "leankv-k8v4", "harmonia-kv4", "olive-4:low=90,high=110,step=20"])
def test_a_child_answers_with_every_field(scheme: str, folder: Path) -> None:
    """Of a start, and of a prompt where tokens are asked for."""
    seeded_checkpoint.write("toy", folder / "checkpoint")
    count = sum(math.prod(shape) for shape in seeded_checkpoint.config("toy").shapes.values())
    first, second = (sizes.child(folder, scheme, tokens) for tokens in (0, 16))

    assert (set(first), set(second)) == (START, START | PREFILL | DECODE)
    for answer in (first, second):
        require_plausible(answer, scheme, count)
    assert second["prefill_s"] > 0 and second["blas_s"] > 0 and second["blas/prefill"] > 0


def test_a_child_that_fails_is_an_error(folder: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        sizes.child(folder, "fp17", 0)


def test_calibrations_are_those_that_cost_little() -> None:
    model = models.load("tiny")
    ones = sizes._calibration(model, "harmonia-kv4")

    assert sizes._calibration(model, "fp16") is None and sizes._calibration(model, "leankv-k8v4") is None
    assert len(sizes._calibration(model, "olive-4:low=90,high=110,step=20")) == sizes.CALIBRATION
    assert (ones.s == 1).all() and ones.s.shape == (3, 2, 16)


def test_blas_products_are_one_block_times_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by one second at every read: 7 products per block, and the logits."""
    monkeypatch.setattr(time, "thread_time", itertools.count().__next__)

    assert sizes._blas(seeded_checkpoint.config("toy"), 8) == 7 * TOY["blocks"] + 1


@pytest.mark.long
def test_roofline_names_the_share_of_a_copy() -> None:
    answer = {"decode_s": 0.5, "decode_blas_s": 1.0, "bytes": 1e9, "copy_gb_s": 4.0, "macs": 1e9}
    drawn = [{"scheme": "fp16", **answer}, {"scheme": "olive-4:low=90", **answer, "bytes": 5e8}]

    picture = roofline.drawn(drawn, "svg").decode()

    assert "fp16: 50%" in picture and "olive-4: 25%" in picture and "4 GB/s" in picture


@pytest.mark.parametrize("there", [False, True])
def test_command_makes_checkpoint_and_measures_two_starts(
    there: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Path] = []
    if there:
        (folder / "checkpoint").mkdir()
    monkeypatch.setattr(seeded_checkpoint, "write", lambda shape, place: made.append(place))
    monkeypatch.setattr(sizes, "child", lambda *asked: {"asked": list(map(str, asked[1:]))})
    monkeypatch.setattr(
        "sys.argv", ["sizes", "toy", str(folder), "--scheme", "fp16", "--scheme", "olive-4", "--tokens", "9"]
    )
    sizes.main()
    said = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]

    assert made == ([] if there else [folder / "checkpoint"])
    assert [(which, json.loads(answer)["asked"]) for which, answer in said] == [
        ("first", ["fp16", "0"]),
        ("second", ["fp16", "9"]),
        ("first", ["olive-4", "0"]),
        ("second", ["olive-4", "9"]),
    ]
