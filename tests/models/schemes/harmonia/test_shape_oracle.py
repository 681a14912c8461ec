"""A block of Llama-3.2-3B, prompt and decode, batch 1 and 16, equal to an oracle; faults of costs are detected."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from refemu.models import machine
from refemu.models.machine.work import Work
from refemu.models.schemes.harmonia.machine import products, work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from tests.oracles.harmonia import prompt as oracle

BLOCKS = 28


def report(requests: int, tokens: int, decode: bool) -> machine.CostReport:
    """Cost of the model under harmonia-kv4."""
    return machine.of_shape("llama-3.2-3b", "harmonia-kv4", tokens, "decode" if decode else "prompt", batch=requests)


def rows(works: Any) -> list[tuple[Any, ...]]:
    """What is compared of every operation with clocks."""
    timed = [each for each in works if each.cycles is not None]
    bits = [{name: count for name, count in each.bits.items() if count} for each in timed]
    return [(w.name, w.cycles, w.fed, dict(w.busy), b, w.macs) for w, b in zip(timed, bits, strict=True)]


@pytest.mark.parametrize(
    ("requests", "tokens", "decode"),
    [
        *[(1, 128, False), (16, 40, False), (1, 300, True), (16, 300, True), (16, 31, True)],
        *[(1, 2048, False), (1, 16384, True), (16, 16384, True)],
        pytest.param(16, 2048, False, marks=pytest.mark.slow),
        pytest.param(1, 16384, False, marks=pytest.mark.slow),  # whose values need smaller tiles (D-harmonia-61)
    ],
)
def test_block_and_total_equal_the_oracle(requests: int, tokens: int, decode: bool) -> None:
    """Clocks with operands at hand and with the memory, busy clocks, bits by stream, MACs; then totals of 28 blocks."""
    ours, due = report(requests, tokens, decode), oracle.block(requests, tokens, decode)
    assert rows(ours.sections[0].works) == rows(due)

    total = ours.total
    assert total is not None
    sizes = [{name: -(-count // 8) for name, count in each.bits.items() if count} for each in due]
    moved = {name: BLOCKS * sum([each.get(name, 0) for each in sizes]) for name in {n for each in sizes for n in each}}
    assert total["bytes"] == moved
    ports = [-(-sum(each.values()) * 300 // 256_000) for each in sizes]
    alone = [(each.cycles if each.fed is None else each.fed) for each in due]
    cycles = BLOCKS * sum([max(one, port) for one, port in zip(alone, ports, strict=True)])
    assert total["cycles"] == cycles
    assert total["seconds"] == pytest.approx(cycles / 300e6, rel=1e-12)
    busy = {
        name: BLOCKS * sum([each.busy.get(name, 0) for each in due]) for name in {n for each in due for n in each.busy}
    }
    assert total["busy"] == busy | {"memory": -(-sum(moved.values()) * 300 // 256_000)}
    assert total["energy_pj"]["memory"] == pytest.approx(3.9 * BLOCKS * sum([sum(each.bits.values()) for each in due]))


def no_metadata(patch: pytest.MonkeyPatch) -> None:
    record = work.record

    def without(*arguments: Any) -> Work:
        done = record(*arguments)
        return dataclasses.replace(done, bits={name: bits for name, bits in done.bits.items() if name != "metadata"})

    patch.setattr(work, "record", without)


def weights_read_twice(patch: pytest.MonkeyPatch) -> None:
    record = work.record

    def again(*arguments: Any) -> Work:
        done = record(*arguments)
        return dataclasses.replace(done, bits={name: (1 + (name == "weights")) * n for name, n in done.bits.items()})

    patch.setattr(work, "record", again)


def a_clock_more_with_memory(patch: pytest.MonkeyPatch) -> None:
    timed = work.timed

    def later(product: Any, port: Any, times: int = 1) -> Any:
        done = timed(product, port, times)
        return dataclasses.replace(done, clock=done.clock + 1) if port.per_clock is not None else done

    patch.setattr(work, "timed", later)


def one_product_less(patch: pytest.MonkeyPatch) -> None:
    attention = products.attention

    def fewer(*arguments: Any) -> Any:
        product, times = attention(*arguments)
        return product, times - 1

    patch.setattr(products, "attention", fewer)


def keys_in_eight_bits(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(products.STORED, 4, products.STORED[8])


def future_computed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(work, "visible", lambda product, keys, options: product)


def passes_that_drain(patch: pytest.MonkeyPatch) -> None:
    port = HarmoniaMachine.port
    patch.setattr(HarmoniaMachine, "port", lambda self, fed: dataclasses.replace(port(self, fed), passes="drain"))


BOTH = [no_metadata, weights_read_twice, a_clock_more_with_memory, one_product_less, passes_that_drain]
FAULTS = [
    *[(fault, decode) for fault in BOTH for decode in (False, True)],
    (keys_in_eight_bits, True),  # a prompt reads each key once, in 8 bits
    (future_computed, False),  # a step sees all keys
]


@pytest.mark.parametrize(("fault", "decode"), FAULTS)
def test_planted_fault_is_detected(
    fault: Callable[[pytest.MonkeyPatch], None], decode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = 300 if decode else 104
    due = rows(oracle.block(1, tokens, decode))
    assert rows(report(1, tokens, decode).sections[0].works) == due
    fault(monkeypatch)
    work._flow.cache_clear()
    detected = rows(report(1, tokens, decode).sections[0].works) != due
    work._flow.cache_clear()
    assert detected
