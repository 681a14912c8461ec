"""The state of a simulation in a file, from which the same command resumes.

The file is a NumPy archive without pickled objects: arrays of the memory managers, a row for each request, a row for
each step, and a JSON text with the rest. It names the simulation that it belongs to, by a digest of all inputs.
"""

import hashlib
import io
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.models.schemes.leankv.serving.by_shape import State
from refemu.models.schemes.leankv.serving.clock import Clock
from refemu.models.schemes.leankv.serving.report import COLUMNS
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.models.schemes.leankv.serving.trace import Arrival
from refemu.scratch import write_file
from refemu.units.leankv.page_manager import Request

ARRAYS = ("_ring", "_ends", "_cells", "_used", "_tokens")  #: of a manager
NUMBERS = ("now", "operations", "stalled", "generating", "stalled_steps")  #: of a clock
TABLES = ("counts", "bound", "bytes")
SECONDS = 60.0  #: time between two states


class Saved:
    """A file with the state of one simulation."""

    def __init__(self, path: Path, scheme: str, trace: Sequence[Arrival], setting: Setting) -> None:
        """All inputs of the simulation; the file need not exist."""
        self.path: Path = path
        inputs = json.dumps([scheme, asdict(setting), [list(asdict(each).values()) for each in trace]])
        self.digest: str = hashlib.sha256(inputs.encode()).hexdigest()
        self._next = time.monotonic() + SECONDS

    def due(self) -> bool:
        """Whether it is time for another state."""
        return time.monotonic() >= self._next

    def write(self, clock: Clock) -> None:
        """Write the state between two steps."""
        server: Any = clock.server
        plan, arrays = server.scheduler, dict[str, np.ndarray]()
        for number, store in enumerate(server.stores):
            arrays |= {f"{number}{name}": getattr(store.manager, name) for name in ARRAYS}
            arrays[f"{number}held"] = store.held
        arrays["requests"] = np.array(
            [[r.prompt, r.generate, r.done] for r in server.requests.values()], np.int64
        ).reshape(-1, 3)
        arrays["rows"] = np.array(clock.series.rows, np.float64).reshape(-1, len(COLUMNS))
        rest = {
            "digest": self.digest,
            **{name: getattr(clock, name) for name in (*NUMBERS, *TABLES)},
            "lost": sorted(clock.lost),
            "first": list(clock.first.items()),
            "arrived": list(clock.arrived.items()),
            "plan": [list(plan.waiting), plan.running, sorted(plan._yielded)],
            "rejected": server._rejected,
            "managers": [_manager(store.manager) for store in server.stores],
        }
        file, named = io.BytesIO(), {**arrays, "rest": np.array(json.dumps(rest))}
        np.savez(file, **named)  # type: ignore[arg-type]  # numpy's stub takes the names for allow_pickle
        write_file(self.path, file.getvalue())
        self._next = time.monotonic() + SECONDS

    def read(self, clock: Clock) -> None:
        """Continue from the file if there is one. Refused: it is of another simulation, or damaged."""
        if not self.path.exists():
            return
        with reading(f"state {self.path}", "a state of a simulation"), np.load(self.path, allow_pickle=False) as file:
            arrays = dict(file)
            rest = json.loads(str(arrays["rest"]))
            other = rest["digest"] != self.digest
        if other:
            raise Refused(
                f"state {self.path}: must be of this simulation, got one of other options; delete it to start again"
            )
        server: Any = clock.server
        for number, (store, fields) in enumerate(zip(server.stores, rest["managers"], strict=True)):
            for name in ARRAYS:
                setattr(store.manager, name, arrays[f"{number}{name}"])
            _resume(store.manager, fields)
            store.resume(arrays[f"{number}held"])
        _clock(clock, arrays, rest)
        server._rejected = rest["rejected"]
        plan = server.scheduler
        plan.waiting, plan.running, plan._yielded = deque(rest["plan"][0]), rest["plan"][1], set(rest["plan"][2])


def _clock(clock: Clock, arrays: dict[str, np.ndarray], rest: dict[str, Any]) -> None:
    """Set the time, the counts and the requests."""
    server: Any = clock.server
    for name in (*NUMBERS, *TABLES):
        setattr(clock, name, rest[name])
    clock.lost = set(rest["lost"])
    clock.first, clock.arrived = ({int(name): value for name, value in rest[key]} for key in ("first", "arrived"))
    clock.series.rows = [tuple(row) for row in arrays["rows"].tolist()]
    server.requests = {name: State(*row) for name, row in enumerate(arrays["requests"].tolist())}


def _manager(manager: Any) -> dict[str, Any]:
    """Registers of a manager other than arrays."""
    return {
        "requests": [[name, *request.fields()] for name, request in manager.requests.table.items()],
        "slots": list(manager.requests.free_slots),
        "totals": manager.totals,
        "pages": [manager._allocated_pages, manager._recycled_pages],
    }


def _resume(manager: Any, fields: dict[str, Any]) -> None:
    """The inverse of `_manager`."""
    manager.requests.table = {name: Request(*row) for name, *row in fields["requests"]}
    manager.requests.free_slots = deque(fields["slots"])
    manager.totals = {name: int(count) for name, count in fields["totals"].items()}
    manager._allocated_pages, manager._recycled_pages = fields["pages"]
