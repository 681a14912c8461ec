"""Orizuru's trees: registers, masks and what every register passes on."""

import numpy as np
import pytest

from refemu.units import orizuru
from tests.draw.shapes import about, boxes, texts, tree

X = np.array([3, 7, 1, 5, 2, 6, 9, 4], np.float16)  #: [kllm Fig. 7(a)]


def drawn(values: np.ndarray, k: int) -> list[tuple[orizuru.State, str]]:
    device = orizuru.Orizuru(len(values), k)
    config = {"n": len(values), "k": k}
    return [(state, orizuru.UNIT.draw(config, state)) for state in device.steps(values)]


@pytest.mark.parametrize("n", [5, 8, 16])
def test_registers_and_masks_are_those_of_the_state(n: int) -> None:
    for state, svg in drawn(np.arange(n, dtype=np.float16)[::-1].copy(), 2):
        for tree_name, bits, mask in (("P", state.p, state.p_mask), ("Q", state.q, state.q_mask)):
            registers = about(svg, f"{tree_name} register")
            assert [int(box.about.split(" = ")[1].partition(":")[0]) for box in registers] == list(bits)
            leaves = about(svg, f"{tree_name} mask")
            assert [int(box.text) for box in leaves][:n] == list(mask)


def test_register_passes_on_its_best_leaf() -> None:
    """After both trees are set up: the largest below a register of P, the smallest below one of Q."""
    state, svg = next((state, svg) for state, svg in drawn(X, 2) if state.event == "pop_max")
    before = X.copy()
    before[state.max_index[0]] = -np.inf
    for node, box in enumerate(about(svg, "Q register"), 1):
        span = 8 >> (node.bit_length() - 1)
        first = (node - (1 << node.bit_length() - 1)) * span
        assert float(box.text) == X[first : first + span].min()
    assert about(svg, "P register 1 ")[0].text == "none"  # until it is repaired


def test_pops_are_listed_in_their_order() -> None:
    _, svg = drawn(X, 2)[-1]

    assert "popped by max: 9 (element 6), 7 (element 1)" in texts(svg)
    assert "popped by min: 1 (element 2), 2 (element 4)" in texts(svg)


def test_the_event_is_marked() -> None:
    for state, svg in drawn(X, 2):
        hot = [box.about for box in boxes(svg) if box.kind == "hot" and box.about]
        tree_name = "P" if state.event.endswith("max") else "Q"
        if state.event.startswith("init"):
            assert len(hot) == state.node and all(text.startswith(f"{tree_name} register") for text in hot)
        elif state.event.startswith("pop"):
            assert hot == [f"{tree_name} mask of element {state.node - 8}"]
        elif state.event.startswith("maintain"):
            assert len(hot) == 1 and hot[0].startswith(f"{tree_name} register {state.node} ")


def test_large_tree_shows_path_to_best_element() -> None:
    values = np.random.default_rng(5).permutation(200).astype(np.float16)
    device = orizuru.Orizuru(200, 1)
    states = list(device.steps(values))
    state = [each for each in states if each.event == "init_min"][-1]
    svg = orizuru.UNIT.draw({"n": 200, "k": 1}, state)

    assert f"element {int(values.argmax())}: 199" in texts(svg) and f"element {int(values.argmin())}: 0" in texts(svg)
    assert len(texts(svg)) < 60 and "max root 199" in (tree(svg)[1].text or "")
