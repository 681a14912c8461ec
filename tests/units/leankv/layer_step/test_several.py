"""layer_step with several requests: calls of the manager, requests apart and together, rejections, faulty devices."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units import variant
from refemu.units.leankv.layer_step import LayerStep
from refemu.units.leankv.layer_step.cases import Batch, Prompt
from refemu.units.leankv.layer_step.cases.history import FINISH, HIGH, KEEP_LOW, NOTHING, STEP
from refemu.units.variant import Variant

UNIT = units.find("layer_step")
CONFIG = UNIT.configs["batch"]
PROMPTS = Prompt(5, (4, 1), (0, 2)), Prompt(6, (5, 4, 3)), Prompt(3, (2, 1), (0,))
BY_REQUEST = ("prompt", "members")


def batch(*steps: Any) -> Batch:
    made = Batch(CONFIG, 4, 2)
    made.admit(dict(enumerate(PROMPTS)))
    for names, thresholds in steps:
        made.step_of(names, thresholds)
    return made


def events(made: Batch, unit: type[LayerStep] = LayerStep) -> list[Any]:
    inputs = {name: array[0] for name, array in made.inputs().items()}
    return list(unit(**CONFIG).steps(**inputs))


def test_step_of_requests_is_one_call_of_manager() -> None:
    """D-leankv-75: one prefix sum over request, head and section; a request has its number as slot."""
    states = [state for state in events(batch((range(3), NOTHING), ([0, 2], KEEP_LOW))) if state.op == STEP]
    first = [state for state in states if state.index == states[0].index]
    second = [state for state in states if state.index != states[0].index]

    assert [state.event for state in first].count("allocate") == 1
    assert (first[1].levels - first[0].levels, first[1].adds - first[0].adds) == (4, 12 * 4 - 15)
    assert (second[1].levels - second[0].levels, second[1].adds - second[0].adds) == (3, 8 * 3 - 7)
    assert list(dict.fromkeys(state.head for state in first if state.event == "score")) == [0, 1, 2, 3, 4, 5]
    assert list(dict.fromkeys(state.head for state in second if state.event == "score")) == [0, 1, 4, 5]
    taken = [page for page in first[1].taken if page >= 0]
    assert taken == sorted(taken) and len(taken) > 2
    assert first[-1].seen == (6, 7, 4) and second[-1].seen == (7, 7, 5)


def test_requests_of_a_step_do_what_they_do_alone() -> None:
    """[leankv §5.3]: requests share pages, not tokens; only page ids depend on the others."""
    made = batch((range(3), NOTHING), ([0, 2], KEEP_LOW), ([1, 2], NOTHING))
    inputs, heads = made.inputs(), CONFIG["kv_heads"]
    whole = UNIT.evaluate(CONFIG, inputs)
    for request in range(3):
        shared, own = ("op", "window", "thresholds"), inputs["members"][0, :, request].astype(np.bool_)
        rows = own | (inputs["op"][0] == 0)
        alone = {name: array[:, rows] for name, array in inputs.items() if name != "members"}
        for name, array in alone.items():
            if name not in shared:
                lanes = array.reshape(*array.shape[:2], 3, -1)[:, :, request]
                alone[name] = lanes[..., 0] if name in BY_REQUEST else lanes
        result = UNIT.evaluate({**CONFIG, "requests": 1}, alone)
        for port in ("choice", "victim", "low_slot", "written", "moved", "out", "p", "scores", "stored"):
            got = getattr(whole, port).reshape(1, len(rows), 3, heads, -1)[:, rows, request]
            assert np.array_equal(got, getattr(result, port).reshape(got.shape)), (request, port)


@pytest.mark.parametrize(
    "changed",
    [
        {"policy": "diffkv"},
        {"score_rule": "cumulative"},
        {"policy": "static", "keep_percent": 60, "low": None},
        {"partition_tokens": 2},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_options_serve_requests_too(changed: dict[str, Any]) -> None:
    """Every block of the random cases: compiled form and unit."""
    config = {**CONFIG, **changed}
    for block in UNIT.cases(config, "random", range(3)):
        assert UNIT.evaluate(config, block.inputs, jit=False).equals(UNIT.evaluate(config, block.inputs))


def rejected(made: Batch, message: str) -> None:
    """Unit and compiled form reject the last event, and the unit is unchanged."""
    for jit in (False, True):
        with pytest.raises(Refused, match=message):
            UNIT.evaluate(CONFIG, made.inputs(), jit)
    device, inputs = LayerStep(**CONFIG), made.inputs()
    rows = [{name: array[0, event].tolist() for name, array in inputs.items()} for event in range(len(made.rows))]
    for row in rows[:-1]:
        device.step(**row)
        while device.busy:
            device.step()
    before, pool = device.snapshot(), device.pool.copy()
    with pytest.raises(Refused, match=message):
        device.step(**rows[-1])
    assert device.snapshot() == before and np.array_equal(device.pool, pool)


def test_events_without_requests_are_rejected() -> None:
    made = batch()
    made.step_of([], NOTHING)
    rejected(made, "members must name a request, got none")
    made.rows.pop()
    made.end()
    rejected(made, "members must name a request, got none")


def test_impossible_requests_of_a_step_are_rejected() -> None:
    made = batch((range(3), NOTHING))
    made.end(1)
    made.step_of([0, 1], NOTHING)
    rejected(made, "a step needs a request, got none")
    made.rows.pop()
    made.end(1, 2)
    rejected(made, "sequence 1 is unknown")
    made.rows.pop()
    made.admit({2: Prompt(2, (1,))})
    del made.rows[-1]
    rejected(made, "sequence 2 is admitted already")
    made.rows.pop()
    made.admit({1: PROMPTS[1]})
    del made.rows[-1]
    made.step_of([1], NOTHING)
    rejected(made, "request 1: head 0: 3 high tokens must be loaded, got 2")
    made.rows.pop()
    made.event(0, section=made.spread(np.array([HIGH, 0, 0])), position=made.spread(np.array([1, 0, 0])))
    rejected(made, "request 0: head 0: position 1 is loaded already")


class SameLength(LayerStep):
    """Every request takes the length of the first one of its step."""

    def _require_step(self, entry: int) -> tuple[int, int]:
        super()._require_step(entry)
        return super()._require_step(self._entries[0])


class WrongSlot(LayerStep):
    """Outputs of attention go to the lanes of the first request of a step."""

    def _put(self, values: Any, head: int, words: Any) -> Any:
        first = self._entries[0] // self.kv_heads * self.kv_heads if self.state.op == STEP else head
        return super()._put(values, first + head % self.kv_heads if self.state.op == STEP else head, words)


class EndsAll(LayerStep):
    """The end of a request frees the pages of its neighbour too."""

    def finish(self) -> Any:
        known = [name for name in range(self.requests) if name in self.manager.requests.table]
        self.manager.finish(known)
        return self._unloaded()


FAULTS: dict[str, Variant] = {
    "length of the first request": Variant("", "", unit_class=SameLength),
    "lanes of the first request": Variant("", "", unit_class=WrongSlot),
    "all requests end": Variant("", "", unit_class=EndsAll),
    **{each.says: each for each in UNIT.variants if each.decision in ("D-leankv-75", "D-leankv-56")},
}


@pytest.mark.long
@pytest.mark.parametrize("says", FAULTS)
def test_faulty_batches_are_detected(says: str) -> None:
    """By the cases of several requests alone; a parameter with the value of the configuration changes nothing."""
    wrong = variant.device(UNIT, CONFIG, [FAULTS[says]])
    if wrong is None:
        same = {"warps": 2, "sum_threads": 2, "key_threads": 2, "value_rows": 2, "value_slots": 1, "join": "sequential"}
        assert says in [f"{name} is {value!r}" for name, value in same.items()]
        return
    differs = False
    for block in [block for kind in ("paper", "edge") for block in UNIT.cases(CONFIG, kind, 0)]:
        if block.decision not in ("D-leankv-75", "D-leankv-38", "D-leankv-56"):
            continue
        right = UNIT.evaluate(CONFIG, block.inputs)
        try:
            answer = wrong.evaluate(block.inputs)
        except Refused:  # a state that no right device comes to
            differs = True
            continue
        differs |= any(
            not np.array_equal(getattr(answer, port.name), getattr(right, port.name))
            for port in UNIT.ports(CONFIG).outputs
        )
    assert differs


def test_batch_ends_in_any_order() -> None:
    made = batch((range(3), NOTHING))
    for name in (1, 0, 2):
        made.event(FINISH, members=made.named([name]))
    assert events(made)[-1].free == CONFIG["pages"] and events(made)[-1].seen == (0, 0, 0)
