"""Where every page is after every step: by an oracle, by invariants, for faulty managers, and after a resumption."""

import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.machine.shapes import Shape
from refemu.models.schemes.leankv import serving
from refemu.models.schemes.leankv.serving import by_shape, clock, invariants, saved, simulation
from refemu.models.schemes.leankv.serving.gpu import GPUS
from refemu.models.schemes.leankv.serving.invariants import Broken
from refemu.units.leankv.page_manager import compiled
from tests.oracles.leankv import serving as oracle

SIZES = Shape("small", blocks=2, width=256, heads=4, kv_heads=2, ffn=512, vocab=1000)
HEADS, WINDOW, SHARES = SIZES.blocks * SIZES.kv_heads, 4, (0.3, 0.2)
PAGES = UnifiedPage(64, K8V4, 384), UnifiedPage(64, K4V2, 384)
GPU = GPUS["l40"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of four heads, so that a run takes milliseconds."""
    monkeypatch.setattr(simulation.shapes, "find", lambda name: SIZES)


def run(trace: list[serving.Arrival], pages: int, state: Path | None = None, **more: Any) -> serving.Report:
    shares = {"high_share": SHARES[0], "pruned_share": SHARES[1]}
    scheme = f"leankv:page_bytes=384,num_pages={pages},window={WINDOW}"
    return serving.simulate(scheme, trace, serving.Setting(**shares, **more), state)


def drawn(seed: int) -> tuple[list[serving.Arrival], dict[str, Any]]:
    """Requests, and options of a run with few pages."""
    dice = random.Random(seed)
    times = sorted(dice.uniform(0, 0.002) for _ in range(dice.randint(3, 6)))
    trace = [serving.Arrival(time, dice.randint(1, 15), dice.randint(1, 90)) for time in times]
    return trace, {
        "pages": dice.randint(60, 130),
        "preemption": dice.choice(["recompute", "swap"]),
        "slots": dice.randint(2, 6),
        "seed": seed,
    }


def places_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Where the pages are, a value for each step of the runs to come."""
    noted: list[Any] = []
    record = clock.Clock._record

    def noting(self: clock.Clock, events: Any) -> None:
        record(self, events)
        (manager,), held = self.server.managers, {}
        for name in manager.requests.table:
            cells, used = manager.cells([name]).reshape(HEADS, -1).tolist(), manager.used([name]).reshape(HEADS, 2)
            rows = zip(cells, used.tolist(), strict=True)
            held[name] = [(row[:high], row[::-1][:low]) for row, (high, low) in rows]
        noted.append((manager.free_ids(), held))

    monkeypatch.setattr(clock.Clock, "_record", noting)
    return noted


def expected(trace: list[serving.Arrival], pages: int, preemption: str, slots: int, seed: int) -> oracle.Simulation:
    setting = oracle.Setting(
        *(SIZES.blocks, SIZES.width, SIZES.ffn, SIZES.heads, SIZES.kv_heads, 64, SIZES.vocab, pages),
        *((PAGES[0].tokens, PAGES[1].tokens), (K8V4.token_bytes(64), K4V2.token_bytes(64)), PAGES[0].size, WINDOW),
        *(SHARES, slots, preemption, seed, GPU.bandwidth, GPU.rate, GPU.link),
    )
    longest = max(each.prompt + each.generate - 1 for each in trace)
    done = oracle.Simulation(setting, [dataclasses.astuple(each) for each in trace], longest)
    done.run()
    return done


def require_equal_places(monkeypatch: pytest.MonkeyPatch, seeds: Iterator[int]) -> dict[str, int]:
    """Compare runs page by page; returns how often something happened in them."""
    happened, noted = dict.fromkeys(("steps", "preemptions", "aborted"), 0), places_of(monkeypatch)
    for seed in seeds:
        trace, options = drawn(seed)
        noted.clear()
        report, right = run(trace, check=True, **options), expected(trace, **options)
        assert len(noted) == len(right.places), seed
        for number, (got, wanted) in enumerate(zip(noted, right.places, strict=True)):
            assert got == wanted, (seed, number)
        assert report.total["seconds"] == right.result.seconds
        for name in ("finished", "rejected", "aborted"):
            assert report.requests[name] == len(getattr(right.result, name)), (seed, name)
        happened["steps"] += len(noted)
        for name in ("preemptions", "aborted"):
            happened[name] += report.requests[name]
    return happened


def test_pages_of_runs_are_those_of_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-leankv-38, D-leankv-52, D-leankv-68: every page of every step of five random runs."""
    assert require_equal_places(monkeypatch, iter(range(5)))["steps"] > 300


@pytest.mark.slow
def test_pages_of_200_runs_are_those_of_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = require_equal_places(monkeypatch, iter(range(200)))
    assert happened["preemptions"] > 100 and happened["steps"] > 10_000 and happened["aborted"] > 0


Manager = compiled.PageManager


class FreesBackwards(Manager):
    """Order of freeing: the end of a request returns its pages from the last to the first."""

    def finish(self, sequences: Any) -> Any:
        moved = super().finish(sequences)
        places = np.arange(self._ends[1] - len(moved.ids), self._ends[1]) % self.shape.pages
        self._ring[places] = self._ring[places][::-1]
        return moved


class LeaksPrompts(Manager):
    """Unused pages of a prompt are never returned."""

    def prompt_release(self, sequences: Any, high: Any, low: Any) -> Any:
        went, came = super().prompt_release(sequences, high, low)
        self._ends[1] -= len(went.ids)
        return went, came


class StartsLate(Manager):
    """The start of the list is one too far after a prompt."""

    def prompt_allocate(self, prompts: Any) -> Any:
        moved = super().prompt_allocate(prompts)
        self._ends[0] += self._ends[0] + 1 < self._ends[1]
        return moved


class DoublesPage(Manager):
    """A step gives the first free page to two heads."""

    def grow(self, steps: Any, held: Any) -> Any:
        before = int(self._ends[0])
        gained = super().grow(steps, held)
        if self._ends[0] > before + 1:
            ids = self._ring[[before % self.shape.pages, (before + 1) % self.shape.pages]]
            self._cells[self._cells == ids[1]] = ids[0]
        return gained


class ExchangesPages(Manager):
    """A step exchanges two pages that a head holds."""

    def grow(self, steps: Any, held: Any) -> Any:
        gained = super().grow(steps, held)
        self._cells[0, :2] = self._cells[0, :2][::-1]
        return gained


class ExchangesFreePages(Manager):
    """A step exchanges two pages in the middle of the list."""

    def grow(self, steps: Any, held: Any) -> Any:
        gained = super().grow(steps, held)
        places = (self._ends[1] - np.array([2, 1])) % self.shape.pages
        self._ring[places] = self._ring[places][::-1]
        return gained


class LosesFreePages(Manager):
    """A step shortens the list at its end."""

    def grow(self, steps: Any, held: Any) -> Any:
        gained = super().grow(steps, held)
        self._ends[1] -= self._ends[1] > self._ends[0]
        return gained


FAULTS = (
    (ExchangesPages, "heads whose pages a step exchanges"),
    (ExchangesFreePages, "a step takes the first free pages"),
    (LosesFreePages, "number of free pages after a step"),
    (FreesBackwards, "the list after an end"),
    (LeaksPrompts, "the list after a prompt"),
    (StartsLate, "the list after a prompt"),
    (DoublesPage, "a step takes the first free pages"),
)
TRACE = [serving.Arrival(0.0, 30 + 7 * n, 90) for n in range(4)]


@pytest.mark.parametrize(("manager", "rule"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_faulty_managers_are_detected(monkeypatch: pytest.MonkeyPatch, manager: type[Manager], rule: str) -> None:
    monkeypatch.setattr(compiled, "PageManager", manager)
    with pytest.raises(Broken, match=f"page_manager: {rule}: must have"):
        run(TRACE, 260, check=True)


def test_steps_are_checked_without_reading_the_whole_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU has millions of pages, and steps are most calls; every PERIOD steps all pages are read."""
    reads = list[int]()

    class Counts(Manager):
        def free_ids(self) -> list[int]:
            reads.append(1)
            return super().free_ids()

    monkeypatch.setattr(compiled, "PageManager", Counts)
    monkeypatch.setattr(invariants, "PERIOD", 10)
    report = run(TRACE, 260, check=True)
    calls = report.total["steps"]["prompt"] + report.requests["preemptions"] + report.requests["finished"]
    steps = report.total["steps"]["generation"]
    assert steps // 10 <= len(reads) <= calls + steps // 10 + 1 < steps


def test_preempted_pages_that_stay_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_shape.ByShape, "_yield", lambda self, name: None)
    with pytest.raises(Broken, match="requests with pages: must have"):
        run(TRACE, 260, check=True)


