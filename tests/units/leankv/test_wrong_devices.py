"""Devices that earlier sets let pass, each seen wrong by rows of kinds that are committed. [leankv §6.2]"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.golden.faults import use
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.units import variant as other
from refemu.units.unit import Config
from refemu.units.variant import Device, right
from tests.golden import committed as sets

pytestmark = pytest.mark.committed

#: other answers that change an order of a sum: the wrong kernels of the table below, and more
ORDERS = (
    *(f"sum_threads is {count}" for count in (32, 64, 128)),
    *(f"key_threads is {count}" for count in (1, 2, 8)),
    *(f"warps is {count}" for count in (1, 2, 4)),
    "exponentials are summed token by token",
    "threads take the features of a key in turn",
    "a warp takes two neighbouring pages",
    "value_slots is 1",
    "value_rows is 1",
    "join is 'sequential'",
    "neighbouring accumulators are added first",
    "features are added from the last to the first",
    "slots of a page are added from the last to the first",
)
#: wrong kernels that a set of small pages once let pass, and the ports of which one at least must show each
WRONG_KERNELS = {
    "128 threads for the sum of exponentials": ("sum_threads is 128", {"p", "totals"}),
    "32 threads for the sum of exponentials": ("sum_threads is 32", {"p", "totals"}),
    "4 warps instead of 8": ("warps is 4", {"out", "acc", "sums"}),
    "Vvec ignored in the accumulator number": ("value_slots is 1", {"out", "acc", "sums"}),
    "all slots of a page in one accumulator": ("value_rows is 1", {"out", "acc", "sums"}),
    "sequential sum of accumulators instead of a tree": ("join is 'sequential'", {"out", "sums"}),
    "unfused": ("fma is False", {"p", "out", "logits", "acc"}),
    "reciprocal softmax": ("softmax_div is 'recip_mul'", {"p", "out", "acc"}),
    "Kgroup 1": ("key_threads is 1", {"p", "out", "logits"}),
    "Kgroup 2": ("key_threads is 2", {"p", "out", "logits"}),
    "512 threads for the sum of exponentials": ("sum_threads is 512", {"p", "totals"}),
    "lanes of the maximum": ("lane_max is True", {"p", "tops", "totals"}),
}


@lru_cache
def committed(name: str, config: str) -> Answers:
    """Rows of the kinds that a set is made of."""
    unit = units.find(name)
    chosen = unit.configs[config]
    return answers_of.of_cases(
        unit, chosen, [block for kind in ("paper", "edge", "random") for block in unit.cases(chosen, kind, 0)]
    )


@pytest.mark.long
@pytest.mark.parametrize("says", ORDERS)
def test_faulty_attention_orders_are_detected_with_many_tokens(says: str) -> None:
    unit = units.find("paged_attention")
    (variant,) = (each for each in unit.variants if each.says == says)
    wrong = other.device(unit, unit.configs["long"], [variant])
    assert wrong is not None and device.wrong(committed("paged_attention", "long"), wrong).sum() >= 3


def attention(says: str, config: str) -> Device:
    unit = units.find("paged_attention")
    (variant,) = (each for each in unit.variants if each.says == says)
    wrong = other.device(unit, unit.configs[config], [variant])
    assert wrong is not None
    return wrong


def told(config: str, kernel: Device) -> np.ndarray:
    """Rows of the committed set in which `out` or `p` of a kernel is another: bool (rows,)."""
    golden = sets.read(f"paged_attention-{config}")
    answers, rows = answers_of.of_set(golden), []
    for block in answers.blocks:
        result = kernel.evaluate(answers_of.values(answers.unit, answers.config, block))
        wrong = np.zeros(block.shape[0], np.bool_)
        for name in ("out", "p"):
            wrong |= (getattr(result, name) != block.arrays[f"out.{name}"][:, 0]).any(axis=1)
        rows.append(wrong)
    return np.concatenate(rows)


@pytest.mark.parametrize("config", ["f128", "f64"])
@pytest.mark.parametrize(("says", "shown"), WRONG_KERNELS.values(), ids=list(WRONG_KERNELS))
def test_faulty_kernels_are_detected_at_paper_geometry(says: str, shown: set[str], config: str) -> None:
    """D-leankv-56: in `out` or `p` of the committed row of full pages, and in the register of the wrong stage."""
    unit = units.find("paged_attention")
    (block,) = unit.cases(unit.configs[config], "random", 0)
    right_, wrong = (
        each.evaluate(block.inputs) for each in (right(unit, unit.configs[config]), attention(says, config))
    )
    differ = {name for name in ("out", "p") if not np.array_equal(getattr(right_, name), getattr(wrong, name))}
    registers = {
        port.name
        for port in unit.ports(unit.configs[config]).state
        if not np.array_equal(getattr(right_, port.name), getattr(wrong, port.name))
    }

    assert differ & shown
    assert (registers & shown) or differ & shown == {"p"}
    assert told(config, attention(says, config))[-1]


@pytest.mark.parametrize("config", ["f128", "f64"])
def test_correct_kernel_passes_every_row(config: str) -> None:
    unit = units.find("paged_attention")
    assert not told(config, right(unit, unit.configs[config])).any()


@pytest.mark.parametrize("config", ["f128", "f64"])
@pytest.mark.parametrize("says", ORDERS)
def test_faulty_attention_orders_are_detected_at_paper_geometry(says: str, config: str) -> None:
    assert told(config, attention(says, config))[-1]


def test_block_of_other_threads_has_own_rows() -> None:
    """D-leankv-56: the published block is distinguished from a smaller one, parameter by parameter."""
    unit = units.find("paged_attention")
    chosen, usual = unit.configs["narrow"], unit.unit_class().arithmetic
    answers = committed("paged_attention", "narrow")
    for name in ("warps", "sum_threads", "key_threads", "value_rows", "value_slots", "join"):
        change = Device(unit, Config(**{**chosen, name: getattr(usual, name)}), unit.run_compiled)
        assert device.wrong(answers, change).any(), name


def test_random_heads_spread_their_attention() -> None:
    unit = units.find("paged_attention")
    config = unit.configs["paper"]
    (block,) = unit.cases(config, "random", range(20))
    p = unit.evaluate(config, block.inputs).p.view(np.float32)
    assert np.median(p.reshape(-1, p.shape[-1] // config["heads"]).max(axis=1)) < 0.9


def test_a_rounded_reciprocal_gives_other_words() -> None:
    unit = units.find("kv_quantizer")
    answers = committed("kv_quantizer", "paper")
    reciprocal = other.device(
        unit, answers.config, [each for each in unit.variants if each.says == "distances are multiplied by 1 / s"]
    )
    assert reciprocal is not None
    rows = [answers_of.values(unit, answers.config, block) for block in answers.blocks]
    assert (
        sum(int((reciprocal.evaluate(row).words != unit.evaluate(answers.config, row).words).sum()) for row in rows)
        > 20
    )


def unconnected(name: str, config: str, port: str) -> int:
    answers = committed(name, config)
    (fault,) = (each for each in use.faults(answers) if each.id == f"unconnected/in.{port}")
    return int(fault.wrong(answers).sum())


@pytest.mark.parametrize(
    ("name", "config", "port"),
    [
        ("generation_compressor", "diffkv", "prompt"),
        ("page_table", "paper", "entry"),
        ("page_table", "scrub", "other"),
    ],
)
def test_an_input_that_is_not_connected_is_noticed(name: str, config: str, port: str) -> None:
    assert unconnected(name, config, port)


def changed(change: Callable[[np.ndarray], np.ndarray], port: str) -> Callable[..., dict[str, np.ndarray]]:
    def answer(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
        return {port: change(getattr(result, port))}

    return answer


@pytest.mark.parametrize("config", ["paper", "scrub"])
@pytest.mark.parametrize("port", ["page", "ids"])
def test_page_ids_of_five_bits_are_too_narrow(config: str, port: str) -> None:
    unit = units.find("page_table")
    narrow = changed(lambda pages: np.where(pages < 0, pages, pages & 31).astype(pages.dtype), port)
    wrong = Device(unit, unit.configs[config], unit.run_compiled, narrow)
    assert device.wrong(committed("page_table", config), wrong).any()


@pytest.mark.parametrize("config", ["paper", "scrub"])
def test_low_pages_beyond_the_first_are_looked_up(config: str) -> None:
    unit = units.find("page_table")
    first = device.wrong(
        committed("page_table", config),
        right(unit, unit.configs[config]),
        lambda inputs, _: (
            inputs | {"value": np.where((inputs["op"] == 4) & (inputs["section"] == 1), 0, inputs["value"])}
        ),
    )
    assert first.sum() >= 3
