"""The package's functions: prepare, run and session accept names or objects, and reject others."""

import re
import subprocess
import sys

import numpy as np
import pytest

from refemu import models, units
from refemu.arith.checks import Refused, RefusedType
from refemu.models.backend import NUMPY
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.olive.config import OliveConfig

IDS = [1, 2, 3]
PAPERS = set(units.PAPERS.values())


def test_names_and_objects_give_equal_bits() -> None:
    model = models.load("tiny")
    prepared = models.prepare(model, Fp16Config(), backend=NUMPY)
    runs = [
        models.run("tiny", IDS),
        models.run(model, IDS, Fp16Config(), backend=NUMPY),
        models.run(model, IDS, prepared),
    ]

    assert len({run.logits.tobytes() for run in runs}) == 1
    assert {run.scheme for run in runs} == {Fp16Config()}


def test_logits_are_one_row_a_position() -> None:
    run = models.run("tiny", np.array(IDS))

    assert (run.logits.dtype, run.logits.shape) == (np.float32, (3, 256))
    assert run.counters == {}


def test_calibration_of_a_run_reaches_the_scheme() -> None:
    config = OliveConfig(low=90, high=130, step=10)
    first, second = (models.run("tiny", IDS, config, calibration=ids).logits for ids in ([65] * 8, [66, 67]))

    assert first.tobytes() != second.tobytes()


def test_a_prepared_scheme_belongs_to_its_model() -> None:
    prepared = models.prepare("tiny")
    with pytest.raises(Refused, match="run: the scheme was prepared for model 'tiny', got 'smollm2-135m'"):
        models.run("smollm2-135m", IDS, prepared)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"scheme": "fp61"}, Refused, "unknown scheme 'fp61'; did you mean 'fp16'", id="scheme"),
        pytest.param({"backend": "numba"}, Refused, "unknown backend 'numba'", id="backend"),
        pytest.param({"scheme": 16}, RefusedType, "scheme must be a str, a Scheme or a Prepared, got 16", id="type"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        models.run("tiny", IDS, **arguments)


def loaded(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after running `code`."""
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_leaves_numba_and_scipy_alone() -> None:
    """`refemu list schemes` should not wait for a compiler."""
    assert not {"numba", "scipy"} & loaded("import refemu.models")


@pytest.mark.parametrize(
    ("code", "configured"),
    [("import refemu.models", set()), ("from refemu.models import schemes; schemes.find('kllm-a4')", {"kllm"})],
)
def test_import_loads_nothing_that_runs_a_scheme(code: str, configured: set[str]) -> None:
    """Neither a unit of a paper nor a module of a scheme: the grammar of mixes, and the configuration of one named."""
    modules = loaded(code)
    blocks = {name for name in modules if name.startswith("refemu.units.") and name.split(".")[2] in PAPERS}
    parts = {name for name in modules if re.fullmatch(r"refemu\.models\.schemes\.\w+\.\w+", name)}

    assert blocks == set()
    grammar = {f"refemu.models.schemes.mix.{name}" for name in ("config", "grammar", "rules")}
    assert parts == grammar | {f"refemu.models.schemes.{scheme}.config" for scheme in configured}


def test_run_shows_its_next_token_and_no_matrix() -> None:
    """The lowest id of equal logits."""
    run = models.run("tiny", [1, 2, 3])
    logits = np.zeros((2, 5), np.float32)
    logits[1, [2, 4]] = 1.0

    assert repr(run) == f"Run(3 tokens, logits of {run.logits.shape[1]}, next token {run.next_token})"
    assert run.next_token == run.logits[2].tolist().index(max(run.logits[2].tolist()))
    assert models.Run(logits, {}, run.scheme).next_token == 2
