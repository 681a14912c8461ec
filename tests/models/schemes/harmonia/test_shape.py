"""Costs of models by their sizes on Harmonia's accelerator: a block of Llama-3.2-3B restated by hand, and options."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import machine
from refemu.models.schemes.harmonia.machine import products, work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.products import Heads
from refemu.models.schemes.harmonia.machine.sizes import Format, Product, moved
from tests.oracles.harmonia import system as oracle

SHAPE = "llama-3.2-3b"


def decode(low: int = 4, options: str = "", tokens: int = 4096, **more: Any) -> tuple[machine.CostReport, list[Any]]:
    """The report of a step, and operations of a block that have cycles."""
    report = machine.of_shape(SHAPE, f"harmonia-kv{low}", tokens, "decode", options=options, **more)
    return report, [each for each in report.sections[0].works if each.cycles is not None]


def total(options: str = "", tokens: int = 200, phase: Any = "prompt", **more: Any) -> dict[str, Any]:
    """The total of a run."""
    found = machine.of_shape(SHAPE, "harmonia-kv4", tokens, phase, options=options, **more).total
    assert found is not None
    return found


def equal(low: int) -> bool:
    """Whether name, cycles, busy cycles, bytes and MACs of every operation are those of the oracle."""
    _, works = decode(low)
    ours = [(each.name, each.cycles, dict(each.busy), each.bytes, each.macs) for each in works]
    return ours == [(each.name, each.cycles, each.busy, oracle.moved(each), each.macs) for each in oracle.block(low)]


@pytest.mark.parametrize("low", [8, 4])
def test_block_of_llama_3b_equals_the_oracle(low: int) -> None:
    """D-harmonia-58, D-harmonia-60."""
    assert equal(low)


def test_total_adds_28_blocks() -> None:
    report, works = decode()
    found, blocks = report.total, oracle.block(4)
    assert found is not None

    bits = oracle.BLOCKS * sum(sum(each.bits.values()) for each in blocks)
    assert found["energy_pj"]["memory"] == pytest.approx(oracle.PJ * bits, rel=1e-12)
    weights = sum(oracle.moved(each).get("weights", 0) for each in blocks)
    assert found["bytes"]["weights"] == oracle.BLOCKS * weights == 28 * 50331648
    assert found["bytes"]["keys"] == 28 * 128 * ((4097 - 96) * 5 + 96 * 9)
    assert found["busy"]["array"] == oracle.BLOCKS * sum(each.busy.get("array", 0) for each in blocks)
    fed = sum(max(each.fed or each.cycles, each.transfer(report.system)) for each in works)
    assert found["cycles"] == oracle.BLOCKS * fed and found["seconds"] == found["cycles"] / 300e6
    assert found["bound"] == "array"
    assert found["peak_share"] == oracle.BLOCKS * sum(each.macs for each in blocks) / (4096 * found["cycles"])


def test_column_kv_differs_between_widths() -> None:
    """Words of 16 bits: 9 or 5 bits of a code, and an exponent of 5 bits for 32."""
    words = {}
    for low in (8, 4):
        (row,) = (row for row in decode(low)[0].layers if row.kind == "attention")
        words[low] = row.cost.words["kv"]

    assert words[8] > 1.5 * words[4]
    tokens, eight = 4097, 96
    exponents = 5 * 1024 * (tokens // 32 + 1) + 5 * tokens * 32
    keys = 1024 * (9 * eight + 5 * (tokens - eight))
    values = 1024 * (9 * (32 + 65) + 5 * (tokens - 97))
    assert abs(words[4] - (keys + values + exponents) / 16) <= 2


def dropped_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    record = work.record

    def without(*arguments: Any) -> Any:
        done = record(*arguments)
        return dataclasses.replace(done, bits={name: bits for name, bits in done.bits.items() if name != "keys"})

    monkeypatch.setattr(work, "record", without)


def dropped_rereads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "shared", lambda heads, kv_heads, _: heads // kv_heads * 2)


def one_cycle_more(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = work.timed
    work._flow.cache_clear()
    monkeypatch.setattr(work, "timed", lambda *each: dataclasses.replace(done := timed(*each), clock=done.clock + 1))


def keys_in_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(products.STORED, 4, products.STORED[8])


@pytest.mark.parametrize("fault", [dropped_stream, dropped_rereads, one_cycle_more, keys_in_eight_bits])
def test_planted_faults_of_costs_are_detected(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    detected = not equal(4)
    work._flow.cache_clear()
    assert detected


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("tile_m=32", "bytes"),
        ("tile_k=32", "bytes"),
        ("sram_kb=1024", "bytes"),
        ("dataflow=row", "bytes"),
        ("dataflow=bits", "bytes"),
        ("lanes=1", "cycles"),
        ("clock=600", "seconds"),
        ("memory_gb=32", "busy"),
        ("overlap=none", "cycles"),
        ("array=drain", "cycles"),
        ("future=compute", "cycles"),
        ("heads=separate", "cycles"),
        ("codes=rows", "cycles"),
        ("design=fp16", "cycles"),
        ("design=fp-int", "cycles"),
        ("design=anda", "bytes"),
    ],
)
def test_every_option_moves_what_it_should(option: str, field: str) -> None:
    assert total(option)[field] != total()[field]


def test_tiles_that_no_query_sees_are_skipped() -> None:
    """D-harmonia-59: 192 tokens, a query head: of 24 bands of 8 rows band b sees 8 b + 8 keys, tiles of 16."""
    seen = 1 + np.arange(192)
    heads = Heads(1, 1, 64, 192, seen, seen, (np.zeros(192, np.int64), np.zeros(6, np.int64)), (8, 8))
    skip, compute = (
        work.cost(
            "", "", *products.attention(heads, True, HarmoniaMachine(future=future))[:1], "keys", HarmoniaMachine()
        )
        for future in ("skip", "compute")
    )

    tiles = sum(-(-8 * (band + 1) // 16) for band in range(24))
    assert (skip.works[0].busy["array"], compute.works[0].busy["array"]) == (16 * tiles, 16 * 24 * 12)
    assert skip.macs["M8M8"] == 8 * 16 * 64 * tiles
    assert skip.conversions == sum(8 * 32 * -(-8 * (band + 1) // 32) for band in range(24))


def test_context_skips_groups_of_future_tokens() -> None:
    """D-harmonia-59: 64 tokens are two groups; the first 32 rows multiply one of them."""
    seen = 1 + np.arange(64)
    heads = Heads(1, 1, 32, 64, seen, seen, (np.zeros(64, np.int64), np.zeros(2, np.int64)), (8, 8))
    product, _ = products.attention(heads, False, HarmoniaMachine())

    cost = work.cost("", "", product, "values", HarmoniaMachine())
    assert cost.macs["M8M8"] == 32 * 32 * (32 * 1 + 32 * 2)
    assert work.cost("", "", product, "values", HarmoniaMachine()).works[0].busy["array"] == 4 * 2 * (16 + 16)


def test_buffers_bound_the_tiles() -> None:
    """D-harmonia-61: two tiles of both operands with their exponents and factors."""
    paper = HarmoniaMachine()
    a, b = products.BFP8, products.INT4
    half = Format(16, 0, 32)

    assert paper.tiles(4096, 4096, 4096, a, b) == (64, 64)
    assert paper.tiles(49152, 16384, 128, half, half) == (32, 32)
    small = HarmoniaMachine(sram_kb=1024)
    rows, columns = small.tiles(4096, 8192, 4096, a, b)
    assert (
        rows * columns < 64 * 64 and 2 * (rows * (9 * 8192 + 5 * 256) + columns * (4 * 8192 + 16 * 64)) <= 1024 * 8192
    )
    with pytest.raises(Refused, match=r"sram_kb must be at least .* for tiles of 32 with a reduction of 16384, got 64"):
        HarmoniaMachine(sram_kb=64).tiles(64, 16384, 64, a, b)


def test_fewer_bits_choose_another_dataflow() -> None:
    """D-harmonia-31: K of 200 tokens, A is 9.16 bits and B 4.125: fewer elements column-major, fewer bits row-major."""
    moved: dict[str, Any] = {}
    for dataflow in ("fewer", "bits", "column", "row"):
        report = machine.of_shape(
            SHAPE, "harmonia-kv4", 200, options="" if dataflow == "fewer" else f"dataflow={dataflow}"
        )
        moved[dataflow] = {each.name: each.bits for each in report.sections[0].works}["k"]
    column, row = (16 * 200 * 3072, 1024 * 3072), (200 * 3072, 4 * 1024 * 3072)

    for dataflow, (a, b) in {"fewer": column, "column": column, "bits": row, "row": row}.items():
        assert (moved[dataflow]["activations"], moved[dataflow]["weights"]) == (9 * a, 4 * b)
    assert sum(column) < sum(row) and sum(moved["fewer"].values()) > 1.5 * sum(moved["bits"].values())


def test_batch_reads_weights_once() -> None:
    """Eight requests are eight rows of a tile."""
    one, eight = (total(tokens=64, phase="decode", batch=batch) for batch in (1, 8))

    assert one["bytes"]["weights"] == eight["bytes"]["weights"]
    assert eight["bytes"]["keys"] == 8 * one["bytes"]["keys"]


def test_decoding_one_request_is_bound_by_array() -> None:
    """[harmonia §I] calls it memory-bound; a row of INT4 weights uses 79 of 256 GB/s at most."""
    for tokens in (1024, 8192):
        found = total(tokens=tokens, phase="decode")
        assert found["bound"] == "array"
        assert found["busy"]["memory"] < found["busy"]["array"] / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("tile_m=40", "accelerator: tile_m must be a multiple of 32, got 40"),
        ("sram_kb=0", "accelerator: sram_kb must be"),
        ("dataflow=bits,design=anda", "accelerator: dataflow=bits counts bits of design=harmonia, got anda"),
        ("clok=3", "unknown option 'clok' of the accelerator of harmonia"),
    ],
)
def test_invalid_options_are_rejected(options: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.of_shape(SHAPE, "harmonia-kv4", 16, options=options)


@pytest.mark.parametrize("name", ["opt-6.7b", "mixtral-8x7b", "gpt2-xl", "llama-3-8b"])
def test_every_family_has_costs(name: str) -> None:
    found = machine.of_shape(name, "harmonia-kv4", 40, "decode").total

    assert found is not None and found["cycles"] > 0 and found["bound"] == "array"


@pytest.mark.parametrize(
    ("design", "linear", "attention"), [("fp16", 6, 6), ("fp-int", 2, 6), ("figna", 2, 6), ("anda", 1, 6)]
)
def test_baselines_take_clocks_of_their_multipliers(design: str, linear: int, attention: int) -> None:
    """D-harmonia-62: a step; scores have 4 groups, 24 or 16 clocks a tile; FP16 keys have 16 bits."""
    report = machine.of_shape(SHAPE, "harmonia-kv4", 1023, "decode", options=f"design={design}")
    works = {each.name: each for each in report.sections[0].works}

    assert works["q"].busy["array"] == 192 * 96 * linear
    assert works["scores"].busy["array"] == 8 * 64 * 4 * attention
    assert works["scores"].bits["keys"] == 1024 * 1024 * 16
    assert works["q"].bits["activations"] == 3072 * (9 if design == "anda" else 16)
    assert ("attn_in.input" in works) == (design == "anda")


@pytest.mark.long
def test_speed_over_baselines_is_that_of_the_page() -> None:
    """docs/headlines.md: prompts of 2,048 tokens, cycles and energy of the memory of each design over Harmonia's."""
    found = {}
    for design in ("harmonia", "fp16", "fp-int", "anda"):
        options = "" if design == "harmonia" else f"design={design}"
        one = total(options, tokens=2048)
        found[design] = one["cycles"], one["energy_pj"]["memory"]
    cycles, energy = zip(*(found[name] for name in ("harmonia", "fp16", "fp-int", "anda")), strict=True)

    assert [round(each / cycles[0], 2) for each in cycles[1:]] == [5.09, 1.9, 1.18]
    assert [round(each / energy[0], 2) for each in energy[1:]] == [1.2, 1.2, 1.11]


