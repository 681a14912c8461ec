"""Pages read back: values by hand, against the oracle in every case, and rejected inputs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.testing import inputs
from refemu.units import variant as other
from refemu.units.leankv import page_reader
from refemu.units.leankv.page_reader import UNIT, PageReader
from tests.oracles.leankv import pages as oracle

IMPLEMENTATIONS = [pytest.param(page_reader.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
CONFIGS = list(UNIT.configs)


def expected(config: str, stimulus: Any, row: int) -> oracle.Read:
    """The oracle's lanes of a row, padded with zeros."""
    chosen = UNIT.configs[config]
    images = np.asarray(stimulus["images"]).reshape(-1, chosen["cells"], chosen["page_bytes"] // 2)[row]
    read = oracle.head(
        [image.astype("<u2").tobytes() for image in images],
        np.asarray(stimulus["entry"]).reshape(-1, chosen["cells"])[row].tolist(),
        (int(stimulus["n_high"][row]), int(stimulus["n_low"][row])),
        chosen["head_size"],
        [pair for pair in (chosen["high"], chosen["low"]) if pair],
        32 if chosen["output"] == "fp32" else 16,
        chosen["preset"] == "paper",
    )
    counts = {port.name: port.count for port in UNIT.ports(chosen).outputs}
    return oracle.Read(*([*lanes, *[0] * (counts[name] - len(lanes))] for name, lanes in read._asdict().items()))


def compared(run: Any, config: str, stimulus: Any) -> None:
    result = run(**stimulus, **UNIT.configs[config])
    for row in range(len(stimulus["n_high"])):
        for name, lanes in expected(config, stimulus, row)._asdict().items():
            assert getattr(result, name)[row].tolist() == lanes, (name, row)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", ["paper", pytest.param("edge", marks=pytest.mark.long), "random"])
@pytest.mark.parametrize("config", CONFIGS)
def test_every_case_equals_the_oracle(config: str, kind: Any, run: Any) -> None:
    for block in UNIT.cases(UNIT.configs[config], kind, 0):
        compared(run, config, block.inputs)


@settings(deadline=None, max_examples=5)
@given(inputs("page_reader", "fp16", max_rows=2))
def test_drawn_pages_equal_the_oracle(stimulus: Any) -> None:
    compared(page_reader.run, "fp16", stimulus)
    compared(UNIT.run_compiled, "fp16", stimulus)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_page_gives_what_its_tensors_dequantize_to(run: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 32, 128)).astype(np.float16)
    page = formats.UnifiedPage(128, formats.K8V4)
    key, value = page.config.key().encode(x[0]), page.config.value().encode(x[1])
    image = page.pack(page.record(key, value, score=np.arange(32) / 3, position=np.arange(32) - 5))
    result = run([image], [[0]], [32], [0], **{**UNIT.configs["page"], "output": "fp32"})

    assert np.array_equal(result.key[0].view(np.float32).reshape(32, 128), key.dequantize())
    assert np.array_equal(result.value[0].view(np.float32).reshape(32, 128), value.dequantize())
    assert np.array_equal(result.score[0].view(np.float32), (np.arange(32) / 3).astype(np.float32))
    assert result.position[0].tolist() == list(range(-5, 27))
    assert (result.pages, result.words) == (1, 32 * page.record_words)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_fp16_is_rounded_from_float32(run: Any) -> None:
    """D-leankv-74: 32 + 2**-6 + 2**-24 is a tie of fp16 after float32; code 185, scale 1417 * 2**-24 * 4 ..."""
    page = formats.UnifiedPage(128, formats.K8V4)
    image = page.empty()
    words = page.slot_words[0]
    image[words[page.parts["key"]]] = 185 | 185 << 8
    scale = np.float16(1417 * 2.0**-24)
    image[words[page.parts["key_meta"]]] = np.array([scale, -32], np.float16).view(np.uint16)
    exact = 1417 * 185 / 2**24 + 32
    result = run([image], [[0]], [1], [0], **UNIT.configs["page"])

    assert exact > 32 + 2**-6 == float(np.float32(exact))  # the exact value is nearer to 32 + 2**-5
    assert result.key[0, :128].view(np.float16).tolist() == [32.0] * 128


def test_rejected_inputs() -> None:
    config = UNIT.configs["paper"]
    images = np.zeros((1, 6 * 192), np.uint16)
    with pytest.raises(Refused, match=r"page_reader: head at index \(0,\): cells must be at most 6, got 7"):
        page_reader.run(images, [range(6)], [12], [1], **config)
    with pytest.raises(Refused, match=r"low tokens without a low precision|outside"):
        page_reader.run(np.zeros((1, 3392), np.uint16), [[0]], [1], [1], **UNIT.configs["page"])
    with pytest.raises(RefusedType, match="the last axis must hold 1152 lanes"):
        page_reader.run(images[:, 1:], [range(6)], [1], [0], **config)
    with pytest.raises(Refused, match="output must be one of 'fp32', 'fp16', got 'fp64'"):
        PageReader(output="fp64")


#: keys of token 0 and 1, and the value of token 1, of codes 2, 3 and 5: scales 3, 4 and 2, zeros 16, 32 and 64
FAULTS = {
    "F-leankv-1": (6, 12, 10),
    "F-leankv-2": ((2 - 16) * 3, (3 - 32) * 4, (5 - 64) * 2),
    "F-leankv-3": (2 * 16 - 3, 3 * 32 - 4, 5 * 64 - 2),
    "F-leankv-4": (2 * 3 - 32, 3 * 4 - 8, 5 * 2 - 8),
    "F-leankv-5": (2 * 3 - 16, 3 * 4 - 16, 5 * 2 - 48),
    "F-leankv-6": (2 * 3 - 48, 3 * 4 - 64, 5 * 2 - 32),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_zero_point_gives_keys_and_values_by_hand(fault: str) -> None:
    page = formats.UnifiedPage(128, formats.K8V4)
    image = page.empty()
    metadata = {"key_meta": [(3, 16), (4, 32), (1, 8)], "val_meta": [(1, 48), (2, 64), (1, 8)]}
    for slot, codes in enumerate((2 | 2 << 8, 3 | 3 << 8)):
        image[page.slot_words[slot, page.parts["key"]]] = codes
        image[page.slot_words[slot, page.parts["val"]]] = 0x5555
    for part, rows in metadata.items():
        for slot, pair in enumerate(rows):
            image[page.slot_words[slot, page.parts[part]]] = np.array(pair, np.float16).view(np.uint16)
    (variant,) = (each for each in UNIT.variants if each.decision == fault)
    device = other.device(UNIT, UNIT.configs["page"], [variant])
    assert device is not None
    stimulus = {"images": image[None], "entry": [[0]], "n_high": [2], "n_low": [0]}
    result = device.evaluate({name: np.array(values) for name, values in stimulus.items()})
    key, value = (getattr(result, name)[0].view(np.float16) for name in ("key", "value"))

    assert (key[0], key[128], value[128]) == FAULTS[fault] and not key[256:].any()
