"""A generation step of the heads of a layer, or of one: unit, compiled form, and the oracle's lists of tokens."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units import variant
from refemu.units.declaration import constant
from refemu.units.leankv.layer_step import ADMIT, FINISH, LOAD, STEP, LayerStep
from refemu.units.leankv.layer_step.cases import History, Prompt
from refemu.units.leankv.page_manager import OutOfPages, PageManager
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.variant import Variant
from tests.units.leankv import steps_oracle

UNIT = units.find("layer_step")
HEAD = UNIT.configs["head"]
KINDS = "paper", "edge", "random"


@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_the_oracles(name: str, kind: str) -> None:
    """[leankv Algorithm 1, §5.3, §6.1, §6.2] D-leankv-62: decide, allocate, move, write, attend, add scores."""
    config = UNIT.configs[name]
    device = UNIT.unit_class(**config)
    for block in UNIT.cases(config, kind, 0):
        result = UNIT.evaluate(config, block.inputs)
        for case in range(len(block.inputs["op"])):
            inputs = {port: array[case] for port, array in block.inputs.items()}
            for event, row in enumerate(steps_oracle.expected(device, inputs)):
                for port, words in row.items():
                    got = getattr(result, port)[case, event].astype(np.int64).ravel().tolist()
                    assert got == words, (block.why, event, port)


@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_form_equals_unit(name: str, kind: str) -> None:
    config = UNIT.configs[name]
    for block in UNIT.cases(config, kind, range(3) if kind == "random" else 0):
        assert UNIT.evaluate(config, block.inputs, jit=False).equals(UNIT.evaluate(config, block.inputs))


@pytest.mark.parametrize("name", ["one", "three", "eight"])
def test_every_head_does_what_it_does_alone(name: str) -> None:
    """[leankv §5.3]: heads share pages, not tokens; only page ids depend on the others."""
    config = UNIT.configs[name]
    heads, single = config["kv_heads"], {**config, "kv_heads": 1}
    for block in UNIT.cases(config, "paper", 0):
        whole = UNIT.evaluate(config, block.inputs)
        for head in range(heads):
            shared = ("op", "prompt", "window", "thresholds")
            inputs = {
                port: array if port in shared else part(array, head, heads) for port, array in block.inputs.items()
            }
            result = UNIT.evaluate(single, inputs)
            for port in ("choice", "victim", "low_slot", "written", "moved", "out", "p", "scores", "stored"):
                assert (part(getattr(whole, port), head, heads) == getattr(result, port)).all(), (head, port)


def part(array: np.ndarray, head: int, heads: int) -> np.ndarray:
    """Lanes of one head."""
    return array.reshape(*array.shape[:2], heads, -1)[:, :, head]


def test_heads_take_pages_by_one_prefix_sum() -> None:
    """D-leankv-38: head by head, high before low."""
    config = UNIT.configs["three"]
    device, history = LayerStep(**config), History(config, 5, 2)
    history.prompt(Prompt(4, (0, 1, 2, 3)))
    history.step((0.0, 0.0))
    inputs = {name: array[0] for name, array in history.inputs().items()}
    states = [state for state in device.steps(**inputs) if state.op == STEP]

    assert states[1].event == "allocate" and states[1].taken == (4, -1, 5, -1)
    assert states[1].levels - states[0].levels == 2 and states[1].adds - states[0].adds == 5


OPTIONS: tuple[dict[str, Any], ...] = (
    {"policy": "static", "keep_percent": 60, "low": None},
    {"policy": "diffkv"},
    {"score_rule": "cumulative"},
    {"partition_tokens": 2},
    {"high": "K16V16", "page_bytes": 1024},
    {"include_self": True, "gqa": "mean", "score_queries": 2},
    {"epoch": True},
)


@pytest.mark.parametrize("changed", OPTIONS, ids=lambda changed: next(iter(changed.items())))
def test_options_of_the_kernel(changed: dict[str, Any]) -> None:
    """Compiled form and unit, with several heads."""
    config = {**UNIT.configs["three"], **changed}
    (block,) = UNIT.cases(config, "paper", 0)

    assert UNIT.evaluate(config, block.inputs, jit=False).equals(UNIT.evaluate(config, block.inputs))


@pytest.mark.parametrize(
    "block",
    [
        {"warps": 1},
        {"warps": 2, "join": "sequential"},
        {"sum_threads": 4},
        {"key_threads": 1},
        {"value_rows": 1},
        {"value_slots": 1},
    ],
    ids=lambda block: next(iter(block)),
)
def test_blocks_of_threads_compute_other_sums(block: dict[str, Any]) -> None:
    """D-leankv-56: compiled form and unit agree, and a word of attention differs, none of the pages."""
    usual = {**HEAD, "pages": 40, "max_len": 80}
    made = History(usual, 5, 2, rough=(1, 1), fresh=True)
    made.prompt(Prompt(60, tuple(range(40, 60)), tuple(range(0, 40, 2))))
    for _ in range(4):
        made.step((0.0, 0.0))
    expected, result = (UNIT.evaluate(config, made.inputs()) for config in (usual, {**usual, **block}))

    assert UNIT.evaluate({**usual, **block}, made.inputs(), jit=False).equals(result)
    assert not (np.array_equal(expected.p, result.p) and np.array_equal(expected.out, result.out))
    assert np.array_equal(expected.written, result.written) and np.array_equal(expected.taken, result.taken)


def test_devices_of_the_kernel_share_nothing() -> None:
    """Two devices side by side, and each alone."""
    blocks = [history(HEAD, pairs).inputs() for pairs in ([(0.0, 0.0), (0.0, 1.0)], [(1.0, 1.0), (0.0, 0.0)])]
    both = UNIT.evaluate(HEAD, {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]})
    for device, block in enumerate(blocks):
        alone = UNIT.evaluate(HEAD, block)
        for port in (*UNIT.ports(HEAD).outputs, *UNIT.ports(HEAD).state):
            assert (getattr(both, port.name)[device] == getattr(alone, port.name)[0]).all(), port.name


def history(config: Any, thresholds: list[tuple[float, float]], prompt: Prompt | None = None) -> History:
    made = History(config, 7, 2)
    made.prompt(prompt or Prompt(5, (4, 1), (0, 2)))
    for pair in thresholds:
        made.step(pair)
    return made


def one_device(made: History) -> dict[str, Any]:
    return {name: array[0] for name, array in made.inputs().items()}


def test_paper_set_takes_every_choice_of_algorithm() -> None:
    (block,) = UNIT.cases(HEAD, "paper", 0)
    result = UNIT.evaluate(HEAD, block.inputs)
    full = UNIT.evaluate(HEAD, next(iter(UNIT.cases(HEAD, "edge", 0))).inputs)

    assert set(result.choice[block.inputs["op"] == STEP].ravel().tolist()) == set(range(7))
    assert result.requantized >= 3 and (result.taken[..., HIGH] >= 0).any() and (full.taken[..., LOW] >= 0).any()


def test_stages_of_a_step() -> None:
    """D-leankv-62: all heads decide, then one call of the manager, then head by head."""
    config = UNIT.configs["three"]
    device = UNIT.unit_class(**config)
    made = history(config, [(0.0, 0.0), (0.0, 1.0)])
    states = [state for state in device.steps(**one_device(made)) if state.op == STEP]
    first = [state.event for state in states if state.index == states[0].index]
    second = [(state.event, state.head) for state in states if state.index != states[0].index]

    assert first[:3] == ["decide", "allocate", "write"] and first.count("allocate") == 1
    assert [event for event, head in second if head == 0 and event in ("requantize", "write", "tree", "score")] == [
        "requantize",
        "write",
        "tree",
        "score",
    ]
    assert second[-1] == ("score", 1) and first.count("score") == 2


def test_units_are_stepped_and_hold_what_they_did() -> None:
    device = LayerStep(**HEAD)
    states = list(device.steps(**one_device(history(HEAD, [(0.0, 0.0), (0.0, 1.0)]))))
    (head,) = device.units

    assert states[-1].choice == (head.compressor.state.choice,) and states[-1].cells == device.manager.state.cells
    assert states[-1].macs == head.attention.state.macs and states[-1].out == head.attention.state.out
    assert states[-1].tokens_written == head.writer.state.tokens_written == 6
    stored = device.layouts.high.position(device.pool[device.manager.table.run(0, HIGH)[0]])
    assert set(stored.tolist()) <= {1, 4, 5, 6}


def test_prompt_loads_by_slot_and_leaves_whole() -> None:
    """D-leankv-63."""
    device = LayerStep(**HEAD)
    made = history(HEAD, [(0.0, 0.0)])
    made.event(FINISH)
    states = [state for state in device.steps(**one_device(made)) if not state.head and state.event != "decide"]
    loads = [state for state in states if state.event == "load"]

    assert states[0].event == "admit" and states[0].stored == (2, 2) and states[0].free == HEAD["pages"] - 2
    assert [state.loaded for state in loads] == [(1, 0), (2, 0), (2, 1), (2, 2)]
    assert states[-1].event == "finish" and states[-1].free == HEAD["pages"] and states[-1].seen == 0


def refused(made: History, message: str, error: type[Refused] = Refused, **changed: Any) -> None:
    """Unit and compiled form reject the last event, and the unit is unchanged."""
    config = {**HEAD, **changed}
    inputs = made.inputs()
    for jit in (False, True):
        with pytest.raises(error, match=message):
            UNIT.evaluate(config, inputs, jit)
    device = LayerStep(**config)
    last = len(made.rows) - 1
    for event in range(last):
        device.step(**{name: array[0, event].tolist() for name, array in inputs.items()})
        while device.busy:
            device.step()
    before, pool = device.snapshot(), device.pool.copy()
    with pytest.raises(error, match=message):
        device.step(**{name: array[0, last].tolist() for name, array in inputs.items()})
    assert device.snapshot() == before and (device.pool == pool).all()
    assert device.manager.state == before.manager and device.units[0].state == before.heads[0]


def test_layer_step_rejects_impossible_requests() -> None:
    made = History(HEAD, 1, 2)
    made.step((0.0, 0.0))
    refused(made, "layer_step: a step needs a request")
    made = History(HEAD, 1, 2)
    made.event(FINISH)
    refused(made, "sequence 0 is unknown")
    made = history(HEAD, [])
    made.event(ADMIT, prompt=2)
    refused(made, "sequence 0 is admitted already")
    made = History(HEAD, 1, 2)
    made.event(ADMIT, prompt=2, keep_high=np.array([2]), keep_low=np.array([1]))
    refused(made, "keeps 2 and 1 of 2 tokens")


def test_layer_step_rejects_tokens_without_place() -> None:
    made = history(HEAD, [])
    made.event(LOAD, section=np.array([1 + LOW]))
    refused(made, "head 0: all 2 retained low tokens are loaded already")
    made = History(HEAD, 1, 2)
    made.event(ADMIT, prompt=3, keep_high=np.array([2]))
    made.event(LOAD, section=np.array([1 + HIGH]), position=np.array([3]))
    refused(made, r"head 0: position must be in \[0, 3\), the prompt, got 3")
    made.rows.pop()
    made.event(LOAD, section=np.array([1 + HIGH]), position=np.array([1]))
    made.event(LOAD, section=np.array([1 + HIGH]), position=np.array([1]))
    refused(made, "head 0: position 1 is loaded already")
    made.rows.pop()
    made.step((0.0, 0.0))
    refused(made, "head 0: 2 high tokens must be loaded, got 1")


def test_step_that_lacks_pages_or_thresholds_changes_nothing() -> None:
    """D-leankv-53, D-leankv-62."""
    made = History(HEAD, 1, 2)
    made.prompt(Prompt(4, (0, 1, 2, 3)))
    made.step((0.0, 0.0))
    refused(made, "pages must be at most 0, the free ones, got 1", OutOfPages, pages=2)
    made.rows.pop()
    made.step((0.5, 0.25))
    refused(made, "thresholds must be 0 <= T_l <= T_h <= 1")
    made.rows.pop()
    made.step((0.0, 0.0))
    made.rows[-1]["q"][3] = 0x7C00
    refused(made, "q must be finite fp16, got 0x7c00")


def test_budget_rejects_low_tokens() -> None:
    """D-leankv-54."""
    refused(history(HEAD, [(0.0, 0.0)]), "2 low tokens without a low precision", policy="static", keep_percent=60)


@pytest.mark.parametrize("pages", [6144, 2048])
def test_long_histories_of_the_models_heads(pages: int) -> None:
    """64 features, 3 query heads, pages of SmolLM2: the compiled form compared with the unit over many steps."""
    config = {**HEAD, "page_bytes": pages, "max_len": 90, "pages": 12}
    made = History(config, 3, 8)
    made.prompt(Prompt(60, tuple(range(40, 60)), tuple(range(0, 40, 2))))
    for step in range(6):
        made.step(((0.0, 0.0), (0.005, 0.02), (0.0, 1.0))[step % 3])

    assert UNIT.evaluate(config, made.inputs(), jit=False).equals(UNIT.evaluate(config, made.inputs()))


def told(config: Any, says: str) -> int:
    """Events of the set in whose outputs a faulty device differs."""
    (wrong,) = (variant.device(UNIT, config, [each]) for each in UNIT.variants if each.says == says)
    assert wrong is not None
    count = 0
    for block in (block for kind in ("paper", "edge") for block in UNIT.cases(config, kind, 0)):
        right = UNIT.evaluate(config, block.inputs)
        try:
            answer = wrong.evaluate(block.inputs)
        except Refused:  # a state that no right device comes to
            count += 1
            continue
        rows = np.zeros(block.inputs["op"].shape, np.bool_)
        for port in UNIT.ports(config).outputs:
            rows |= (getattr(answer, port.name) != getattr(right, port.name)).reshape(*rows.shape, -1).any(axis=-1)
        count += int(rows.sum())
    return count


@pytest.mark.parametrize(
    ("name", "says", "least"),
    [
        ("head", "scores of a step are not added", 6),
        ("head", "scores are added after the next decision", 6),
        ("head", "the oldest token moves before any decision", 6),
        ("head", "the newest high token frees its slot", 2),
        ("head", "new tokens are coded at the low precision", 6),
        ("head", "the first query head alone is scored", 6),
        ("head_one_precision", "scores of a step are not added", 3),
        ("head_diffkv", "the first query head alone is scored", 3),
        ("three", "the first query head alone is scored", 3),
        ("eight", "a prompt fills its slots from the last to the first", 3),
        ("one", "the last head's pages come first", 1),
    ],
)
def test_faulty_devices_are_detected(name: str, says: str, least: int) -> None:
    """D-leankv-19, D-leankv-25, D-leankv-28, D-leankv-38, D-leankv-62, D-leankv-63."""
    assert told(UNIT.configs[name], says) >= least


class FreesTheFirst(LayerStep):
    """A prompt recycles its first pages instead of those after the retained ones."""

    def admit(self) -> Any:
        table = type(self.manager.table)

        def split(self: Any, entry: int, high: int, low: int) -> list[int]:
            held = self.run(entry, HIGH)
            surplus = len(held) - high - low
            self._cells[entry][: len(held)] = held[surplus:] + held[:surplus]
            return table.split(self, entry, high, low)

        self.manager.table.split = split.__get__(self.manager.table)  # type: ignore[method-assign]
        return super().admit()


def test_device_freeing_wrong_pages_is_detected() -> None:
    (block,) = UNIT.cases(HEAD, "paper", 0)
    inputs = {name: array[0] for name, array in block.inputs.items()}
    right, wrong = (list(device.steps(**inputs)) for device in (LayerStep(**HEAD), FreesTheFirst(**HEAD)))

    assert sum(a.cells != b.cells for a, b in zip(right, wrong, strict=True)) > 5


ORDERS: dict[str, Any] = {
    "finish frees low pages first": lambda parts: [part for pair in pairs(parts) for part in pair[::-1]],
    "finish frees the last head first": lambda parts: [part for pair in pairs(parts)[::-1] for part in pair],
    "finish frees all high pages first": lambda parts: [*parts[::2], *parts[1::2]],
    "finish frees high pages backwards": lambda parts: [
        part[::-1] if i % 2 == 0 else part for i, part in enumerate(parts)
    ],
    "finish frees low pages backwards": lambda parts: [part[::-1] if i % 2 else part for i, part in enumerate(parts)],
    "finish keeps a page": lambda parts: [part[1:] for part in parts],
}


def pairs(parts: list[Any]) -> list[list[Any]]:
    return [parts[i : i + 2] for i in range(0, len(parts), 2)]


def freeing(says: str) -> type[LayerStep]:
    """layer_step whose manager frees pages in another order."""

    class Wrong(PageManager):
        def _recycled(self, parts: Any, counts: Any = None) -> Any:
            ids = [page for part in parts for page in part]
            if counts is None:  # of a prompt
                turned = [part[::-1] for part in parts] if says == "a prompt frees its pages backwards" else parts
                return super()._recycled(turned)
            if says not in ORDERS:
                return super()._recycled(parts, counts)
            ends = np.cumsum(counts)
            turned = ORDERS[says]([ids[end - count : end] for end, count in zip(ends, counts, strict=True)])
            return super()._recycled(turned, [len(part) for part in turned])

        def _allocated(self, counts: Any) -> Any:
            moved = super()._allocated(counts)
            if says == "a step takes high pages of all heads first" and len(counts) == 2 * self.shape.heads:
                order = sorted(range(len(counts)), key=lambda place: place % 2)
                ids, given = iter(moved.ids), dict[int, list[int]]()
                for place in order:
                    given[place] = [next(ids) for _ in range(counts[place])]
                ids = tuple(page for place in range(len(counts)) for page in given[place])
                return replace(moved, ids=ids)
            return moved

    class Device(LayerStep):
        @constant
        def manager(self) -> PageManager:
            return Wrong(**asdict(self.shape))

    return Device


@pytest.mark.long
@pytest.mark.parametrize(
    "says", [*ORDERS, "a prompt frees its pages backwards", "a step takes high pages of all heads first"]
)
def test_every_wrong_order_of_pages_is_detected(says: str) -> None:
    """D-leankv-38: outputs alone show it."""
    config = UNIT.configs["one"]
    (block,) = (each for each in UNIT.cases(config, "edge", 0) if "page by page" in each.why)
    right = UNIT.evaluate(config, block.inputs)
    wrong = variant.device(UNIT, config, [Variant("D-leankv-38", says, unit_class=freeing(says))])
    assert wrong is not None
    try:
        answer = wrong.evaluate(block.inputs)
    except Refused as error:
        assert says == "finish keeps a page" and "the free ones" in str(error)
        return

    assert not np.array_equal(answer.taken, right.taken)
