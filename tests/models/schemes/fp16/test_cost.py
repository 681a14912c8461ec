"""Cost of products in FP16: counted one by one."""

import numpy as np

from refemu.models import machine
from refemu.models.machine import Cost
from refemu.models.schemes.fp16 import cost


def test_linear_layer_reads_inputs_once_and_weights_once() -> None:
    found = cost.linear(np.zeros((3, 5), np.float32), [np.zeros((3, 2)), np.zeros((3, 4))])

    assert found == Cost({"fp16": 3 * 5 * 6}, words={"activations": 15, "weights": 30})


def test_a_token_attends_to_itself_and_those_before() -> None:
    class Sizes:
        heads, kv_heads, head_dim = 4, 2, 8

    products = sum(2 * seen * 4 * 8 for seen in (4, 5, 6))
    words = sum(2 * seen * 2 * 8 for seen in (4, 5, 6))
    found = cost.attention(Sizes, np.zeros((3, 4, 8), np.float32), range(6))

    assert found == Cost({"fp16": products}, words={"activations": 96, "kv": words})


def test_mix_of_fp16_costs_products_and_no_cycles() -> None:
    rows = machine.cost("tiny", "fp16+fp16", 5).layers

    assert {(layer, row.kind) for row in rows for layer in row.blocks} >= {
        (0, "linear"),
        (2, "attention"),
        (-1, "linear"),
    }
    assert all(row.cost.cycles == 0 and row.cost.macs for row in rows)
