"""The base class of a scheme of one's own: hooks, mixes, registration, rejected results."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import text
from refemu.models.schemes.registry import PLUGGED

IDS = list(b"the cat sat on the mat")


@dataclass(frozen=True)
class Rtn(models.LinearScheme):
    """Weights rounded to nearest in groups."""

    bits: int = 4
    group: int = 8

    def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
        groups = rows.reshape(len(rows), -1, self.group)
        scale = np.abs(groups).max(axis=2, keepdims=True) / np.float32(2 ** (self.bits - 1) - 1)
        codes = np.rint(groups / np.where(scale == 0, 1, scale))
        return (codes * scale).reshape(rows.shape)


@dataclass(frozen=True)
class Hooks(models.LinearScheme):
    """Each hook doubles what it gets, if it is named."""

    hook: str = ""

    def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
        return rows * 2 if self.hook == "weight" else rows.astype(np.float64)

    def inputs(self, name: str, x: np.ndarray) -> np.ndarray:
        return x * 2 if self.hook == "inputs" and name.endswith(("q", "gate")) else x

    def keys(self, layer: int, k: np.ndarray) -> np.ndarray:
        return k * 2 if self.hook == "keys" else k

    def values(self, layer: int, v: np.ndarray) -> np.ndarray:
        return v * 2 if self.hook == "values" else v.astype(np.float16)


def logits(scheme: Any, model: str = "tiny", backend: str = "jit") -> bytes:
    return models.run(model, IDS, scheme, backend=backend).logits.tobytes()


@pytest.mark.parametrize("model", ["tiny", "tiny-gpt2", "tiny-mixtral"])
def test_scheme_without_changes_is_fp16(model: str) -> None:
    assert logits(Hooks(), model) == logits("fp16", model) == logits(Hooks(), model, "numpy")


def test_every_hook_changes_the_logits() -> None:
    found = {logits(Hooks(hook)) for hook in ("", "weight", "inputs", "keys", "values")}

    assert len(found) == 5


@pytest.mark.parametrize("hook", ["keys", "values"])
def test_keys_and_values_are_rounded_to_fp16(hook: str) -> None:
    def scheme(half: bool) -> models.LinearScheme:
        @dataclass(frozen=True)
        class Shifted(models.LinearScheme):
            """Values between those of fp16."""

        def shifted(self: Shifted, layer: int, array: np.ndarray) -> np.ndarray:
            changed = array * np.float32(1.0003)
            return changed.astype(np.float16) if half else changed

        setattr(Shifted, hook, shifted)
        return Shifted()

    assert logits(scheme(True)) == logits(scheme(False)) != logits("fp16")


def test_rtn_scheme_multiplies_rounded_weights() -> None:
    """By hand: the matrix of one layer, times one input, in the order of scheme fp16."""
    prepared: Any = models.prepare("tiny", Rtn())
    rows = models.load("tiny").half("blk.1.o").astype(np.float64)
    groups = rows.reshape(len(rows), -1, 8)
    scale = (np.abs(groups).max(axis=2, keepdims=True).astype(np.float32) / np.float32(7)).astype(np.float64)
    codes = np.clip(np.round(groups.astype(np.float32) / scale.astype(np.float32)), -7, 7)
    weights = (codes.astype(np.float32) * scale.astype(np.float32)).reshape(rows.shape)
    x = np.eye(rows.shape[1], dtype=np.float32)[:3]

    assert np.array_equal(prepared.linear(1, ("o",), x, None)[0], weights.T[:3].astype(np.float16))


def test_prompt_and_single_tokens_give_the_same_bits() -> None:
    prepared = models.prepare("tiny", Rtn())
    session = models.session(prepared)

    assert (
        b"".join(session.append([token]).tobytes() for token in IDS)
        == models.run("tiny", IDS, prepared).logits.tobytes()
    )


def test_class_is_registered_under_a_name() -> None:
    models.schemes.register(Rtn, "own-rtn")
    try:
        assert models.schemes.parse("own-rtn:bits=3") == Rtn(bits=3)
        assert models.schemes.text(Rtn(bits=3)) == "own-rtn:bits=3"
        assert logits("own-rtn+leankv-k8v4") == logits(models.compose(linear=Rtn(), attention="leankv-k8v4"))
    finally:
        PLUGGED.forget("own-rtn")


def test_unnamed_scheme_is_text_of_its_class() -> None:
    assert models.perplexity("tiny", "a text of some length", scheme=Rtn(bits=3)).scheme == "Rtn:bits=3"


def test_class_without_dataclass_is_rejected_with_a_hint() -> None:
    class Bare(models.LinearScheme):
        """No dataclass."""

    with pytest.raises(RefusedType, match=r"put @dataclass\(frozen=True\) above the class"):
        models.prepare("tiny", Bare())


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        pytest.param(
            lambda rows: rows[:1], Refused, r"Bad.weight: must return shape \(64, 64\), got \(1, 64\)", id="shape"
        ),
        pytest.param(
            lambda rows: rows.astype(int), RefusedType, "must return an array of floats, got int64", id="dtype"
        ),
        pytest.param(
            lambda rows: rows.reshape(-1, 7),
            Refused,
            r"Bad.weight: fails for blk.0.q: ValueError: cannot reshape .*py:[0-9]+\)",
            id="raises",
        ),
        pytest.param(lambda rows: None, RefusedType, "must return an array of floats, got NoneType", id="none"),
        pytest.param(
            lambda rows: rows / 0, Refused, "Bad.weight: must return finite values, got NaN .* for blk.0.q", id="nan"
        ),
        pytest.param(lambda rows: rows + 1e300, Refused, "Bad.weight: must return finite values", id="beyond float32"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_invalid_results_of_hooks_are_rejected(result: Any, error: type[Exception], message: str) -> None:
    @dataclass(frozen=True)
    class Bad(models.LinearScheme):
        """A hook that returns something else."""

        def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
            return result(rows)  # type: ignore[no-any-return]

    with pytest.raises(error, match=message):
        models.prepare("tiny", Bad())


def test_hook_with_other_arguments_is_rejected_with_its_signature() -> None:
    @dataclass(frozen=True)
    class Bad(models.LinearScheme):
        """A hook without a name."""

        def weight(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[override]
            return rows

    with pytest.raises(Refused, match=r"TypeError: .*; define weight\(self, name: str, rows: numpy.ndarray\) ->"):
        models.prepare("tiny", Bad())


@pytest.mark.parametrize(("hook", "place"), [("inputs", "blk.0.q"), ("keys", "blk.0"), ("values", "blk.0")])
def test_nan_of_finite_values_is_rejected(hook: str, place: str) -> None:
    @dataclass(frozen=True)
    class Bad(models.LinearScheme):
        """A hook that returns one NaN."""

    def nan(self: Bad, where: str | int, array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed.flat[-1] = np.nan
        return changed

    setattr(Bad, hook, nan)
    with pytest.raises(Refused, match=f"Bad.{hook}: must return finite values, got NaN or infinity for {place}$"):
        logits(Bad())


class Seen:
    """What the `prepare` of a scheme got."""

    calibration: Any = None


@dataclass(frozen=True)
class Calibrating(models.LinearScheme):
    """Sees the inputs of its layers on the calibration text."""

    calibrates = True
    wrong: str = ""

    def prepare(self, model: Any, backend: Any, calibration: Any, progress: Any) -> Any:
        Seen.calibration = calibration
        if self.wrong == "own":
            raise KeyError("blk.9")
        if self.wrong == "refemu":
            return super().prepare(None, backend, calibration, progress)  # type: ignore[arg-type]
        models.run(model, calibration[:16], Hooks())
        return super().prepare(model, backend, calibration, progress)


@pytest.mark.parametrize(
    "scheme",
    [
        Calibrating(),
        models.compose(Calibrating(), "leankv-k8v4"),
        models.compose("fp16", "fp16", {Calibrating(): [1]}),  # the run in `prepare` is of all blocks
    ],
)
def test_calibrating_scheme_gets_the_default_text(scheme: Any) -> None:
    model = models.load("tiny")
    models.prepare(model, scheme)
    assert list(Seen.calibration) == list(model.tokenizer.encode(text.calibration()))
    models.prepare(model, scheme, calibration=IDS)
    assert Seen.calibration == IDS


def test_scheme_that_does_not_calibrate_gets_none() -> None:
    @dataclass(frozen=True)
    class Silent(Calibrating):
        """Does not calibrate."""

        calibrates = False

        def prepare(self, model: Any, backend: Any, calibration: Any, progress: Any) -> Any:
            Seen.calibration = calibration
            return models.LinearScheme.prepare(self, model, backend, calibration, progress)

    models.prepare("tiny", Silent())
    assert Seen.calibration is None


def test_error_in_prepare_is_one_of_the_scheme() -> None:
    message = r"Calibrating.prepare: fails: KeyError: 'blk.9' \(.*test_linear_scheme.py:[0-9]+\)$"
    with pytest.raises(Refused, match=message):
        models.prepare("tiny", Calibrating("own"))
    with pytest.raises(AttributeError):
        models.prepare("tiny", Calibrating("refemu"))


def test_missing_calibration_text_is_hinted_at() -> None:
    @dataclass(frozen=True)
    class Undeclared(models.LinearScheme):
        """Reads a text that it does not ask for."""

        def prepare(self, model: Any, backend: Any, calibration: Any, progress: Any) -> Any:
            return list(calibration)

    with pytest.raises(Refused, match=r"is not iterable .*set calibrates = True to get the shipped one"):
        models.prepare("tiny", Undeclared())


@pytest.mark.parametrize(
    ("scheme", "used"),
    [
        ("fp16", False),
        ("leankv-k8v4", False),
        ("olive-8", True),
        ("olive-4:act_bits=none", False),
        ("olive-study:inputs=false", False),
        ("olive-study", True),
        ("kllm-a4", True),
        ("kllm-a4:quantizer=rtn", False),
        ("harmonia-kv4", True),
        ("harmonia-kv4:offline=false", False),
        ("harmonia-kv4+fp16", False),
        ("fp16+harmonia-kv4", True),
        ("olive-8+leankv-k8v4", True),
        (Hooks(), False),
        (Calibrating(), True),
    ],
)
def test_unused_calibration_is_known(scheme: Any, used: bool) -> None:
    assert models.schemes.ignores_calibration(models.schemes.find(scheme)) is not used
