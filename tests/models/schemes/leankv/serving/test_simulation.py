"""The simulator equals a simulation in plain Python, loses no page and leaves nobody waiting."""

import dataclasses
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.machine import shapes
from refemu.models.schemes.leankv import serving
from refemu.models.schemes.leankv.pool import Image, Pool
from refemu.models.schemes.leankv.serving import pages as of_pages
from refemu.models.schemes.leankv.serving import simulation
from refemu.models.schemes.leankv.serving.gpu import GPUS, Rates
from tests.oracles.leankv import serving as oracle

SHAPE, SHARES, WINDOW = "llama-3.2-1b", (0.2, 0.3), 8
GPU = GPUS["l40"]


def expected(trace: list[serving.Arrival], pages: int, preemption: str, slots: int, seed: int) -> oracle.Result:
    sizes = shapes.find(SHAPE)
    high, low = UnifiedPage(64, K8V4), UnifiedPage(64, K4V2)
    setting = oracle.Setting(
        *(sizes.blocks, sizes.width, sizes.ffn, sizes.heads, sizes.kv_heads, 64, sizes.vocab, pages),
        *((high.tokens, low.tokens), (K8V4.token_bytes(64), K4V2.token_bytes(64)), high.size, WINDOW, SHARES),
        *(slots, preemption, seed, GPU.bandwidth, GPU.rate, GPU.link),
    )
    return oracle.Simulation(setting, [dataclasses.astuple(each) for each in trace]).run()


def simulated(trace: list[serving.Arrival], pages: int, **more: Any) -> serving.Report:
    setting = serving.Setting(shape=SHAPE, high_share=SHARES[0], pruned_share=SHARES[1], **more)
    return serving.simulate(f"leankv:num_pages={pages},window={WINDOW}", trace, setting)


def require_equal(report: serving.Report, result: oracle.Result) -> None:
    running = report.series.column("running")
    batches = running[report.series.column("prompt") == 0]
    fragmentation = report.series.column("fragmentation")[running > 0]

    assert report.requests["finished"] == len(result.finished)
    assert report.requests["preemptions"] == len(result.yielded)
    assert report.requests["preempted"] == len(set(result.yielded))
    assert report.requests["aborted"] == len(result.aborted)
    assert report.total["tokens"] == result.tokens
    assert report.total["seconds"] == result.seconds
    assert report.total["stalls"]["steps"] == result.stalls
    assert report.total["first_token_seconds"] == pytest.approx(statistics.fmean(result.first.values()), rel=1e-12)
    assert report.total["bytes"]["weights"] == result.weights
    assert report.total["bytes"]["swapped"] == result.swapped
    assert report.total["operations"] == int(result.operations)
    assert (report.total["generation_seconds"], report.total["bound_seconds"]) == (result.generating, result.bound)
    assert [report.pages["peak"][name] for name in ("high", "low", "all")] == result.peak
    assert [batch for batch in batches.tolist() if batch] == result.batches
    assert report.total["steps"]["prompt"] == result.prompts
    assert report.total["bytes"]["cache"] == result.bytes_read
    assert fragmentation.tolist() == result.fragmentation
    assert report.pages["leaked"] == 0


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_simulation_equals_plain_one_with_preemptions(preemption: Any) -> None:
    """D-leankv-68, D-leankv-69, D-leankv-70: four requests, of which the pool holds two or three."""
    trace = [serving.Arrival(0.0, 4 + 9 * n, 170) for n in range(4)]
    report = simulated(trace, 1100, preemption=preemption, seed=3)

    assert report.requests["preemptions"] > 0 and report.requests["finished"] == 4
    require_equal(report, expected(trace, 1100, preemption, 256, 3))


@settings(deadline=None, max_examples=6)
@given(
    lengths=st.lists(st.tuples(st.floats(0, 0.2), st.integers(1, 60), st.integers(1, 160)), min_size=1, max_size=5),
    pages=st.integers(400, 1500),
    preemption=st.sampled_from(["recompute", "swap"]),
    slots=st.integers(1, 3),
)
def test_any_trace_equals_plain_simulation(lengths: Any, pages: int, preemption: Any, slots: int) -> None:
    """D-leankv-70."""
    trace = sorted((serving.Arrival(*each) for each in lengths), key=lambda each: each.arrival)
    report = simulated(trace, pages, preemption=preemption, slots=slots)

    require_equal(report, expected(trace, pages, preemption, slots, 0))
    assert report.requests["finished"] + report.requests["aborted"] == len(trace)


def test_heads_of_one_precision_prune_their_share() -> None:
    """D-leankv-69: without a low precision no token is low, in heads that prune more or less than the mean."""
    trace = [serving.Arrival(0.0, 9, 300)]
    scheme, setting = "leankv-k8v4:window=8,num_pages=4000", serving.Setting(shape=SHAPE, pruned_share=0.3)
    report = serving.simulate(scheme, trace, setting)
    whole = serving.simulate(scheme, trace, serving.Setting(shape=SHAPE))

    assert report.pages["peak"]["low"] == report.pages["leaked"] == 0
    assert 0.69 < report.total["bytes"]["cache"] / whole.total["bytes"]["cache"] < 0.74


