"""Parts of a block: single tokens on raw arrays give the bits, counters, taps and errors of the units.

Taps change nothing: the same functions run with and without them, and they show what these computed.
"""

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.kllm.block import Blocks
from refemu.models.taps import Watch
from refemu.units.unit import Cases
from tests.arith.interpreted import needs_compiled
from tests.models.schemes.kllm import plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8]
IDS = [3, 1, 12, 0, 7, 7, 5, 9, 11, 2]
CHANGES = [
    "",
    ":act_bits=3,weight_bits=2",
    ":outlier_percent=30",
    ":thresholds=static",
    ":kv_outliers=false",
    ":norm=fp16",
    ":gamma=activations",
    ":score_bits=8",
    ":weight_bits=3,outlier_percent=0",
]


@cache
def prepared(change: str = "", make: Any = plain.small) -> Any:
    return models.prepare(make(), f"kllm-a4{change}", calibration=CALIBRATION)


def by_units(parts: Any, ids: list[int]) -> Any:
    """The logits of single tokens, and counters, as the units give them."""
    with mock.patch.object(parts, "_token_blocks", None):
        return by_steps(parts, ids)


def by_steps(parts: Any, ids: list[int]) -> Any:
    session = models.session(parts)
    return np.concatenate([session.append([token]) for token in ids]), session.counters


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("change", CHANGES)
def test_a_step_gives_the_bits_of_the_units(change: str) -> None:
    parts = prepared(change)
    logits, counters = by_steps(parts, IDS)
    wanted, counted = by_units(parts, IDS)

    assert parts._token_blocks is not None
    assert logits.tobytes() == wanted.tobytes()
    assert counters == counted
    assert logits.tobytes() == models.session(parts).append(IDS).tobytes()


@needs_compiled
@pytest.mark.parametrize("make", [plain.layered, lambda: plain.layered("relu")])
def test_a_step_gives_the_bits_of_other_decoders(make: Any) -> None:
    """The norms are left to the units, the layers without one, with biases, are not."""
    parts = models.prepare(make(), "kllm-a4", calibration=CALIBRATION)

    assert by_steps(parts, IDS)[0].tobytes() == by_units(parts, IDS)[0].tobytes()
    assert {names for _, names in parts._token_blocks.groups} == {("o",), ("down",)}


@needs_compiled
def test_layout_grows_and_is_rebuilt_after_rewind() -> None:
    """After 64 tokens the buffers double; other tokens replace the dropped ones."""

    def make() -> Model:
        config = ModelConfig(blocks=1, width=9, ffn=11, heads=4, kv_heads=2, head_dim=4, vocab=13, context=200)
        return Model("long", config, plain.Random(config), "")

    parts, ids = models.prepare(make(), "kllm-a4:outlier_percent=50", calibration=CALIBRATION), IDS * 15
    whole, session = models.session(parts).append(ids), models.session(parts)
    session.append(ids[:50])
    mark = session.mark()
    for token in ids[:30]:
        session.append([token])
    session.rewind(mark)

    assert np.concatenate([session.append([token]) for token in ids[50:]]).tobytes() == whole[50:].tobytes()


@needs_compiled
def test_what_is_left_to_the_units() -> None:
    """Another arithmetic, other tables and scales; two tokens at once."""
    for change in (":preset=exact", ":function_table=literal", ":score_scale=max,v_scale=static"):
        assert prepared(change)._token_blocks is None
    parts = prepared()

    assert parts.blocks(np.zeros((1, 9), np.float32)) is parts._token_blocks
    assert isinstance(parts.blocks(np.zeros((2, 9), np.float32)), Blocks)


@needs_compiled
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda parts, x: parts.linear(0, ("gate", "up"), x, Watch()), r"blk\.0\.ffn_in: values must be finite"),
        (
            lambda parts, x: parts.linear(0, ("o",), np.resize(x, (1, 16)), Watch()),
            r"blk\.0\.o_in: values must be finite",
        ),
        (lambda parts, x: parts.cache(0).append(*np.resize(x, (2, 1, 2, 4))), r"blk\.0\.k: values must be finite"),
        (
            lambda parts, x: parts.activation(0, *np.resize(x, (2, 1, 11)), Watch()),
            r"blk\.0\.gate: values must be finite",
        ),
        (
            lambda parts, x: parts.attention(0, np.resize(x, (1, 4, 4)), parts.cache(0), Watch()),
            r"blk\.0\.q: values must",
        ),
    ],
)
def test_errors_are_those_of_the_units(call: Any, message: str) -> None:
    x = np.full((1, 9), 1, np.float32)
    x[0, 3] = np.inf
    with pytest.raises(Refused, match=message):
        call(prepared(), x)


@needs_compiled
def test_products_and_logits_beyond_fp16_are_rejected() -> None:
    """Finite gates whose product with up is not; keys and queries whose product is +Inf."""
    parts, x = prepared(), np.full((1, 11), 60000, np.float32)
    with pytest.raises(Refused, match=r"blk\.0\.down_in: products of outliers must be finite, got an overflow"):
        parts.activation(0, x, x, Watch())
    held, large = parts.cache(0), np.full((1, 2, 4), 60000, np.float32)
    held.append(large, large)
    with np.errstate(over="ignore"), pytest.raises(Refused, match=r"functional: x must not be NaN or \+Inf"):
        parts.attention(0, np.full((1, 4, 4), 60000, np.float32), held, Watch())


