"""GPT-2-like and OPT-like decoders: equal to a plain-Python one, near one in float64, the same bits in every cut."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.model import Model
from refemu.models.runtime import decoder
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.schemes.scheme import require_layers
from refemu.models.taps import Watch
from tests.models import toy_decoder
from tests.models.held import Held
from tests.models.schemes.fp16 import test_decoder, test_encoder
from tests.oracles import fp16, sums

NAMES = ["tiny-gpt2", "tiny-opt"]
TOY = pytest.mark.parametrize("kind", ["gpt2", "opt"])
EVERY = pytest.mark.parametrize("kind", ["gpt2", "opt", "llama"])
IDS = [3, 0, 16, 7, 7, 1, 2, 5]
TEXT = list(b"She was now nine-and-twenty")
PINNED = {
    ("tiny-gpt2", "fp16"): "9cef8818e5b7a82d14ea4f3e55ab263f2fa23ed3ae4c7c71aa340ac73704ad8c",
    ("tiny-gpt2", "olive-4"): "71315ad7f856019ec6b11189a0504ff43aa9f1a97d0e1ef0a87499299b17a651",
    ("tiny-gpt2", "olive-8"): "2b449d2208d975af068a135fcc9b5a1df9be5abcafc7cb4099a2e22e9353e751",
    ("tiny-opt", "fp16"): "e43712c77ee81be17f6196b1402c760edf3a4a233348245ae08077236e23de0b",
    ("tiny-opt", "olive-4"): "5c98e7637bb9a89727da01d1a0a22cd6046a7fe5276af0811470299e08ac8304",
    ("tiny-opt", "olive-8"): "68ab6ea26f332a35caf67068b7e2dd23199fd184245206653f067f8df3c63039",
}


def small(kind: str, **changes: Any) -> Model:
    config = dataclasses.replace(toy_decoder.CONFIGS[kind], **changes)
    return Model("small", config, Held(toy_decoder.values(config)), "")


@cache
def prepared(name: str, scheme: str) -> Any:
    config = schemes.parse(scheme)
    if scheme in ("olive-4", "olive-8"):  # four candidates instead of 88: the search has its own tests
        config = dataclasses.replace(config, low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare(name, config, calibration=list(b"It is a truth universally acknowledged. " * 4))


class Oracle(test_decoder.Oracle):
    """The decoder in Python floats, one token at a time, every value an fp16 or float32 one [docs/fp16-scheme.md]."""

    def logits(self, token: int) -> list[float]:
        word, position = self.weights["embed"][token], self.weights["position"][len(self.keys[0])]
        x = [sums.f16(a + b) for a, b in zip(word, position, strict=True)]
        for layer in range(self.config.blocks):
            x = [sums.f16(a + b) for a, b in zip(x, self.attention(layer, x), strict=True)]
            x = [sums.f16(a + b) for a, b in zip(x, self.feed_forward(layer, x), strict=True)]
        return [test_decoder.dot(row, self.norm("norm", x)) for row in self.weights["embed"]]

    def rotate(self, x: list[float], position: int) -> list[float]:
        return x

    def feed_forward(self, layer: int, x: list[float]) -> list[float]:
        up = self.linear(layer, "up", self.norm(f"blk.{layer}.ffn_norm", x))
        return self.linear(layer, "down", [self.activation(a) for a in up])

    def activation(self, a: float) -> float:
        if self.config.activation == "relu":
            return max(a, 0.0)
        inner = math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)
        return sums.f16(a / (1 + math.exp(-2 * inner)))

    def linear(self, layer: int, name: str, x: list[float]) -> list[float]:
        full = f"blk.{layer}.{name}"
        return [
            sums.f16(fp16.f32(test_decoder.dot(row, x) + bias))
            for row, bias in zip(self.weights[full], self.weights[full + ".bias"], strict=True)
        ]

    def norm(self, name: str, x: list[float]) -> list[float]:
        return test_encoder.Oracle.norm(self, name, x)  # type: ignore[arg-type]


class Recorder:
    """A prepared model that keeps what every step returns, in order."""

    steps = ("norm", "linear", "rotate", "attention", "activate", "activation", "add", "head")

    def __init__(self, parts: Any) -> None:
        self._parts = parts
        self.found: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._parts, name)
        return (lambda *arguments: self._keep(method(*arguments))) if name in self.steps else method

    def _keep(self, result: Any) -> Any:
        self.found += [part.reshape(len(part), -1) for part in (result if isinstance(result, list) else [result])]
        return result


@TOY
@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_logits_equal_a_plain_python_decoder(kind: str, backend: str) -> None:
    """D-arith-15, D-arith-16: every step of the scheme, restated without arrays."""
    model = small(kind, rms_eps=test_encoder.CONFIG.norm_eps)
    oracle = Oracle(model)

    assert [oracle.logits(token) for token in IDS] == models.run(model, IDS, backend=backend).logits.tolist()


def check(model: Model, ran: Model) -> None:
    """Every step of `ran` under scheme `fp16` is as near to `model` in float64 as its roundings allow."""
    parts = Recorder(models.prepare(ran))
    logits = parts.head(decoder(parts, np.array(IDS), parts.caches(), Watch()), Watch())
    found: Iterator[np.ndarray] = iter(parts.found)

    def settle(value: np.ndarray, bound: np.ndarray) -> np.ndarray:
        step = next(found).astype(np.float64)
        assert (np.abs(step - value) <= bound).all()
        return step

    assert np.array_equal(toy_decoder.forward(model, IDS, settle), logits)
    assert next(found, None) is None


@EVERY
def test_every_step_is_within_rounding_of_float64(kind: str) -> None:
    """The bounds count roundings: one of fp16 per step, those of float32 by the length of its sums."""
    check(small(kind), small(kind))


@pytest.mark.parametrize("changes", [{"activation": "gelu_erf"}, {"rms_eps": 1e-2}], ids=str)
def test_the_bounds_tell_other_layers_apart(changes: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check(small("gpt2"), small("gpt2", **changes))


@pytest.mark.long
@EVERY
def test_whole_model_is_within_rounding_of_float64(kind: str) -> None:
    """The bounds of all steps, carried to the logits; of first order, and the worst found is a tenth of it."""
    model, ids = small(kind), IDS[:3]
    wanted, found = toy_decoder.forward(model, ids), models.run(model, ids).logits
    allowed = toy_decoder.reach(model, ids)

    assert (np.abs(found - wanted) <= allowed).all()
    assert allowed.max() < wanted.std() / 2


@pytest.mark.parametrize("cuts", [[1] * 12, [5, 7], [11, 1]], ids=str)
@pytest.mark.parametrize("scheme", ["fp16", "fp16:residual=fp32", "olive-4", "olive-8", "olive-study"])
@pytest.mark.parametrize("name", NAMES)
def test_prompt_and_decode_give_equal_bits(name: str, scheme: str, cuts: list[int]) -> None:
    session, parts = models.session(prepared(name, scheme)), []
    for count in cuts:
        parts.append(session.append(TEXT[len(session) : len(session) + count]))
    whole = models.session(prepared(name, scheme)).append(TEXT[:12])

    assert whole.tobytes() == np.concatenate(parts).tobytes()


@pytest.mark.parametrize("scheme", ["fp16", "fp16:acc=fp16", "olive-4:low=90,high=130,step=20"])
@pytest.mark.parametrize("name", NAMES)
def test_decoders_backends_agree(name: str, scheme: str) -> None:
    jit, numpy = (models.run(name, TEXT[:8], scheme, backend, calibration=TEXT).logits for backend in ("jit", "numpy"))

    assert np.array_equal(jit.view(np.uint32), numpy.view(np.uint32))


@pytest.mark.parametrize(("name", "scheme"), PINNED)
def test_logits_are_pinned(name: str, scheme: str) -> None:
    """A line changes only with a decision, as in tests/models/test_pinned.py."""
    logits = models.run(name, TEXT, prepared(name, scheme)).logits

    assert hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest() == PINNED[name, scheme]


@pytest.mark.parametrize("name", NAMES)
def test_positions_matter(name: str) -> None:
    """The same token twice: without positions the rows would be equal."""
    logits = models.run(name, [65, 65, 65]).logits

    assert logits[1].tobytes() != logits[2].tobytes()


def test_relu_keeps_nan_and_loses_sign_of_zero() -> None:
    parts: Any = models.prepare("tiny-opt")
    found = parts.activate(0, np.array([-1, -0.0, 2, np.nan, -np.inf], np.float32), Watch())

    assert found.view(np.uint32).tolist() == [0, 0, 0x40000000, 0x7FC00000, 0]


def test_taps_see_the_linear_layers_of_a_block() -> None:
    cases: list[Any] = []
    models.run("tiny-opt", TEXT[:4], prepared("tiny-opt", "olive-4"), taps=lambda *case: cases.append(case))
    tensors = [case.source["tensor"] for layer, unit, case in cases if layer == 0 and unit == "ovp_encoder"]

    assert tensors == [f"blk.0.{name}.input" for name in ("q", "o", "up", "down")]


def test_leankv_in_fp16_pages_is_near_fp16() -> None:
    """Prompts have the bits of scheme `fp16`; the engine gives every row its own position."""
    parts: Any = models.prepare("tiny-opt", "leankv-k16v16")
    prompts = [TEXT[:9], TEXT[4:8]]
    engine = Engine(parts, slots=2)
    names = [engine.submit(prompt, 6) for prompt in prompts]
    chosen = engine.run()
    session = models.session(parts)
    plain = models.run("tiny-opt", TEXT[:12]).logits

    assert session.append(TEXT[:9]).tobytes() == plain[:9].tobytes()
    assert np.abs(session.append(TEXT[9:12]) - plain[9:]).max() < 0.01
    assert [chosen[name] for name in names] == [models.greedy(parts, prompt, 6) for prompt in prompts]


@pytest.mark.parametrize("name", NAMES)
def test_scheme_without_these_layers_rejects_them(name: str) -> None:
    """Every scheme of the package has them; one that does not say so has not."""
    message = rf"Scheme computes Llama-like decoders, got {name} with LayerNorm, learned positions, biases, \w+ without"
    with pytest.raises(Refused, match=message):
        require_layers(models.Scheme(), models.load(name))
    require_layers(models.Scheme(), models.load("tiny"))
