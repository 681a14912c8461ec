"""Costs of models by their sizes on KLLM's chip: a block of LLaMA-7B restated by hand, and what options move."""

import dataclasses
import math
from functools import cache
from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models import machine
from refemu.models.machine import totals as totals_module
from refemu.models.machine.schedule import placed
from tests.oracles.kllm import system as oracle

pytestmark = pytest.mark.long

DECODE: dict[str, Any] = {"shape": "llama-7b", "scheme": "kllm-a4", "tokens": 2048, "phase": "decode"}


RUNS = [
    ("decode", 2048, 1),
    ("decode", 2048, 16),
    ("decode", 300, 40),
    ("decode", 16384, 1),
    ("decode", 16384, 16),
    ("prompt", 6, 1),
    ("prompt", 6, 16),
    ("prompt", 2048, 1),
    pytest.param("prompt", 2048, 16, marks=pytest.mark.slow),
    pytest.param("prompt", 16384, 1, marks=pytest.mark.slow),
]


@cache
def restated(phase: str = "decode", tokens: int = 2048, batch: int = 1) -> list[oracle.Operation]:
    """The oracle's block."""
    return oracle.block((oracle.decode if phase == "decode" else oracle.prompt)(tokens, batch))


@pytest.mark.parametrize(("phase", "tokens", "batch"), RUNS)
def test_block_of_llama_2_7b_equals_the_oracle(phase: Any, tokens: int, batch: int) -> None:
    """D-kllm-67, D-kllm-72, D-kllm-74: every operation and, in each overlap, the cycles of the block."""
    theirs = restated(phase, tokens, batch)
    for overlap in machine.OVERLAPS:
        options = "" if overlap == "operations" else f"overlap={overlap}"
        report = machine.of_shape("llama-2-7b", "kllm-a4", tokens, phase, batch, options)
        works = [work for work in report.sections[0].works if work.cycles is not None]
        assert [(each.name, each.cycles, each.busy, each.bytes, each.macs) for each in works] == [
            (each.name, each.alone, each.busy, oracle.moved(each), each.macs) for each in theirs
        ]
        lanes = [[each.fed for each in some if each.holds == ("lanes",)] for some in (works, theirs)]
        assert lanes[0] == lanes[1]
        assert max(each.end for each in report.lines[0]) == oracle.schedule(theirs, overlap)
        assert report.total is not None
        assert [report.total[name] for name in ("cycles", "bytes", "busy")] == totals(theirs, overlap, batch)


