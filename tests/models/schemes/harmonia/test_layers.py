"""Harmonia's block: equal to a plain-Python decoder of the oracles, prompt and decode; variants; errors."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.harmonia.smoothing import Smoothing, pairs
from tests.models.schemes.harmonia import plain as harmonia_plain
from tests.models.schemes.kllm import plain as kllm_plain

IDS = [1, 12, 4, 4, 0, 7, 3, 9, 11, 2, 5, 8, 1, 6, 10, 3, 7, 12, 0, 4]
PROMPT = 18
SMALL = "harmonia-kv4:group=16,n_initial=0,n_local=1"
#: what differs, and the decision that it belongs to
SCHEMES = {
    "harmonia-kv8": "D-harmonia-38",
    "harmonia-kv4-naive:group=16": "D-harmonia-38",
    SMALL: "D-harmonia-16",
    f"{SMALL},preset=exact": "D-harmonia-7",
    f"{SMALL},offline=false": "D-harmonia-38",
    f"{SMALL},online=false": "D-harmonia-38",
    f"{SMALL},v_granularity=token": "D-harmonia-17",
    f"{SMALL},prefill_window=end": "D-harmonia-19",
    f"{SMALL},score_scale=fold": "D-harmonia-27",
    f"{SMALL},scores=fp32": "D-harmonia-28",
    f"{SMALL},product=fp16": "D-harmonia-8",
    f"{SMALL},scale_per=128": "D-harmonia-9",
    f"{SMALL},weights=fp16": "D-harmonia-15",
    f"{SMALL},rounding=half_even": "D-harmonia-2",
    f"{SMALL},offset_k=3,offset_scope=head": "D-harmonia-24",
    f"{SMALL},offset_k=4,offset_sign=unsigned": "D-harmonia-23",
    f"{SMALL},act_mantissa=5,high=6,low=3": "D-harmonia-1",
}


@cache
def factors(opt: bool = False) -> Smoothing:
    """Factors of 2**-2 to 2**2, equal on rotary pairs if there are some."""
    sizes: Any = harmonia_plain.small(opt).config
    s, free = np.empty((1, 2, 6), np.float32), pairs(sizes)
    s[..., free] = np.exp2(np.random.default_rng(4).uniform(-2, 2, (1, 2, len(free))))[..., None]
    return Smoothing({}, s)


@cache
def prepared(text: str, backend: str = "jit", opt: bool = False) -> Any:
    calibration: Any = factors(opt)
    return models.prepare(harmonia_plain.small(opt), text, backend=backend, calibration=calibration)


def run(text: str, backend: str = "jit", opt: bool = False, prompt: int = PROMPT) -> np.ndarray:
    session = models.session(prepared(text, backend, opt))
    return np.concatenate([session.append(IDS[:prompt]), *(session.append([token]) for token in IDS[prompt:])])


def plain(text: str, opt: bool = False, prompt: int = PROMPT) -> np.ndarray:
    config = prepared(text, "jit", opt).config
    s = factors(opt).s if config.offline else np.ones((1, 2, 6), np.float32)
    decoder = harmonia_plain.Plain(harmonia_plain.small(opt), config, s)
    rows = decoder.append(IDS[:prompt])
    for token in IDS[prompt:]:
        rows += decoder.append([token])
    return np.array(rows, np.float32)


#: their parts are in other schemes of the table, or in the tests of the unit
SLOW = {
    "harmonia-kv4-naive:group=16",
    f"{SMALL},offline=false",
    f"{SMALL},product=fp16",
    f"{SMALL},rounding=half_even",
    f"{SMALL},act_mantissa=5,high=6,low=3",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow) if text in SLOW else text for text in SCHEMES]
)
def test_logits_equal_plain_python(text: str) -> None:
    """[harmonia §III, §IV-A] D-harmonia-7, D-harmonia-15, D-harmonia-16, D-harmonia-17, D-harmonia-19, D-harmonia-27,
    D-harmonia-28, D-harmonia-38: the plan of a block restated with the oracles gives the same bits, in a prompt and in
    two decode steps after it.
    D-harmonia-32.
    """
    assert np.array_equal(run(text).view(np.uint32), plain(text).view(np.uint32))


@pytest.mark.parametrize("bias_add", ["after", "accumulator"])
def test_opt_like_decoders(bias_add: str) -> None:
    """[harmonia §V-A] D-harmonia-29: LayerNorm, learned positions, ReLU, and biases after FP2Half or before it.

    Factors are free per channel, and biases of q and k take them along; offsets are those of keys that nothing rotates.
    """
    text = f"{SMALL},bias_add={bias_add}"

    assert np.array_equal(run(text, "jit", True).view(np.uint32), plain(text, True).view(np.uint32))
    assert run(text, "numpy", True).tobytes() == run(text, "jit", True).tobytes()


def test_variants_give_other_logits() -> None:
    """All but two, whose FP32 roundings the later FP16 hides here: see the tests of linear layers, attention."""
    hidden = {f"{SMALL},scores=fp32", f"{SMALL},scale_per=128"}
    found = {run(text).tobytes() for text in SCHEMES if text not in hidden}

    assert len(found) == len(SCHEMES) - len(hidden)


@pytest.mark.parametrize(
    "text", ["harmonia-kv8", SMALL, f"{SMALL},preset=exact,rounding=floor", f"{SMALL},weights=fp16"]
)
def test_layers_backends_agree(text: str) -> None:
    """The readable definitions and their compiled forms, in one model."""
    assert run(text).tobytes() == run(text, "numpy").tobytes()


@pytest.mark.parametrize("text", ["harmonia-kv4:offline=false", "harmonia-kv8"])
def test_decode_is_cut_as_one_likes(text: str) -> None:
    """Tokens after the prompt are decode steps, however many come in one call (D-harmonia-19)."""
    ids = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his own amusement, never")
    found = models.prepare("tiny", text)
    whole, single = models.session(found), models.session(found)
    for session in (whole, single):
        session.append(ids[:60])
    rows = [single.append([token]) for token in ids[60:]]

    assert np.concatenate(rows).tobytes() == whole.append(ids[60:]).tobytes()
    assert whole.counters == single.counters
    assert whole.counters["demoted_tokens"] == (0 if text == "harmonia-kv8" else 3 * (len(ids) - 96))


def test_a_prompt_and_its_decode_differ() -> None:
    """[harmonia §III-A] D-harmonia-19: queries of a prompt see groups of V that later tokens have filled."""
    assert run(SMALL).tobytes() != run(SMALL, prompt=1).tobytes()


def test_rewind_restores_bits_and_counters() -> None:
    found, ids = prepared(SMALL), IDS
    session = models.session(found)
    session.append(ids[:5])
    session.append(ids[5:12])
    mark = session.mark()
    wanted, counters = session.append(ids[12:]), session.counters
    session.rewind(mark)

    assert session.append(ids[12:]).tobytes() == wanted.tobytes()
    assert session.counters == counters


def test_factors_of_powers_of_two_change_no_code() -> None:
    """[harmonia §III-C, Eq. 2] only the weight factors move; ones are the identity bit for bit."""
    sizes: Any = harmonia_plain.small().config
    ones, twos = (Smoothing({}, np.full((1, 2, 6), value, np.float32)) for value in (1, 4))
    found = [models.prepare(harmonia_plain.small(), "harmonia-kv4", calibration=s) for s in (ones, twos)]  # type: ignore
    off = models.prepare(harmonia_plain.small(), "harmonia-kv4:offline=false")
    codes = [[layer.weight.code for layer in one._linears.values()] for one in found]  # type: ignore[attr-defined]

    assert sizes.heads == 4
    assert all(np.array_equal(a, b) for a, b in zip(*codes, strict=True))
    assert models.run(found[0].name, IDS, found[0]).logits.tobytes() == models.run("small", IDS, off).logits.tobytes()


def test_what_overflowed_is_rejected_with_its_place() -> None:
    class Loud(kllm_plain.Random):
        def tensor(self, name: str) -> np.ndarray:
            return super().tensor(name) * np.float32(1e4 if name.endswith("up") else 1)

    model = harmonia_plain.small()
    loud = type(model)(model.name, model.config, Loud(model.config), "")  # type: ignore[arg-type]
    with pytest.raises(Refused, match=r"blk\.0\.down\.input: Bfp\.encode: x must hold no infinity"):
        models.run(loud, IDS, "harmonia-kv8")


def test_layers_repr() -> None:
    assert repr(prepared("harmonia-kv8")).startswith("Harmonia('small', HarmoniaConfig(act_mantissa=8")
    assert isinstance(prepared("harmonia-kv8"), Harmonia)
