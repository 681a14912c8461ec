"""Arrays at the ports of KLLM's units."""

import numpy as np
import pytest

from refemu.models.schemes.kllm.machine.ports import Ports
from tests.models.schemes.kllm.machine.operations import prepared


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_port_of_one_lane_takes_a_column(lanes: int) -> None:
    """Integers 1, 2, 3 of codes that stand for 0.5; one position is a port without lanes."""
    ports = Ports(prepared("kllm-a4").operands, 0)
    config = {"op": "softmax", "softmax": "fp16", "t": lanes}

    answer = ports.evaluate("functional", config, {"x": np.zeros((4, lanes), np.uint16)})

    assert answer.y.shape == ((4, lanes) if lanes > 1 else (4,))


@pytest.mark.parametrize(("scheme", "count"), [("kllm-a4", 1), ("kllm-a4:outlier_percent=10", 5), ("kllm-a4-s", 0)])
def test_outliers_of_each_side(scheme: str, count: int) -> None:
    assert Ports(prepared(scheme).operands, 0).outliers("down_in", 96) == count


def test_names_and_norms_are_the_schemes() -> None:
    operands = prepared("kllm-a4").operands
    ports = Ports(operands, 1)
    x = np.linspace(-2, 2, 128).astype(np.float16).astype(np.float32).reshape(2, 64)

    a = ports.encode("ffn_in", x)

    assert ports.full("q") == "blk.1.q"
    assert a.equals(operands.encode("blk.1.ffn_in", x)) if hasattr(a, "equals") else a.index.tobytes()
    norm = operands.norms(a, operands.group(1, ("gate", "up")))[1]
    assert norm.divisor.tobytes() == operands.norms(a, operands.group(1, ("gate", "up")))[0].divisor.tobytes()
    assert norm.divided.shape == (2, 16) and norm.folded.shape == (2,)


def test_lanes_are_those_of_table_1() -> None:
    lane = Ports(prepared("kllm-a4").operands, 0).lane(3, 4)

    assert [lane[name] for name in ("lanes", "concat", "counters", "inputs", "macs")] == [16, 4096, 32, 16, 32]
    assert (lane["a_bits"], lane["b_bits"], lane["integer"]) == (3, 4, False)
