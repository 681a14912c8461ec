"""Products on the lanes: shapes, cycles, words, and what a wrong operand does."""

from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.products import weighted
from tests.models.schemes.kllm.machine.operations import calls, operations, prepared


def test_a_layer_has_every_output_and_cycle() -> None:
    down = operations("kllm-a4", 0, 5)["blk.0.down"]

    assert (down.shape, down.elements, down.differing) == ((5, 64, 96), 5 * 64, 0)
    assert down.words == {"weights": 5 * 64 * 96, "activations": 5 * 96, "outputs": 5 * 64}
    assert down.cycles > 0 and 0 < down.use["macs"] <= 1 and 0 < down.use["counters"] <= 1


def test_a_scale_that_no_norm_divided_is_noticed() -> None:
    """attn_in follows a norm; multiplied by its own scale, nearly every output differs."""
    ports = Ports(prepared("kllm-a4").operands, 0)
    names, x = next(call for call in calls("kllm-a4", 0, 5, "prompt") if call.part == "linear").inputs
    output = next(call for call in calls("kllm-a4", 0, 5, "prompt") if call.part == "linear").output[0]
    a, weight = ports.encode("attn_in", x), ports.operands.group(0, names).weights[0]

    undivided = weighted(ports, ports.operands.group(0, names), weight, a, None, output)

    assert undivided.differing > undivided.elements // 2


def test_use_is_of_all_lanes() -> None:
    """[kllm Table I] 64 columns of 96 positions: two lanes of sixteen work, slabs are mostly padding."""
    down = operations("kllm-a4", 0, 1)["blk.0.down"]

    edges = 16 * down.cycles
    assert down.use["concat"] == 64 / edges
    assert down.use["counters"] == 64 * 94 / (edges * 512)
    assert down.use["merge"] == 64 / edges
    assert down.use["macs"] == 64 * (256 + 2 + 2) / (edges * 32)