PARTS = {
    "refemu.models.schemes.kllm.block.Blocks": ("encode", "linear", "attention", "gated"),
    "refemu.models.schemes.kllm.operands.Operands": ("encode",),
    "refemu.models.schemes.kllm.compiled.block.TokenBlocks": ("encode", "linear", "attention", "gated"),
    "refemu.models.schemes.kllm.compiled.block": ("kmeans_root", "kmeans_function", "kmeans_gated"),
    "refemu.models.schemes.kllm.compiled.attention": ("kmeans_scores", "multiply"),
    "refemu.models.schemes.kllm.compiled.cache": ("kmeans_lay_out",),
    "refemu.models.schemes.kllm.compiled.packed": ("kmeans_vector",),
    "refemu.models.schemes.kllm.compiled.product": ("kmeans_heads",),
    "refemu.formats.kllm.compiled.kmeans_row": ("_encode",),
}  #: functions and methods that compute a decoder's blocks, by module or class
TEXT = list(b"It is a truth universally")


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often every function of `PARTS` is called."""
    calls: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        return call

    with ExitStack() as stack:
        for place, names in PARTS.items():
            holder = pkgutil.resolve_name(place)
            for name in names:
                function = getattr(holder, name)
                stack.enter_context(mock.patch.object(holder, name, counting(f"{place}.{name}", function)))
        yield calls


@cache
def tiny() -> Any:
    return models.prepare("tiny", "kllm-a4", calibration=TEXT * 4)


class Recorder:
    """A tap that keeps the bytes of every case."""

    def __init__(self) -> None:
        self.cases: list[tuple[Any, ...]] = []

    def __call__(self, layer: int, unit: str, case: Cases) -> None:
        arrays = {port: (array.dtype, array.shape, array.tobytes()) for port, array in case.inputs.items()}
        self.cases.append((layer, unit, case.config, case.why, case.source, arrays))


def decoded(parts: Any, tap: Any = None) -> tuple[bytes, dict[str, int], list[bytes]]:
    """Logits, counters and caches of a prompt of 14 tokens and of single ones after it."""
    session = models.session(parts, tap)
    rows = [session.append(TEXT[:14]), *(session.append([token]) for token in TEXT[14:])]
    held = [
        array[: len(session)].tobytes()
        for cache in session.caches
        for tokens in (cache.k, cache.v)
        for array in tokens.arrays()
    ]
    return np.concatenate(rows).tobytes(), session.counters, held


@needs_compiled
def test_taps_change_no_path() -> None:
    """Every function is called as often with taps as without, and single tokens go to no unit."""
    with counted() as unseen:
        plain_run = decoded(tiny())
    with counted() as seen:
        tapped_run = decoded(tiny(), lambda *_: None)
    steps, blocks = len(TEXT) - 14, tiny().model.blocks

    assert plain_run == tapped_run
    assert unseen == seen
    assert set(seen) == {f"{place}.{name}" for place, names in PARTS.items() for name in names}
    assert seen["refemu.models.schemes.kllm.block.Blocks.linear"] == 4 * blocks  # of the prompt
    assert seen["refemu.models.schemes.kllm.compiled.block.TokenBlocks.linear"] == 4 * blocks * steps


@needs_compiled
def test_taps_show_what_the_units_would() -> None:
    """Every case of a decode step, in order and in every bit; sixteen and twenty keys are reached by single tokens."""
    steps, units = Recorder(), Recorder()
    decoded(tiny(), steps)
    with mock.patch.object(tiny(), "_token_blocks", None):
        decoded(tiny(), units)

    assert steps.cases == units.cases
    assert {case[1] for case in steps.cases if case[4]["first_token"] >= 14} == set(models.schemes.taps(tiny().config))


PLANTED = {
    "index of an activation": ("formats.kllm.compiled.kmeans_row._encode", 11, 14, "index_norm"),
    "logit": ("models.schemes.kllm.compiled.attention.multiply", 5, 19, "functional"),
    "score": ("models.schemes.kllm.compiled.attention.kmeans_scores", 4, 15, "score_quantizer"),
    "integer of a score": ("models.schemes.kllm.compiled.attention.kmeans_scores", 5, 19, "index_counter"),
    "scale of a score": ("models.schemes.kllm.compiled.attention.kmeans_scores", 6, 19, "index_matmul"),
    "function of an element": ("models.schemes.kllm.compiled.block.kmeans_function", 7, 14, "index_product"),
}  #: what is set to 1: function, argument that it fills, token at which; and the unit whose ports show it first


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("fault", PLANTED)
def test_a_wrong_value_in_a_step_is_shown(fault: str) -> None:
    """By the tap of that very value: no case before it differs."""
    place, argument, token, unit = PLANTED[fault]
    holder, name = pkgutil.resolve_name(f"refemu.{place.rpartition('.')[0]}"), place.rpartition(".")[2]
    compute, right, shown = getattr(holder, name), Recorder(), Recorder()

    def wrong(*arguments: Any) -> Any:
        answer = compute(*arguments)
        arguments[argument][...] = 1
        return answer

    for recorder, function in ((right, compute), (shown, wrong)):
        session = models.session(tiny(), recorder)
        session.append(TEXT[:14])
        for at in range(14, token):
            session.append([TEXT[at]])
        with mock.patch.object(holder, name, function):
            session.append([TEXT[token]])
    different = [one for one, other in zip(right.cases, shown.cases, strict=True) if one != other]

    assert different[0][1] == unit
    assert (different[0][0], different[0][4]["first_token"]) == (0, token)