@pytest.mark.long
def test_attention_grows_with_the_prompt() -> None:
    """[harmonia Fig. 19] Cycles of the attention among those of linear layers and attention of a block."""
    shares = []
    for tokens in (2048, 8192):
        report = machine.of_shape(SHAPE, "harmonia-kv4", tokens)
        cycles = {row.kind: report.measured(row).get("cycles") for row in report.layers if row.layer == 0}
        shares.append(round(100 * cycles["attention"] / (cycles["attention"] + cycles["linear"])))

    assert shares == [15, 40]


@pytest.mark.parametrize(
    ("tokens", "operations", "sizes", "shares"),
    [
        (2048, 11, (1.46, 0.24, 0.08), (14, 5)),
        (4096, 20, (1.46, 0.48, 0.16), (25, 10)),
        (8192, 33, (1.46, 0.96, 0.32), (40, 18)),
        (16384, 50, (1.46, 1.92, 0.63), (57, 30)),
    ],
)
def test_breakdown_by_length_is_that_of_the_page(tokens: int, operations: int, sizes: Any, shares: Any) -> None:
    """[harmonia Fig. 1] docs/headlines.md; operations of a block by hand: 100.7 M in linear layers, 2 d for a key."""
    linear = 3072 * (2 * 3072 + 2 * 1024 + 3 * 8192)
    attention = 2 * 3072 * tokens
    assert round(100 * attention / (linear + attention)) == operations

    found: list[float] = []
    for options in ("design=fp16", ""):
        works = decode(4, options, tokens - 1)[1]
        bits = {kind: sum([sum(w.bits.values()) for w in works if w.kind == kind]) for kind in ("linear", "attention")}
        assert sum([w.macs for w in works if w.kind == "attention"]) == attention
        assert sum([w.macs for w in works if w.kind == "linear"]) == linear
        found += [28 * bits["attention"] / 8e9, 100 * bits["attention"] / sum(bits.values())]
    weights = 28 * linear * (4 + 16 / 128) / 8e9
    assert weights == pytest.approx(28 * bits["linear"] / 8e9, rel=0.01)
    assert (round(28 * bits["linear"] / 8e9, 2), round(found[0], 2), round(found[2], 2)) == sizes
    assert (round(found[1]), round(found[3])) == shares


def test_encoders_are_rejected() -> None:
    with pytest.raises(Refused, match="a cache of keys and values, got the encoder bert-base"):
        machine.of_shape("bert-base", "harmonia-kv4", 16)


def test_equal_products_compare_equal() -> None:
    one, two = Product("linear", 8, 64, 64), Product("linear", 8, 64, 64)

    assert one == two and hash(one) == hash(two) and one != dataclasses.replace(two, rows=9)
    assert moved(one).elements == (512, 4096)
