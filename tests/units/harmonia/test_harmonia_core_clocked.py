"""The clocked core against the oracle, clock by clock: every output, register and counter."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.units.harmonia import harmonia_core, harmonia_core_clocked
from refemu.units.harmonia.harmonia_core import PARTS, HarmoniaCore, Timeline, stepped
from refemu.units.harmonia.harmonia_core_clocked import UNIT, HarmoniaCoreClocked
from refemu.units.unit import Config
from tests.oracles import clocked
from tests.oracles.harmonia import core_clock
from tests.units.clocked_rows import assert_rows, reset
from tests.units.harmonia.core_products import PRODUCTS, Product, at, biases, offsets, widths

DEFAULTS = {name: each.default for name, each in inspect.signature(HarmoniaCoreClocked).parameters.items()}
SMALL = {
    "linear": [Product("linear", 9, 2, 3, seed=seed, activation="silu") for seed in (1, 5)],
    "two bands of v": [Product("v", 9, 2, 17, m=4)],
    "keys of a window": [Product("k", 3, 2, 4, head_dim=4, window=2, bias_add="after", given=biases(4))],
    "keys behind it": [Product("k", 2, 2, 4, head_dim=4, window=2, start=2, given=offsets(4))],
    "keys of a window of two bands": [Product("k", 10, 2, 4, head_dim=4, window=9)],
    "keys at positions": [
        Product("k", 3, 2, 4, head_dim=4, window=2, positions="port", given=at(*places), seed=places[2])
        for places in ((0, 1, 2), (0, 5, 9))
    ],
    "codes of both widths": [Product("score", 2, 2, 3, "mixed", start=1, given=widths(2, 3))],
    "words": [Product("final", 2, 2, 34, "bfp8", activation="relu")],
    "biased sums that wait": [
        Product("final", 8, 2, 70, activation="silu", bias_add="accumulator", given=biases(70), tile_k=32)
    ],
    "one": [Product("linear", 1, 1, 1)],
}
PAPER = {name: [product] for name, product in PRODUCTS.items()}  #: of several blocks, tiles and kinds
BOTH = {"unit": harmonia_core_clocked.run, "compiled": UNIT.run_compiled}


def stacked(products: Sequence[Product], rows: Sequence[tuple[int, int]]) -> dict[str, np.ndarray]:
    """Inputs of every row, of which each has `go` and the number of a product."""
    numbers = [number for _, number in rows]
    ports = {name: np.stack([product.ports[name] for product in products]) for name in products[0].ports}
    return {"go": np.array([go for go, _ in rows]), **{name: array[numbers] for name, array in ports.items()}}


def expected(
    products: Sequence[Product], rows: Sequence[tuple[int, int]], pitch: str = "adjacent"
) -> list[dict[str, Any]]:
    """Registers after every row."""
    config = {**DEFAULTS, **products[0].config, "pitch": pitch}
    zeros = reset(UNIT, config)
    outputs = {port.name: zeros[port.name] for port in UNIT.ports(Config(**config)).outputs}

    def changes(number: int) -> Any:
        product = products[number]
        operands = {name: array.tolist() for name, array in product.ports.items()}
        return core_clock.changes(product.wanted, product.a, product.b, product.given, operands, pitch)

    found = clocked.rows(rows, changes, zeros)
    return [row if row["busy"] or row["valid"] else row | outputs for row in found]


def named(product: Product) -> dict[str, Any]:
    """Operands as `step` takes them."""
    ports = {port.name: product.ports[port.name].tolist() for port in HarmoniaCore(**product.config).ports.inputs}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in ports.items()}


def operands(product: Product) -> list[Any]:
    return [*named(product).values()]


def length(product: Product) -> int:
    return len(core_clock.clocks(product.wanted, product.given).working)


@pytest.mark.parametrize("run", BOTH.values(), ids=BOTH)
@pytest.mark.parametrize("name", SMALL)
def test_rows_equal_the_oracle(name: str, run: Any) -> None:
    """Two products or the same twice, back to back; one after idle rows and cut off; others on the ports."""
    products = SMALL[name]
    last = len(products) - 1
    rows = [(0, last), (1, 0), *[(row % 2, last) for row in range(1, length(products[0]))]]
    rows += (
        [(1, last)] + [(0, 0)] * length(products[last]) + [(0, 0), (1, 0)] + [(0, last)] * (length(products[0]) // 2)
    )

    result = run(**stacked(products, rows), **products[0].config)

    config = {**DEFAULTS, **products[0].config}
    assert_rows(UNIT, config, result, expected(products, rows))


@pytest.mark.parametrize("name", ["linear", "biased before FP2Half", "values of both widths", "k of a window", "v"])
def test_larger_products_equal_the_oracle(name: str) -> None:
    """The compiled form, whose clocks and values come from the sizes of blocks and from whole matrices."""
    (product,) = PAPER[name]
    rows = [(1, 0)] + [(0, 0)] * length(product)

    result = UNIT.run_compiled(**stacked([product], rows), **product.config)

    assert_rows(UNIT, {**DEFAULTS, **product.config}, result, expected([product], rows))


@pytest.mark.parametrize("name", PAPER)
def test_clocks_equal_the_oracle(name: str) -> None:
    """Every event ends, every part works and every column leaves in the clock in which the oracle has it."""
    (product,) = PAPER[name]
    planned = HarmoniaCoreClocked(**product.config).planned(operands(product))
    wanted = core_clock.clocks(product.wanted, product.given)

    assert [end for end, _ in sorted(planned.ends, key=lambda each: each[1])] == wanted.ends
    assert [list(planned.working(clock)) for clock in range(planned.length)] == wanted.working
    assert {clock: column[:3] for clock, column in planned.leaving.items()} == wanted.leaving


@pytest.mark.parametrize("pitch", ["drain", "overlap"])
@pytest.mark.parametrize("run", BOTH.values(), ids=BOTH)
@pytest.mark.parametrize("size", [(8, 2, 32), (9, 70, 40), (3, 700, 33)])
@pytest.mark.parametrize("kind", ["linear", "final", "v"])
def test_pitch_of_passes_equals_the_oracle(kind: str, size: tuple[int, int, int], run: Any, pitch: str) -> None:
    """D-harmonia-64: passes that begin as the clocked array takes them."""
    product = Product(kind, *size)
    count = len(core_clock.clocks(product.wanted, product.given, pitch).working)
    rows = [(1, 0)] * (count + 30)

    result = run(**stacked([product], rows), **product.config, pitch=pitch)

    assert_rows(UNIT, {**DEFAULTS, **product.config, "pitch": pitch}, result, expected([product], rows, pitch))


@pytest.mark.parametrize("run", BOTH.values(), ids=BOTH)
@pytest.mark.parametrize("name", ["two bands of v", "keys of a window of two bands", "words", "codes of both widths"])
def test_columns_that_leave_are_result_of_core(name: str, run: Any) -> None:
    """D-harmonia-54: each element once; the codes of harmonia_core, its words and its offsets."""
    product = SMALL[name][0]
    rows = [(1, 0)] + [(0, 0)] * length(product)
    result, whole = run(**stacked([product], rows), **product.config), product.run(harmonia_core.UNIT.run_compiled)
    shape = product.wanted.rows, product.wanted.columns
    found = {name: np.full(shape, -1) for name in ("sign", "mantissa", "word")}
    for t in np.flatnonzero(result.sent.any(axis=-1)):
        count = int(result.sent[t].sum())
        some = np.s_[int(result.row[t]) :, int(result.column[t])]
        for each, matrix in found.items():
            assert (matrix[some][:count] == -1).all()
            matrix[some][:count] = getattr(result, each)[t, :count]

    assert np.array_equal(found["word"].ravel(), whole.y) and np.array_equal(result.y[-1], whole.y)
    assert np.array_equal(found["sign"].ravel(), whole.sign.astype(int))
    assert np.array_equal(found["mantissa"].ravel(), whole.mantissa)
    if "offset" in {port.name for port in HarmoniaCoreClocked(**product.config).ports.state}:
        assert np.array_equal(result.offset[-1], whole.offset)


def test_a_product_takes_the_clocks_of_its_timeline() -> None:
    """D-harmonia-55: it is closed when its last column is aligned and written; then the next one begins."""
    product = SMALL["two bands of v"][0]
    unit = HarmoniaCoreClocked(**product.config)
    core = HarmoniaCore(**product.config)
    timeline = Timeline()
    timeline.product(core, stepped(core, list(core.steps(**product.ports))))
    rows = [(1, 0)] * (2 * timeline.clock + 1)

    result = UNIT.run_compiled(**stacked([product], rows), **product.config)

    assert np.flatnonzero(result.valid).tolist() == [timeline.clock - 1, 2 * timeline.clock - 1]
    assert not result.busy[[timeline.clock - 1, 2 * timeline.clock - 1]].any() and result.busy.sum() == len(rows) - 2
    assert result.working[: timeline.clock].sum(axis=0)[PARTS.index("align")] == timeline.busy["align"]
    assert result.products == 2 and unit.state.products == 0


def test_clock_shows_last_event_that_ends() -> None:
    product = SMALL["linear"][0]
    plan = core_clock.clocks(product.wanted, product.given)
    ended = dict(zip(plan.ends, (event for event, _ in plan.events), strict=True))
    rows = stacked([product], [(1, 0)] + [(0, 0)] * length(product))

    events = [state.event for state in HarmoniaCoreClocked(**product.config).steps(**rows)]

    assert events == [ended.get(clock + 1, "wait") for clock in range(length(product))] + ["idle"]


def test_go_and_operands_are_ignored_while_busy() -> None:
    """D-arith-19."""
    product, other = SMALL["linear"]
    quiet = UNIT.run_compiled(**stacked([product, other], [(1, 0)] + [(0, 0)] * 42), **product.config)
    loud = UNIT.run_compiled(**stacked([product, other], [(1, 0)] + [(1, 1)] * 42), **product.config)

    assert quiet.valid[-1] and quiet.equals(loud)


def test_valid_lasts_one_row() -> None:
    """D-arith-21."""
    product = SMALL["one"][0]
    result = UNIT.run_compiled(**stacked([product], [(1, 0)] + [(0, 0)] * 40), **product.config)
    assert result.valid.sum() == 1 and result.phase[-1] == np.flatnonzero(result.valid)[0]


def test_window_keys_are_converted_after_offsets_are_chosen() -> None:
    """D-harmonia-49: the first eight of nine keys wait for the ninth."""
    product = SMALL["keys of a window of two bands"][0]
    plan = core_clock.clocks(product.wanted, product.given)
    unit = HarmoniaCoreClocked(**product.config)
    planned = unit.planned(operands(product))
    closes = max(end for (event, _), end in zip(plan.events, plan.ends, strict=True) if event == "offset")

    assert min(planned.leaving) > closes


@pytest.mark.parametrize("number", [0, 1, 20, 33, 41])
def test_another_device_resumes_from_any_state(number: int) -> None:
    product, other = SMALL["linear"]
    first, second = operands(product), operands(other)
    device = HarmoniaCoreClocked(**product.config)
    states = [device.step(int(row == 0), *(second if row else first)) for row in range(44)]
    again = HarmoniaCoreClocked(**product.config)
    again.restore(states[number])

    assert [again.step(0, *second) for _ in states[number + 1 :]] == states[number + 1 :]


def test_sums_of_several_blocks_wait_for_vector_unit() -> None:
    """The bias is added in FP32 by a vector unit that is late: the array is further on."""
    (product,) = SMALL["biased sums that wait"]
    device, values = HarmoniaCoreClocked(**product.config), named(product)
    state = device.step(1, **values)
    most = 0
    while state.busy:
        state = device.step(0, **values)
        most = max(most, len(state.waiting))

    assert most == 2 and state.waiting == ()


@pytest.mark.parametrize("run", BOTH.values(), ids=BOTH)
def test_invalid_core_inputs_are_rejected_with_go(run: Any) -> None:
    """The state stays as it was; on the ports of other rows anything may be."""
    product = SMALL["keys at positions"][0]
    ports = stacked([product], [(0, 0), (1, 0)])
    bad = {**ports, "position": np.array([[0, 1, 2], [0, 2, 2]])}
    with pytest.raises(Refused, match=r"position must ascend from row to row, got 2 at index \(1, 2\)"):
        run(**bad, **product.config)
    assert run(**{**bad, "go": np.array([0, 0])}, **product.config).clocks == 0
    device, values = HarmoniaCoreClocked(**product.config), named(product)
    state = device.step(1, **values)
    with pytest.raises(Refused, match=r"a_mag 256 at index \(0,\) is outside"):
        device.step(0, **{**values, "a_mag": (256, 0, 0, 0, 0, 0)})
    with pytest.raises(Refused, match="position must ascend"):
        device.step(1, **{**values, "position": (0, 0, 1)})
    with pytest.raises(RefusedType, match="position"):
        device.step(0, **{name: value for name, value in values.items() if name != "position"})
    assert device.state is state


def test_harmonia_core_clocked_repr_evaluates_back() -> None:
    product = SMALL["keys behind it"][0]
    text = repr(HarmoniaCoreClocked(**product.config))
    assert text.startswith("HarmoniaCoreClocked(kind='k', rows=2, inner=2, columns=4") and repr(eval(text)) == text
