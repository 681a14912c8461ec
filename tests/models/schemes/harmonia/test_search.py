"""Learning the factors: never worse than none, the same every time, and which factors a scheme takes."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import backend, runtime
from refemu.models.schemes.harmonia import search as harmonia_search
from refemu.models.schemes.harmonia import smoothing
from refemu.models.schemes.harmonia.config import KV4, HarmoniaConfig
from refemu.models.schemes.harmonia.search import Best, Observer, Search, learn, obtain, powers
from refemu.models.schemes.harmonia.smoothing import Smoothing
from refemu.models.schemes.scheme import silent
from tests.models.schemes.harmonia import plain
from tests.oracles.harmonia import bfp

IDS = [1, 12, 4, 4, 0, 7, 3, 9, 11, 2, 5, 8] * 3
SMALL = plain.small()
JIT = backend.Jit()


def search(config: HarmoniaConfig = KV4) -> Search:
    """Tensors of the one block of the small model."""
    runner = Observer(SMALL, JIT)
    x = runner.embed(runtime.require_tokens(IDS, runner))
    y = runner.block(0, x)
    rest = harmonia_search._rest(SMALL, config, JIT) if config.target == "block" else None
    return Search(runner, config, 0, x, y, rest)


@pytest.mark.parametrize(
    "change",
    [{}, {"target": "block"}, {"calib_kv": "scheme", "n_initial": 0, "n_local": 4}, {"low": 3, "group": 16}],
    ids=["heads", "block", "scheme", "group"],
)
def test_factors_bring_the_result_nearer(change: dict[str, Any]) -> None:
    """[harmonia §III-C, Eq. 3] D-harmonia-37: the error is below that of no smoothing, or there is none."""
    one = search(dataclasses.replace(KV4, **change))
    one.factors()  # for target "block": contexts of all heads
    unit = np.zeros(3)
    for shared in range(2):
        theta = one.theta(shared)
        assert one.error(shared, theta) < one.error(shared, unit) or not theta.any()
        assert np.array_equal(theta * 64, np.rint(theta * 64)) and np.abs(theta).max() <= 3


class Unconverted(plain.Plain):
    """The decoder with inputs of linear layers as they are."""

    def encode(self, x: list[int], m: int | None = None) -> list[Any]:
        """Groups of one value lose nothing."""
        return bfp.encode(x, 11, 1)


@pytest.mark.parametrize(("target", "reader"), [("block", plain.Plain), ("heads", Unconverted)], ids=["block", "heads"])
def test_what_a_candidate_reads(target: Any, reader: type[plain.Plain]) -> None:
    """[harmonia §III-C, Eq. 3] D-harmonia-37: "block" converts the inputs of W_Q, W_K and W_V, as all activations.

    "heads" takes q, k and v as scheme `fp16` has them: it converts nothing before the attention.
    """
    config = dataclasses.replace(KV4, target=target, act_mantissa=3, group=16)
    one = search(config)
    by_hand = reader(SMALL, dataclasses.replace(config, weights="fp16"), np.ones((1, 2, 6), np.float32))
    for name in "qkv":
        rows = [by_hand.matmul(0, name, by_hand.norm16("blk.0.attn_norm", by_hand.embed[token])) for token in IDS]
        wanted = [by_hand.rotate(row, t) if name != "v" else row for t, row in enumerate(rows)]
        found = one._seen[name].reshape(len(IDS), -1).astype(np.float16).view(np.uint16).tolist()

        assert found == wanted


def test_the_same_twice() -> None:
    found = [learn(SMALL, KV4, JIT, IDS) for _ in range(2)]

    assert found[0].to_bytes() == found[1].to_bytes()
    assert (found[0].s != 1).any()
    assert found[0].require(SMALL.config, "small") is found[0]  # type: ignore[arg-type]


def test_channels_that_do_not_rotate_are_free() -> None:
    """[harmonia §V-A] OPT-like decoders: a factor per channel."""
    model = plain.small(opt=True)
    found = learn(model, KV4, JIT, IDS)

    assert found.require(model.config, "small") is found  # type: ignore[arg-type]
    assert (found.s[..., ::2] != found.s[..., 1::2]).any()


def test_without_conversions_there_is_nothing_to_learn() -> None:
    """With 11 bits everywhere nearly nothing is lost: errors are those of a few roundings."""
    fine = search(dataclasses.replace(KV4, act_mantissa=11, high=11, low=11, group=16))
    coarse = search()

    assert fine.error(0, np.zeros(3)) < coarse.error(0, np.zeros(3)) / 100


def test_search_returns_its_best_point() -> None:
    """Bounded Powell can return a worse place than it passed."""
    best = Best(lambda place: float((place[0] - 1) ** 2))
    for x in (3.0, 1.25, 2.0):
        best(np.array([x]))

    assert (best.place.tolist(), best.value) == ([1.25], 0.0625)
    assert repr(best) == "Best(0.0625)"


def test_pairs_of_zeros_keep_their_factor() -> None:
    one = search()
    one._seen["k"][:, 0, :2] = 0

    assert one.theta(0)[0] == 0


def test_factors_are_rounded_once() -> None:
    """Multiples of 1/64 come from the table of `exp32`; between them any nearest factor will do."""
    theta = np.array([-3, -1 / 64, 0, 1 / 2, 1, 63 / 64, 3])

    assert powers(theta).dtype == np.float32
    assert powers(theta).tolist() == [np.float32(2.0**value) for value in theta.tolist()]
    assert powers(np.array([0.3])).tolist() == [np.float32(2**0.3)]


def test_which_factors_a_scheme_takes(tmp_path: Path) -> None:
    """The given factors, the file's, those that ship for these settings; otherwise learned ones."""
    tiny: Any = models.load("tiny")
    shipped: Any = smoothing.shipped("tiny")
    other = Smoothing(shipped.description, np.full_like(shipped.s, 2))
    path = tmp_path / "other.npz"
    other.save(path)
    named = dataclasses.replace(KV4, smoothing=str(path))

    assert obtain(tiny, KV4, JIT, None, silent).s.tobytes() == shipped.s.tobytes()
    assert obtain(tiny, KV4, JIT, other, silent) is other
    assert obtain(tiny, named, JIT, None, silent).s.tobytes() == other.s.tobytes()
    assert (obtain(tiny, dataclasses.replace(KV4, offline=False), JIT, None, silent).s == 1).all()
    asked: list[str] = []
    learned = obtain(
        tiny,
        dataclasses.replace(KV4, low=3),
        JIT,
        list(b"a truth universally acknowledged, that"),
        lambda what, done, total: asked.append(what),
    )
    assert learned.description["low"] == 3 and set(asked) == {"smoothing"}


def test_settings_that_decide() -> None:
    """Sizes of the windows matter only where the search looks at them."""
    few = harmonia_search.described(SMALL, KV4)
    all_of_them = harmonia_search.described(SMALL, dataclasses.replace(KV4, calib_kv="scheme"))

    assert set(all_of_them) - set(few) == {"high", "n_initial", "n_local"}


def test_short_texts_and_foreign_factors_are_rejected() -> None:
    with pytest.raises(Refused, match="at least 32 calibration tokens, got 31"):
        learn(SMALL, KV4, JIT, IDS[:31])
    foreign = Smoothing({"weights_sha256": "0"}, np.ones((1, 2, 6), np.float32))
    with pytest.raises(Refused, match=r"must be made for weights .*, got 0"):
        obtain(SMALL, KV4, JIT, foreign, silent)


def test_search_repr() -> None:
    assert repr(search()) == "Search(layer=0, target='heads')"