def totals(block: list[oracle.Operation], overlap: str, batch: int) -> list[Any]:
    """Cycles, bytes and busy cycles of 32 blocks and the head, whose lanes have 32 MACs: columns of up to 32 rows."""
    moved = [oracle.moved(each) for each in block]
    sums = {
        stream: 32 * sum(each.get(stream, 0) for each in moved) for stream in dict.fromkeys(n for m in moved for n in m)
    }
    busy = {
        name: 32 * sum(each.busy.get(name, 0) for each in block)
        for name in dict.fromkeys(n for e in block for n in e.busy)
    }
    parts = [min(32, batch - first) for first in range(0, batch, 32)]
    head = sum(-(-32000 // (16 * (32 // rows))) * 4096 for rows in parts)
    weights, outputs = len(parts) * 32000 * 4096 * 2, batch * 32000 * 2
    sums |= {"weights": sums["weights"] + weights, "outputs": sums.get("outputs", 0) + outputs}
    busy |= {"MACs": busy["MACs"] + head, "memory": math.ceil(sum(sums.values()) / oracle.PORT)}
    first = head + 1 if overlap != "none" else head + math.ceil((weights + outputs) / oracle.PORT)
    return [32 * oracle.schedule(block, overlap) + first, sums, busy]


def block(options: str = "") -> tuple[machine.CostReport, list[Any]]:
    """The report, and operations of a block that have cycles."""
    report = machine.of_shape(**DECODE, options=options)
    return report, [work for work in report.sections[0].works if work.cycles is not None]


def test_block_of_llama_7b_equals_the_oracle() -> None:
    """D-kllm-74: Name, edges alone and fed, busy cycles and bytes of all 51 operations."""
    _, works_ = block()

    ours = [(each.name, each.cycles, each.busy, each.bytes, each.macs) for each in works_]
    theirs = [(each.name, each.alone, each.busy, oracle.moved(each), each.macs) for each in restated()]
    assert ours == theirs
    assert [each.fed for each in works_ if each.holds == ("lanes",)] == [
        each.fed for each in restated() if each.holds == ("lanes",)
    ]


@pytest.mark.parametrize("overlap", machine.OVERLAPS)
def test_cycles_of_llama_7b_equal_the_oracle(overlap: str) -> None:
    """D-kllm-69."""
    report, _ = block("" if overlap == "operations" else f"overlap={overlap}")

    assert max(each.end for each in report.lines[0]) == oracle.schedule(restated(), overlap)


def test_llama_7b_total_adds_blocks_and_head() -> None:
    """D-kllm-73: The head by hand: 32,000 columns are 63 tiles of 512 MACs, an edge for each of 4,096 weights."""
    report, _ = block()
    total, blocks = report.total, restated()
    assert total is not None

    head = 63 * 4096
    assert total["cycles"] == 32 * oracle.schedule(blocks, "operations") + head + 1
    weights = 32 * sum(oracle.moved(each).get("weights", 0) for each in blocks) + 32000 * 4096 * 2
    assert total["bytes"]["weights"] == weights == 32 * 101187584 + 262144000
    assert total["busy"]["MACs"] == 32 * sum(each.busy.get("MACs", 0) for each in blocks) + head
    assert total["seconds"] == total["cycles"] / 500e6
    assert total["tokens_per_second"] == 1 / total["seconds"]
    lanes = 32 * sum(each.alone or 0 for each in blocks if each.holds == ("lanes",))
    norms = 32 * 2 * -(-(8 + 58) // 16)
    assert total["energy_pj"]["lanes"] == pytest.approx(5.73e12 / 500e6 * (lanes + norms + head), rel=1e-12)
    assert total["energy_pj"]["memory"] is None
    macs = 32 * sum(each.macs for each in blocks) + 32000 * 4096
    assert total["peak_share"] == macs / (8192 * total["cycles"])
    assert total["bound"] == "MACs"


def test_linear_layers_of_table_2_are_memory_bound() -> None:
    """[kllm Table II, §V-A]: in a decode step the port takes longer than counters, and longer than MACs."""
    for name in ("llama-7b", "llama-13b", "llama-30b", "llama-2-7b", "llama-2-13b", "llama-2-70b", "mistral-7b"):
        rows = machine.of_shape(name, "kllm-a4", 1, "decode").as_json()["layers"]
        (linear,) = (row for row in rows if row["layer"] == 0 and row["kind"] == "linear")
        assert linear["bound"] == "memory", name
        assert linear["count"] == machine.SHAPES[name].blocks


def test_untimed_work_is_null_not_zero() -> None:
    """D-kllm-75."""
    report = machine.of_shape(**DECODE).as_json()
    (row,) = (row for row in report["layers"] if row["kind"] == "activation")

    assert row["cycles"] is None and row["bound"] is None and row["seconds"] is None
    assert [entry["name"] for entry in report["not_on_the_machine"]] == ["rotate", "add", "activation", "scores"]


@pytest.mark.parametrize(
    ("options", "stream", "least"),
    [("order=rows", "weights", 3.9), ("order=rows,overlap=none", "weights", 3.9)],
)
def test_rows_in_the_slab_read_weights_once(options: str, stream: str, least: float) -> None:
    """D-kllm-67: a batch of four reads a fourth of the weights of four rows, one by one."""
    batch = {**DECODE, "batch": 4}
    stays, again = machine.of_shape(**batch).total, machine.of_shape(**batch, options=options).total

    assert stays is not None and again is not None
    assert again["bytes"][stream] == 4 * stays["bytes"][stream] > least * stays["bytes"][stream]
    assert stays["busy"]["memory"] < again["busy"]["memory"]


def test_heads_take_lanes_of_their_own() -> None:
    """D-kllm-68: the context of four heads fills 16 lanes; alone, a head takes as long."""
    lanes, alone = (block(options)[1] for options in ("", "heads=sequence"))
    names = [[work.name for work in works if work.name.startswith("context.")] for works in (lanes, alone)]

    assert names == [[f"context.{head}" for head in range(0, 32, 4)], [f"context.{head}" for head in range(32)]]
    four, one = (next(work for work in works if work.name == "context.0") for works in (lanes, alone))
    assert four.cycles == one.cycles and four.bits["values"] == 4 * one.bits["values"]
    assert four.macs == 4 * one.macs


def test_norm_runs_during_the_product() -> None:
    """D-kllm-71: it starts with q, or before it: 8 edges of counting, 16 + 42 MACs."""
    for options, start in (("", 0), ("norm=before", 66)):
        report, _ = block(options)
        norm, q = (next(each for each in report.lines[0] if each.work.name == name) for name in ("norm.attn_in", "q"))
        assert norm.cycles == 8 + 16 + 42
        assert q.start - norm.start == start


@pytest.mark.parametrize("phase", ["prompt", "decode"])
def test_statistics_of_a_batch_precede_its_outputs(phase: machine.Phase) -> None:
    """D-kllm-71: before the product, or until its last edge; they begin after the first clustered token."""
    for options, early in (("norm=before", False), ("macs=512", True)):
        report = machine.of_shape("gpt2-xl", "kllm-a4", 40 if phase == "prompt" else 99, phase, 5, options=options)
        at = {each.work.name: each for each in report.lines[0]}
        for tensor, layers in (("attn_in", "qkv"), ("ffn_in", ("up",))):
            norm, index = at[f"norm.{tensor}"], at[f"index.{tensor}"]
            assert norm.start == index.start + -(-(1600 - 16) // 16)
            assert norm.end >= index.end
            assert all(at[name].start < norm.end for name in layers[:1]) is early
            assert all((norm.end <= at[name].end) if early else (norm.end <= at[name].start) for name in layers)


@pytest.mark.parametrize("scheme", ["kllm-a4:norm=fp16", "kllm-a4:preset=exact", "kllm-a4:gamma=activations"])
def test_schemes_without_units_have_no_cost(scheme: str) -> None:
    with pytest.raises(Refused, match="KLLM's chip has only the paper's datapath"):
        machine.of_shape(**DECODE | {"scheme": scheme})


def test_static_thresholds_are_not_on_the_machine() -> None:
    """D-kllm-30: no search, and a reason for every activation, as the machine gives them."""
    shape = machine.of_shape("llama-7b", "kllm-a4:thresholds=static", 16)
    model = machine.cost("tiny", "kllm-a4:thresholds=static", 3)
    ported = machine.run("tiny", "kllm-a4:thresholds=static", 0, 3)

    assert not any("search" in each.work.busy and each.work.busy["search"] for each in shape.lines[0])
    names = [[entry.name for entry in report.not_on_the_machine] for report in (shape, model, ported)]
    assert names[0] == names[1] == [name.removeprefix("blk.0.") for name in names[2]]
    assert "down_in.outliers" in names[0]


def test_large_batches_move_activations() -> None:
    """D-kllm-72: the Act Index Buffer holds 16 tokens of 4,096 values, the Out Buffer as many outputs."""
    reports = [machine.of_shape(**DECODE | {"batch": batch}) for batch in (16, 17)]
    fits, spills = (next(work for work in report.sections[0].works if work.name == "q") for report in reports)

    assert {"activations", "outputs"}.isdisjoint(fits.bits)
    assert spills.bits["activations"] == 17 * (4096 * 5 + 42 * 16)
    assert spills.bits["outputs"] == 17 * 4096 * 16


def test_batch_beyond_the_buffers_is_rejected_on_request() -> None:
    """D-kllm-72: gate has 11,008 outputs, of which the Out Buffer holds 5 tokens."""
    machine.of_shape(**DECODE | {"batch": 5}, options="beyond=refuse")
    with pytest.raises(Refused, match="the buffers hold 5 tokens of a product of 4,096 values with 11,008 outputs"):
        machine.of_shape(**DECODE | {"batch": 6}, options="beyond=refuse")


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("lanes=8", "cycles"),
        ("macs=64", "cycles"),
        ("counters=16", "busy"),
        ("tree=1024", "busy"),
        ("channels=12", "busy"),
        ("channel_gb=128", "busy"),
        ("clock=1000", "seconds"),
        ("overlap=tiles", "cycles"),
        ("overlap=none", "cycles"),
        ("fill=slab", "cycles"),
        ("heads=sequence", "cycles"),
        ("search=unit", "busy"),
        ("norm=before", "cycles"),
        ("merge=serial", "cycles"),
        ("carry=sums", "busy"),
        ("concat=2048", "cycles"),
    ],
)
def test_every_option_moves_a_number(option: str, field: str) -> None:
    """Options that the paper leaves open, and sizes of Table I."""
    before, after = machine.of_shape(**DECODE).total, machine.of_shape(**DECODE, options=option).total

    assert before is not None and after is not None
    assert before[field] != after[field]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("order=rows", "option order changes no number here, got rows; leave it out"),
        ("lanes=0", "lanes must be"),
        ("lane=8", "did you mean 'lanes'"),
        ("overlap=all", "overlap must be"),
        ("weight_kb=1", "weight_kb must be at least 2 for a row of 4096 values and 4096 outputs, got 1"),
        ("out_kb=22", "out_kb must be at least 23 for a row of 4096 values and 11008 outputs, got 22"),
        ("index_kb=5", "index_kb must be at least 6 for a row of 11008 values and 4096 outputs, got 5"),
    ],
)
def test_invalid_and_idle_options_are_rejected(options: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.of_shape(**DECODE, options=options)


FAULTS = {
    "a stream left out": lambda work: dataclasses.replace(
        work, bits={name: bits for name, bits in work.bits.items() if name != "metadata"}
    ),
    "weights read once for all parts of a batch": lambda work: dataclasses.replace(
        work, bits={name: bits // 3 if name == "weights" else bits for name, bits in work.bits.items()}
    ),
    "keys at the wrong width": lambda work: dataclasses.replace(
        work, bits={name: bits * (2 if name == "keys" else 1) for name, bits in work.bits.items()}
    ),
    "a cycle more": lambda work: dataclasses.replace(work, cycles=work.cycles + 1) if work.name == "q" else work,
    "a stall less": lambda work: dataclasses.replace(work, fed=work.fed - 1) if work.name == "down" else work,
    "an operation twice as busy": lambda work: dataclasses.replace(
        work, busy={name: cycles * (2 if name == "search" else 1) for name, cycles in work.busy.items()}
    ),
    "an operation left out": lambda work: dataclasses.replace(work, name="") if work.name == "norm.ffn_in" else work,
    "half the products": lambda work: dataclasses.replace(work, macs=work.macs // 2),
}


def rows(works: Any) -> list[Any]:
    """What is compared of every operation with cycles; edges fed of those on the lanes."""
    return [
        (each.name, each.cycles, each.fed if each.holds == ("lanes",) else None, each.busy, each.bytes, each.macs)
        for each in works
        if each.name
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_records_differ_from_the_oracle(fault: str) -> None:
    """A prompt of 40 tokens is three parts of a batch."""
    report = machine.of_shape("llama-2-7b", "kllm-a4", 40)
    works = [work for work in report.sections[0].works if work.cycles is not None]
    theirs = [
        (
            each.name,
            each.alone,
            each.fed if each.holds == ("lanes",) else None,
            each.busy,
            oracle.moved(each),
            each.macs,
        )
        for each in restated("prompt", 40)
    ]

    assert rows(works) == theirs
    assert rows([FAULTS[fault](work) for work in works]) != theirs


@pytest.mark.parametrize("fault", ["port twice as fast", "nothing overlaps"])
def test_planted_faults_in_totals_differ_from_the_oracle(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are right; what the total adds up is not."""
    due = totals(restated("prompt", 40), "operations", 1)
    find = totals_module.total

    def wrong(sections: Any, lines: Any, system: Any, tokens: int) -> Any:
        if fault == "port twice as fast":
            return find(sections, lines, dataclasses.replace(system, rate=2 * system.rate), tokens)
        return find(
            sections,
            [placed(each.works, dataclasses.replace(system, overlap="none")) for each in sections],
            system,
            tokens,
        )

    def found() -> list[Any]:
        total = machine.of_shape("llama-2-7b", "kllm-a4", 40).total
        return [total[name] for name in ("cycles", "bytes", "busy")]

    assert found() == due
    monkeypatch.setattr(totals_module, "total", wrong)
    assert found() != due


def test_shapes_take_the_papers_score_product() -> None:
    """16,384 x 16,384 logits of LLaMA-2-70B: of each KV head 8 x 16,384 rows, four at once in the Out Buffer."""
    report = machine.of_shape("llama-2-70b", "kllm-a4", 16384)
    logits = [work for work in report.sections[0].works if work.name.startswith("logits.")]

    assert len(logits) == 8
    rows = [min(16384, 1 + row // 8) for row in range(8 * 16384)]
    read = sum(max(rows[first : first + 4]) for first in range(0, len(rows), 4))
    assert logits[0].bits["keys"] == read * 128 * 4


def test_experts_share_the_tokens_of_a_batch() -> None:
    """Mixtral-8x7B: one token uses two experts of eight, a batch of eight all of them."""
    one, eight = (machine.of_shape("mixtral-8x7b", "kllm-a4", 16, "decode", batch) for batch in (1, 8))
    names = [[work.name for work in report.sections[0].works] for report in (one, eight)]

    assert [name for name in names[0] if name.startswith("gate.") and "function" not in name] == ["gate.0", "gate.1"]
    assert sum(name.startswith("up.") for name in names[1]) == 8


def test_encoders_have_no_decode_step() -> None:
    with pytest.raises(Refused, match="phase must be prompt for the encoder bert-base, got decode"):
        machine.of_shape("bert-base", "kllm-a4", 16, "decode")
    assert [row.layer for row in machine.of_shape("bert-base", "kllm-a4", 16).layers] == [0] * 5
