"""Products on the lanes: shapes, cycles, words, and what a wrong operand does."""

import numpy as np

from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.products import weighted
from tests.models.schemes.kllm.machine.operations import calls, operations, prepared


def test_a_layer_has_every_output_and_cycle() -> None:
    down = operations("kllm-a4", 0, 5)["blk.0.down"]

    assert (down.shape, down.elements, down.differing) == ((5, 64, 96), 5 * 64, 0)
    assert down.words == {"weights": 5 * 64 * 96, "activations": 5 * 96, "outputs": 5 * 64}
    assert down.cycles > 0 and 0 < down.use["macs"] <= 1 and 0 < down.use["counters"] <= 1


def test_a_scale_that_no_norm_divided_is_noticed() -> None:
    """attn_in stands behind a norm; multiplied by its own scale, nearly every output differs."""
    ports = Ports(prepared("kllm-a4").operands, 0)
    names, x = next(call for call in calls("kllm-a4", 0, 5, "prompt") if call.part == "linear").inputs
    output = next(call for call in calls("kllm-a4", 0, 5, "prompt") if call.part == "linear").output[0]
    a, weight = ports.encode("attn_in", x), ports.operands.weights["blk.0.wq"]
    centroids = np.broadcast_to(weight.codebook.values, (5, weight.codebook.values.size))

    undivided = weighted(ports, names[0], (a, a.scale), (weight, centroids), output)

    assert undivided.differing > undivided.elements // 2