def test_without_preemption_nobody_yields() -> None:
    trace = [serving.Arrival(0.0, 4 + 9 * n, 170) for n in range(4)]
    report = simulated(trace, 1100, preemption="none")

    assert (report.requests["finished"], report.requests["preemptions"], report.requests["aborted"]) == (4, 0, 0)
    assert report.total["stalls"]["steps"] > 0


def test_requests_that_never_fit_are_rejected() -> None:
    trace = [serving.Arrival(0.0, 5000, 10), serving.Arrival(0.0, 10, 10)]
    report = simulated(trace, 1100)

    assert (report.requests["number"], report.requests["rejected"], report.requests["finished"]) == (2, 1, 1)
    assert simulated(trace, 1100, context=12).requests["rejected"] == 2


def test_lost_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the end of a request returns one page twice and another never."""
    finish = of_pages.Store.finish

    def lossy(self: of_pages.Store, names: Any) -> None:
        finish(self, names)
        manager: Any = self.manager
        last = (manager._ends[1] - 1) % manager.shape.pages
        manager._ring[last] = manager._ring[last - 1]

    monkeypatch.setattr(of_pages.Store, "finish", lossy)
    assert simulated([serving.Arrival(0.0, 40, 20)], 1100).pages["leaked"] == 2


def test_workers_divide_heads_and_weights() -> None:
    """[leankv §6.1]: the same requests; each worker moves about a quarter, and sends its sums to the others."""
    trace = [serving.Arrival(0.0, 100, 30), serving.Arrival(0.0, 60, 40)]
    one, four = (simulated(trace, 4000, workers=workers) for workers in (1, 4))

    assert one.total["tokens"] == four.total["tokens"] == 70
    assert four.total["bytes"]["weights"] * 4 == one.total["bytes"]["weights"]
    assert 0.25 < four.total["bytes"]["cache"] / one.total["bytes"]["cache"] < 0.3
    computed = 100 + 60 + 29 + 39  # each sums the outputs of attention and feed-forward, by a ring: 3/4 twice
    assert one.total["bytes"]["reduced"] == 0
    assert four.total["bytes"]["reduced"] == computed * 16 * 2 * 2048 * 2 * 2 * 3 // 4


def test_uncompressed_cache_has_blocks_of_all_heads() -> None:
    """16 tokens of 16 blocks, 8 KV heads, 64 features, keys and values of two bytes."""
    report = serving.simulate("fp16", [serving.Arrival(0.0, 33, 20)], serving.Setting(shape=SHAPE, memory_share=0.5))

    assert report.pages["bytes"] == 16 * 16 * 8 * 64 * 2 * 2
    assert report.pages["peak"] == {"all": 4, "high": 4, "low": 0}
    assert report.pages["number"] == (24_000_000_000 - report.setting["weight_bytes"]) // report.pages["bytes"]
    assert report.total["bytes"]["cache"] == 32768 * (33 + sum(range(34, 53)))


def test_weights_of_llama_2_7b() -> None:
    """6,738,415,616 parameters, less 65 norms of 4,096."""
    assert Rates(shapes.find("llama-2-7b"), GPU).weight_bytes == 2 * (6_738_415_616 - 65 * 4096)


def test_experts_are_read_if_a_token_uses_them() -> None:
    """Mixtral: two of eight experts of three matrices for a token; K and V have a quarter of the heads; fp16."""
    expert, attention, head = 3 * 4096 * 14336, 4096 * 4096 * 5 // 2 + 4096 * 8, 32000 * 4096
    rates = Rates(shapes.find("mixtral-8x7b"), GPU)
    for tokens, used in ((1, 2), (3, 6), (5, 8)):
        work = rates.work(tokens, 1, 0, 0)
        assert work.weights == 2 * (32 * (attention + used * expert) + head)
        assert work.linear == 2 * (32 * tokens * (attention + 2 * expert) + head)


def test_rates_are_those_of_the_page() -> None:
    """docs/serving.md lists memory, bandwidth, operations and link."""
    page = Path(__file__).parents[5].joinpath("docs/serving.md").read_text("utf-8")
    for name, gpu in GPUS.items():
        rates = f"{gpu.memory / 1e9:.0f} GB | {gpu.bandwidth / 1e9:,.0f} GB/s | {gpu.rate / 1e12:.0f} T/s"
        assert f"| `{name}` | {rates} | {gpu.link / 1e9:.0f} GB/s |" in page


def test_model_decides_significance() -> None:
    """The engine runs: tokens, pages and preemptions are its own."""
    trace = [serving.Arrival(0.0, 150, 30), serving.Arrival(0.0, 90, 30)]
    report = serving.simulate("leankv-k8v4:num_pages=20", trace, serving.Setting(model="tiny"))

    assert report.shape == "tiny"
    assert (report.total["tokens"], report.requests["finished"], report.pages["leaked"]) == (60, 2, 0)


def test_pages_of_model_go_to_host_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    save = Pool.save

    def noted(self: Pool, name: int) -> Image:
        image = save(self, name)
        saved.append(image.pages.nbytes)
        return image

    monkeypatch.setattr(Pool, "save", noted)
    trace = [serving.Arrival(0.0, 120, 30), serving.Arrival(0.0, 120, 30)]
    setting = serving.Setting(model="tiny", preemption="swap", context=200)
    report = serving.simulate("leankv-k8v4:num_pages=20", trace, setting)

    assert (report.total["tokens"], report.requests["finished"], report.setting["max_tokens"]) == (60, 2, 200)
    assert report.total["bytes"]["swapped"] == 2 * sum(saved) > 0


@pytest.mark.parametrize("model", ["tiny", "tiny-mixtral"])
def test_model_weights_are_all_counted(model: str) -> None:
    """In two bytes each, without norms; embedding and head are two matrices."""
    report = serving.simulate("leankv", [serving.Arrival(0.0, 5, 2)], serving.Setting(model=model))
    config = models.load(model).config
    matrices = {name: shape for name, shape in config.shapes.items() if len(shape) > 1} | {
        "head": (config.vocab, config.width)
    }

    assert report.setting["weight_bytes"] == 2 * sum(math.prod(shape) for shape in matrices.values())


def test_trace_in_another_order_is_rejected() -> None:
    with pytest.raises(Refused, match="in the order of arrival"):
        serving.simulate("fp16", [serving.Arrival(2.0, 5, 5), serving.Arrival(1.0, 5, 5)])


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "shape": ("fp16", {"shape": "llama-2-7"}, "unknown shape"),
    "encoder": ("fp16", {"shape": "bert-base"}, "shape must be a decoder"),
    "gpu": ("fp16", {"gpu": "l4"}, "unknown gpu"),
    "workers": ("fp16", {"workers": 3}, "workers must divide the 32 KV heads, got 3"),
    "memory": ("fp16", {"memory_share": 0.0}, "memory_share must be above 0"),
    "weights": ("fp16", {"shape": "llama-3-70b"}, "give more workers"),
    "share of fp16": ("fp16", {"high_share": 0.5}, "high_share of fp16 changes nothing"),
    "one precision": ("leankv-k8v4", {"quality": "lossless"}, "quality changes nothing with one precision"),
    "threshold": ("leankv:t_high=0.5", {}, "t_high changes nothing"),
    "shares": ("leankv", {"high_share": 0.9, "pruned_share": 0.2}, "at most 1 together"),
    "pruned of one precision": ("leankv-k8v4", {"pruned_share": 5.0}, "at most 1 together, got None and 5.0"),
    "quality": ("leankv", {"quality": "x"}, "quality must be one of"),
    "context": ("leankv", {"context": 0}, "context must be in"),
    "quality and share": ("leankv", {"high_share": 0.9, "quality": "lossless"}, "give --quality, or"),
    "no table": ("leankv", {"shape": "llama-7b"}, "unknown shape .llama-7b. of Table 1"),
    "size": ("leankv:high=K4V2,low=K4V1", {}, "Table 1 has 0.228"),
    "model and shape": ("leankv", {"model": "tiny", "shape": "llama-7b"}, "shape changes nothing where a model runs"),
    "slots": ("leankv", {"slots": 0}, "slots"),
    "preemption": ("leankv", {"preemption": "drop"}, "preemption"),
}


@pytest.mark.parametrize(("scheme", "setting", "message"), BAD.values(), ids=list(BAD))
def test_invalid_settings_are_rejected(scheme: str, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        serving.simulate(scheme, [serving.Arrival(0.0, 5, 5)], serving.Setting(**setting))


@pytest.mark.parametrize("model", [None, "tiny"])
def test_schemes_with_another_cache_are_rejected(model: str | None) -> None:
    with pytest.raises(RefusedType, match="one of LeanKV's"):
        serving.simulate("olive-4", [serving.Arrival(0.0, 5, 5)], serving.Setting(model=model))


def test_progress_counts_generated_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "STEPS", 1)
    seen = list[tuple[str, int, int]]()
    trace = serving.drawn(requests=3, rate=50.0, prompt=30, generate=12)
    report = serving.simulate(
        "leankv",
        trace,
        serving.Setting(shape="llama-3.2-1b", high_share=0.3),
        progress=lambda *now: seen.append(now),
    )

    assert {(what, total) for what, _, total in seen} == {("tokens", 36)}
    done = [each for _, each, _ in seen]
    assert done == sorted(done) and done[-1] == 36 and len(done) >= report.total["steps"]["generation"]
