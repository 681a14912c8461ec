"""Derived parts of a unit, on small units: `run` of both forms, Result, signature, docstring."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType
from refemu.units import AnyUnit, find
from refemu.units.declaration import Changes, Sequential, constant
from refemu.units.derivation import Arrays, Rejected, compiled_run, result_type
from refemu.units.ports import Port, Ports, validate
from refemu.units.stepping import Result, Stepped
from refemu.units.unit import Cases, Config, Unit
from tests.units.protocol.blocks import STRUCTURES, blocks


def no_cases(config: Config, kind: str, seed: int | range) -> Iterator[Cases]:
    yield from ()


@dataclass(frozen=True)
class Scaling:
    """State of Scaler."""

    event: str
    index: int
    x: int
    pair: tuple[int, int]
    scaled: tuple[int, int]
    large: int
    kept: int
    products: int
    operations: int


class Scaler(Stepped[Scaling]):
    """A pair times x times the gain, in two events: multiply, then look at the size."""

    name = "scaler"

    def __init__(self, gain: int = 1, limit: int | None = None) -> None:
        self.gain, self.limit = gain, limit
        self.ports = scaler_ports({})
        self.state = self.reset(Scaling)

    @property
    def busy(self) -> bool:
        return self.state.event == "multiply"

    def step(self, x: int | None = None, pair: Sequence[int] | None = None) -> Scaling:
        return self._stepped(x, pair)

    def _open(self, x: int, pair: tuple[int, int]) -> Scaling:
        scaled = pair[0] * x * self.gain, pair[1] * x * self.gain
        self.state = self.latched(x, pair, event="multiply", scaled=scaled, products=self.state.products + 2)
        return self.state

    def _continue(self) -> Scaling:
        before = self.state
        large = int(self.limit is not None and max(before.scaled) > self.limit)
        self.state = replace(before, event="look", large=large, kept=before.x, operations=before.operations + 1)
        return self.state


def scaler_ports(config: Mapping[str, Any]) -> Ports:
    return Ports(
        inputs=(Port("x", 4, meaning="the factor"), Port("pair", 4, 2)),
        outputs=(Port("scaled", 16, 2), Port("large", 1)),
        state=(Port("kept", 4),),
    )


SCALER: Unit[Scaling, Result] = Unit(
    name="scaler",
    paper="olive §0",
    meaning="scale a pair",
    configs={"plain": Config(gain=1)},
    ports=scaler_ports,
    unit_class=Scaler,
    cases=no_cases,
    counters=("products", "operations"),
)


@compiled_run(SCALER)
def scaler_compiled(scaler: Scaler, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Scale all pairs at once."""
    x, pair = inputs
    scaled, large, kept = outputs
    scaled[:] = pair.astype(np.uint16) * x[:, None] * scaler.gain
    large[:] = False if scaler.limit is None else scaled.max(axis=-1, initial=0) > scaler.limit
    kept[:] = x
    products: Any = np.int64(2 * x.size)  # as a kernel returns it
    return products, x.size


class Summer(Sequential):
    """Adds every x that is not below `least`, which may be left out."""

    name = "summer"
    events = ("add",)
    counters = {"added": "x that were added"}
    start: int = 0  #: of the sum

    @constant
    def ports(self) -> Ports:
        return Ports(inputs=(Port("x", 4), Port("least", 4)), outputs=(), state=(Port("total", 8),))

    @constant
    def initial(self) -> dict[str, int]:
        return {"total": self.start}

    def add(self, x: int, least: int) -> Changes:
        """What is large is added."""
        adds = x >= least
        return {"total": self.state.total + adds * x, "added": int(adds)}

    def validated(self, x: ArrayLike, least: ArrayLike = 0) -> list[np.ndarray]:
        """Refuses also 13."""
        arrays = validate(self.name, self.ports.inputs, (x, least))
        if (arrays[0] == 13).any():
            raise Refused("summer: x must not be 13")
        return arrays