def test_right_manager_passes_all_checks() -> None:
    assert run(TRACE, 260, check=True).requests["preemptions"] > 0


class Interrupted(Exception):
    """Raised in a step, as by a user."""


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], None]:
    """End a run after some steps; returns what lets runs continue."""
    step, count = by_shape.ByShape.step, [0]

    def counted(self: by_shape.ByShape) -> Any:
        count[0] += 1
        if count[0] == after:
            raise Interrupted
        return step(self)

    monkeypatch.setattr(by_shape.ByShape, "step", counted)
    return lambda: monkeypatch.setattr(by_shape.ByShape, "step", step)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("after", [2, 60, 150])
def test_interrupted_simulation_resumes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, preemption: str, after: int
) -> None:
    """Report and every row of the series are those of a run without an interruption; the state is saved each step."""
    path, trace = tmp_path / "state", [*TRACE, serving.Arrival(0.001, 20, 80), serving.Arrival(1.0, 9, 9)]
    whole = run(trace, 260, preemption=preemption)
    monkeypatch.setattr(saved, "SECONDS", 0.0)
    resume = interrupted(monkeypatch, after)
    with pytest.raises(Interrupted):
        run(trace, 260, path, preemption=preemption)
    resume()
    assert path.exists()
    begun: list[int] = []
    monkeypatch.setattr(clock.Clock, "_count", counting(clock.Clock._count, begun))
    again = run(trace, 260, path, preemption=preemption, check=False)

    assert again.as_json() == whole.as_json()
    assert [tuple(map(float, row)) for row in again.series.rows] == [
        tuple(map(float, row)) for row in whole.series.rows
    ]
    assert len(begun) == len(whole.series.rows) - (after - 1) and not path.exists()


def counting(count: Any, begun: list[int]) -> Any:
    def counted(self: clock.Clock, *operands: Any) -> None:
        begun.append(1)
        count(self, *operands)

    return counted


def test_state_of_another_simulation_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "state"
    monkeypatch.setattr(saved, "SECONDS", 0.0)
    resume = interrupted(monkeypatch, 9)
    with pytest.raises(Interrupted):
        run(TRACE, 260, path)
    resume()
    with pytest.raises(Refused, match="must be of this simulation, got one of other options"):
        run(TRACE, 261, path)
    path.write_bytes(b"PK")
    with pytest.raises(Refused, match="state"):
        run(TRACE, 260, path)


def test_state_of_running_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="a state of a model that runs cannot be saved"):
        serving.simulate("leankv", [serving.Arrival(0.0, 5, 2)], serving.Setting(model="tiny"), tmp_path / "state")
