"""A plug-in's scheme gives values for weights and inputs; everything else is scheme `fp16`."""

import dataclasses
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from refemu.models import schemes
from refemu.models.schemes.scheme import Half
from refemu.models.schemes.scheme_text import PLUGGED

IDS = [1, 2, 3, 200]


@dataclasses.dataclass(frozen=True)
class Shifted(models.Scheme):
    """Weights and inputs times powers of two, which FP16 and float32 keep exactly."""

    paper: ClassVar[str] = "acme 3"
    halves: ClassVar[tuple[Half, ...]] = ("linear",)
    every_decoder: ClassVar[bool] = True
    weight: int = 0
    activation: int = 0


def prepare(config: Any, model: Any, backend: Any, calibration: Any, progress: Any) -> Any:
    weight, activation = (np.float32(2.0**each) for each in (config.weight, config.activation))
    return models.quantized(model, config, backend, progress, lambda _, rows: rows * weight, lambda x: x * activation)


KIND = models.SchemeKind(config=Shifted, prepare=prepare, ready={"shifted": Shifted()})


def logits(scheme: Any, model: str = "tiny", backend: str = "jit") -> bytes:
    return models.run(model, IDS, scheme=scheme, backend=backend).logits.tobytes()


@pytest.mark.parametrize("model", ["tiny", "tiny-gpt2", "tiny-gemma2"])
def test_identity_functions_give_the_bits_of_fp16(model: str) -> None:
    assert logits(Shifted(), model) == logits("fp16", model) == logits(Shifted(), model, "numpy")


def test_both_functions_reach_the_products() -> None:
    """Factors that cancel give the bits of fp16, one alone gives others."""
    assert logits(Shifted(weight=3, activation=-3)) == logits("fp16")
    assert len({logits(Shifted(weight=3)), logits(Shifted(activation=-2)), logits("fp16")}) == 3


def test_docs_scheme_prints_what_its_page_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wide weights give nearly the logits of fp16."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "your-scheme.md").read_text()
    (block, _), (shown, _) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "text"))
    assert len([line for line in block.splitlines() if line]) <= 30
    (tmp_path / "my_scheme.py").write_text(block)
    try:
        rtn = runpy.run_path(str(tmp_path / "my_scheme.py"), run_name="__main__")["Rtn"]
    finally:
        PLUGGED.forget("rtn")
    assert capsys.readouterr().out == shown
    near, far, want = (models.run("tiny", IDS, scheme=s).logits for s in (rtn(bits=16), rtn(bits=3), "fp16"))
    assert 0 < np.abs(near - want).max() < 0.01 < np.abs(far - want).max()


def test_docs_calibrating_scheme_prints_what_its_page_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "your-scheme.md").read_text()
    (_, block), (_, shown) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "text"))
    (tmp_path / "salient.py").write_text(block)
    runpy.run_path(str(tmp_path / "salient.py"), run_name="__main__")
    assert capsys.readouterr().out == shown
    line = f"ppl --model tiny --win 8 --windows 2 --scheme {tmp_path}/salient.py:Salient"
    assert main(line.split()) == 0
    first = capsys.readouterr().out
    assert main([*line.split(), "--calibration-text", str(tmp_path / "salient.py")]) == 0
    assert capsys.readouterr().out.splitlines()[3] != first.splitlines()[3]


def test_quantized_scheme_is_a_linear_part_only() -> None:
    schemes.register(KIND)
    try:
        same, other = (logits(f"shifted:weight={weight}+harmonia-kv8") for weight in (0, 1))
        assert same == logits("fp16+harmonia-kv8") != other
        with pytest.raises(Refused, match="has no attention part; got part 2"):
            logits("fp16+shifted")
    finally:
        PLUGGED.forget("shifted")


@pytest.mark.parametrize(
    ("weight", "activation", "error", "message"),
    [
        (lambda _, rows: rows, lambda x: x, RefusedType, "weight blk.0.q must be float32, got float16"),
        (
            lambda _, rows: rows.astype(np.float32)[:1],
            lambda x: x,
            Refused,
            r"weight .* must have shape \(64, 64\), got",
        ),
        (lambda _, rows: rows.astype(np.float32), lambda x: x[:1], Refused, "an activation must have shape .*, got"),
        (lambda _, rows: rows.astype(np.float32), lambda x: 0, RefusedType, "an activation must be float32, got int"),
    ],
)
def test_invalid_results_of_functions_are_rejected(
    weight: Callable[..., Any], activation: Callable[..., Any], error: type[Exception], message: str
) -> None:
    def silent(what: str, done: int, total: int) -> None:
        """Report nothing."""

    model = models.load("tiny")
    backend = models.prepare(model, "fp16").backend
    with pytest.raises(error, match=message):
        prepared = models.quantized(model, Shifted(), backend, silent, weight, activation)
        models.session(prepared).append(IDS)