SUMMER: AnyUnit = Unit(
    unit_class=Summer, paper="kllm §0", meaning="sum what is large", configs={"zero": Config(start=0)}, cases=no_cases
)


@compiled_run(SUMMER)
def summer_compiled(summer: Summer, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Sum along the axis of events."""
    x, least = inputs
    outputs[0][:] = summer.start + np.cumsum(x * (x >= least), axis=1)
    return (int(np.count_nonzero(x >= least)),)


SCALERS = [pytest.param(SCALER.run, id="run"), pytest.param(scaler_compiled, id="compiled")]
SUMMERS = [pytest.param(SUMMER.run, id="run"), pytest.param(summer_compiled, id="compiled")]


@pytest.mark.parametrize("run", SCALERS)
def test_signature_has_ports_and_then_parameters_by_keyword(run: Callable[..., Any]) -> None:
    signature = inspect.signature(run)

    assert [str(each) for each in signature.parameters.values()] == [
        "x",
        "pair",
        "gain: int = 1",
        "limit: int | None = None",
    ]
    assert [each.kind for each in signature.parameters.values()] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2 + [
        inspect.Parameter.KEYWORD_ONLY
    ] * 2
    assert signature.return_annotation is SCALER.result


@pytest.mark.parametrize("run", SUMMERS)
def test_signature_takes_inputs_of_hand_written_admitted(run: Callable[..., Any]) -> None:
    parameters = inspect.signature(run).parameters

    assert list(parameters) == ["x", "least", "start"]
    assert (parameters["x"].default, parameters["least"].default) == (inspect.Parameter.empty, 0)


@pytest.mark.parametrize("run", SCALERS)
def test_documentation_names_unit_paper_and_inputs(run: Callable[..., Any]) -> None:
    text = run.__doc__ or ""

    assert text.startswith("Run scaler: scale a pair.\n") and text.endswith("References\n----------\n[olive §0]")
    assert "\nx : array_like of uint8\n    The factor; 0 to 15.\n" in text
    assert "\npair : array_like of uint8 (..., 2)\n    uint; 0 to 15.\n" in text
    assert (run.__name__, run.__qualname__, run.__module__) == ("run", "run", __name__)


def test_result_orders_outputs_registers_and_counters() -> None:
    fields = [(field.name, field.type) for field in dataclasses.fields(SCALER.result)]

    assert fields == [
        ("scaled", np.ndarray),
        ("large", np.ndarray),
        ("kept", np.ndarray),
        ("products", int),
        ("operations", int),
    ]
    assert issubclass(SCALER.result, Result) and SCALER.result.__module__ == __name__
    assert SCALER.result is not result_type([scaler_ports({})], SCALER.counters, __name__)


@pytest.mark.parametrize("run", SCALERS)
def test_operations_end_with_their_last_event_and_broadcast(run: Callable[..., Any]) -> None:
    """Flags are bool, lanes the last axis; registers are exported; counters are totals over operations."""
    result = run([[1], [15]], [[2, 3], [15, 4]], gain=2, limit=100)

    assert result.scaled.tolist() == [[[4, 6], [30, 8]], [[60, 90], [450, 120]]]
    assert result.large.tolist() == [[False, False], [False, True]]
    assert result.kept.tolist() == [[1, 1], [15, 15]]
    assert (result.scaled.dtype, result.large.dtype, result.kept.dtype) == (np.uint16, np.bool_, np.uint8)
    assert (result.products, result.operations) == (8, 4)
    assert (type(result), type(result.products)) == (SCALER.result, int)


@pytest.mark.parametrize("run", SCALERS)
def test_scalars_give_scalars(run: Callable[..., Any]) -> None:
    result = run(3, pair=(1, 2))

    assert (result.scaled.shape, result.large.shape, result.kept.shape) == ((2,), (), ())
    assert (result.scaled.tolist(), int(result.kept), result.operations) == ([3, 6], 3, 1)


@pytest.mark.parametrize("run", SUMMERS)
def test_devices_start_from_reset_and_counters_add(run: Callable[..., Any]) -> None:
    result = run([[1, 2, 3], [4, 5, 6]], 2, start=100)

    assert result.total.tolist() == [[100, 102, 105], [104, 109, 115]]
    assert result.added == 5
    assert run([7, 8]).total.tolist() == [7, 15] and run(x=[7, 8], least=8).total.tolist() == [0, 8]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
@pytest.mark.parametrize("run", SUMMERS)
def test_no_device_or_no_event_gives_empty_arrays(run: Callable[..., Any], shape: tuple[int, ...]) -> None:
    result = run(np.zeros(shape, int))

    assert (result.total.shape, result.total.dtype, result.added) == (shape, np.uint8, 0)


@pytest.mark.parametrize("run", SCALERS)
def test_no_operation_gives_empty_arrays(run: Callable[..., Any]) -> None:
    result = run(np.zeros((3, 0), int), np.zeros((3, 0, 2), int))

    assert (result.scaled.shape, result.large.shape, result.operations) == ((3, 0, 2), (3, 0), 0)


@pytest.mark.parametrize("run", SCALERS)
@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ([1], {}, "inputs must be x, pair, got 1 by position; add pair$"),
        ([], {"pair": [1, 2]}, "inputs must be x, pair, got pair; add x$"),
        ([1, [1, 2], 3], {}, "inputs must be x, pair, got 3 by position$"),
        ([1, [1, 2]], {"x": 2}, "inputs must be x, pair, got 2 by position and x$"),
        ([1], {"pair": [1, 2], "gains": 3}, "inputs must be x, pair, got 1 by position and pair, gains$"),
    ],
    ids=["missing", "missing by name", "too many", "twice", "unknown"],
)
def test_missing_unknown_or_repeated_inputs_are_rejected(
    run: Callable[..., Any], values: list[Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedType, match=f"^scaler: {message}"):
        run(*values, **named)


@pytest.mark.parametrize("run", SUMMERS)
@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ([], {}, "missing a required argument: 'x'"),
        ([[1], 2, 3], {}, "too many positional arguments"),
        ([[1], 2], {"least": 2}, "multiple values for argument 'least'"),
        ([[1]], {"most": 2}, "got an unexpected keyword argument 'most'"),
    ],
    ids=["missing", "too many", "twice", "unknown"],
)
def test_hand_written_admitted_rejects_them_too(
    run: Callable[..., Any], values: list[Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedType, match=rf"^summer\.run: {message}$"):
        run(*values, **named)


@pytest.mark.parametrize("run", SUMMERS)
def test_run_rejects_what_admitted_rejects(run: Callable[..., Any]) -> None:
    with pytest.raises(Refused, match=r"^summer: x must not be 13$"):
        run([12, 13])
    with pytest.raises(Refused, match=r"^summer: x 16 at index \(1,\) is outside \[0, 16\)$"):
        run([12, 16])


def test_compiled_form_gets_contiguous_writable_rows_and_device() -> None:
    seen: list[Any] = []

    @compiled_run(SCALER)
    def run(device: Scaler, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
        seen.extend([device, *inputs, *outputs])
        return 0, 0

    run(np.arange(12).reshape(4, 3)[:, ::2], [1, 2], gain=5)
    device, *arrays = seen

    assert repr(device) == "Scaler(gain=5, limit=None)"
    assert [array.shape for array in arrays] == [(8,), (8, 2), (8, 2), (8,), (8,)]
    assert [array.dtype for array in arrays] == [np.uint8, np.uint8, np.uint16, np.bool_, np.uint8]
    assert all(array.flags.c_contiguous and array.flags.writeable for array in arrays)
    assert arrays[0].tolist() == [0, 2, 3, 5, 6, 8, 9, 11]


def test_a_clocked_compiled_form_gets_devices_by_events() -> None:
    shapes: list[tuple[int, ...]] = []

    @compiled_run(SUMMER)
    def run(device: Summer, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
        shapes.extend(array.shape for array in (*inputs, *outputs))
        return (0,)

    run([1, 2, 3])
    run(np.zeros((2, 5, 4), int))

    assert shapes == [(1, 3)] * 3 + [(10, 4)] * 3


@pytest.mark.parametrize("counts", [(), None, (1,), (1, 2, 3)], ids=str)
def test_compiled_form_with_wrong_counters_is_rejected(counts: Any) -> None:
    @compiled_run(SCALER)
    def run(device: Scaler, inputs: Arrays, outputs: Arrays) -> Any:
        return counts

    with pytest.raises(ValueError, match="zip"):
        run(1, [1, 2])


def test_readable_form_says_why_compiled_form_rejects() -> None:
    @compiled_run(SUMMER)
    def run(device: Summer, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
        raise Rejected

    with pytest.raises(Refused, match=r"^summer: x must not be 13$"):
        run([12, 13])
    with pytest.raises(AssertionError, match=r"run takes what its compiled form rejects$"):
        run([12, 12])


def test_timing_and_place_of_compiled_form_follow() -> None:
    assert (SCALER.timing, SUMMER.timing) == ("combinational", "event")
    assert find("orizuru").compiled_run == "refemu.units.kllm.orizuru.compiled:run"
    assert (SCALER.compiled_run, SUMMER.others) == ("tests.units.compiled:run", "tests.units.variants")


def test_stated_fields_of_descriptor_are_unchanged() -> None:
    @dataclass(frozen=True, eq=False)
    class Sums(Result):
        total: np.ndarray
        added: int

    def run(**named: Any) -> Sums:
        return Sums(np.zeros(1, np.uint8), 7)

    unit = replace(SUMMER, run=run, result=Sums, compiled_run="module:function", timing="event")

    assert (unit.run, unit.result, unit.compiled_run, unit.run().added) == (run, Sums, "module:function", 7)
    assert type(replace(SUMMER, run=None, result=Sums).run([1])) is Sums


def test_a_unit_of_the_package_is_derived() -> None:
    unit = find("olive_pe8")

    assert inspect.signature(unit.run) == inspect.signature(find("olive_pe8").run_compiled)
    assert list(inspect.signature(unit.run).parameters)[-2:] == ["split", "overflow"]


@pytest.mark.parametrize(("unit", "name"), STRUCTURES)
def test_inputs_by_position_follow_signature(unit: AnyUnit, name: str) -> None:
    """None where a configuration has no such port."""
    config, inputs = unit.configs[name], blocks(unit, name)[0].inputs
    places = [each for each in inspect.signature(unit.run).parameters.values() if each.kind is not each.KEYWORD_ONLY]
    values = [inputs.get(each.name) for each in places]
    want = unit.evaluate(config, inputs)

    assert unit.run_compiled(*values, **config).equals(want)
    if len(next(iter(inputs.values()))) <= 8:  # many rows take the readable unit long
        assert unit.run(*values, **config).equals(want)


def test_position_of_missing_port_is_not_skipped() -> None:
    unit = find("index_norm")
    config = unit.configs["rms"]  # without `centroids`, which come before `squares`
    inputs = next(iter(unit.cases(config, "paper", 0))).inputs

    for run in (unit.run, unit.run_compiled):
        with pytest.raises(
            RefusedType, match="index_norm: inputs must be q, mask, x, scale, squares, weights, got q, mask"
        ):
            run(*inputs.values(), **config)
        with pytest.raises(RefusedType, match=r"index_norm: inputs must be .* in this order, got 1 by position and q"):
            run(inputs["q"], q=inputs["q"], **config)
        with pytest.raises(RefusedType, match=r"index_norm: inputs must be .* in this order, got 8 by position"):
            run(*range(8), **config)
