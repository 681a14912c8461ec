"""The products of the attention, and devices that see other keys."""

import numpy as np
import pytest

from refemu.models.machine import Phase
from refemu.models.schemes.harmonia.machine import attention
from refemu.models.schemes.harmonia.machine.memory import Memory
from refemu.models.schemes.harmonia.machine.ports import Ports
from tests.models.schemes.harmonia.machine.recorded import attended


@pytest.mark.parametrize("phase", ["prompt", "decode"])
def test_both_products_of_all_heads(phase: Phase) -> None:
    """Scores of 4 heads with their codes; contexts of 16 channels are FP16 (D-harmonia-47)."""
    prepared, call = attended("harmonia-kv4", 136, phase)
    tokens, length = len(call.inputs[0]), len(call.inputs[1])

    scores, context = attention.attention(Memory(Ports(prepared, 0), *call.inputs), call.output)

    assert (scores.differing, context.differing) == (0, 0)
    assert (scores.elements, context.elements) == (2 * 4 * tokens * length, 4 * tokens * 16)
    assert (scores.parameters["kind"], context.parameters["kind"]) == ("score", "final")


def test_element_of_output_that_differs_is_noticed() -> None:
    prepared, call = attended("harmonia-kv8", 20, "prompt")
    output = call.output.copy()
    output[3, 5] = np.nextafter(np.float16(output[3, 5]), np.float16(9)).astype(np.float32)

    scores, context = attention.attention(Memory(Ports(prepared, 0), *call.inputs), output)

    assert (scores.differing, context.differing) == (0, 1)


def test_whole_heads_are_converted() -> None:
    """D-harmonia-47."""
    ports = Ports(attended("harmonia-kv4", 20, "prompt")[0], 0)
    kinds = [attention.product(ports, False, 2, 1, size, 40)["kind"] for size in (16, 32, 64, 80)]

    assert kinds == ["final", "context", "context", "final"]
