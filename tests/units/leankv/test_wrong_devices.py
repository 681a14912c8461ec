"""Devices that earlier sets let pass, each seen wrong by rows of kinds that are committed. [leankv §6.2]"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device, use
from refemu.golden.grade.answers import Answers
from refemu.units import alternative as other
from refemu.units.alternative import Device, right

ORDERS = (
    *(f"{count} threads sum the exponentials" for count in (32, 64, 128)),
    *(f"{count} threads share a key" for count in (1, 2, 8)),
    *(f"{count} warps take the pages" for count in (1, 2, 4)),
    "exponentials are summed token by token",
    "threads take the features of a key in turn",
    "a warp takes two neighbouring pages",
    "neighbouring slots go to neighbouring accumulators",
    "a page has one accumulator",
    "accumulators are added one after the other",
    "neighbouring accumulators are added first",
    "features are added from the last to the first",
    "slots of a page are added from the last to the first",
)


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
def test_every_wrong_order_of_attention_is_told_by_the_set_of_many_tokens(says: str) -> None:
    unit = units.find("paged_attention")
    (alternative,) = (each for each in unit.alternatives if each.says == says)
    wrong = other.device(unit, unit.configs["long"], [alternative])
    assert wrong is not None and device.wrong(committed("paged_attention", "long"), wrong).sum() >= 3


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
        unit, answers.config, [each for each in unit.alternatives if each.says == "distances are multiplied by 1 / s"]
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
    wrong = Device(unit, unit.configs[config], unit.run_jit, narrow)
    assert device.wrong(committed("page_table", config), wrong).any()


@pytest.mark.parametrize("config", ["paper", "scrub"])
def test_low_pages_beyond_the_first_are_looked_up(config: str) -> None:
    unit = units.find("page_table")
    first = device.wrong(
        committed("page_table", config),
        right(unit, unit.configs[config]),
        lambda inputs: inputs | {"value": np.where((inputs["op"] == 4) & (inputs["section"] == 1), 0, inputs["value"])},
    )
    assert first.sum() >= 3
