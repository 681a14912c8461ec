"""Campaigns: millions of random cases in shards, by several processes or a Dask cluster, resumed after anything.

A shard is a golden set whose bytes follow from unit, configuration and seeds alone: neither the number of workers nor
their order nor an interruption shows in it. Finished shards are not made again; `refemu check` checks them as any set.
"""

import fcntl
import hashlib
import json
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from refemu import __version__, units
from refemu.arith import selftest
from refemu.arith.checks import Refused, require_int
from refemu.golden import build, generator, sets, store
from refemu.golden import manifest as manifests
from refemu.golden.model_cases import Progress

ROWS = 1 << 16  #: of a shard, about: as many seeds as come up to them
BYTES = 1 << 25  #: of a shard with wide ports, about
SCHEMA = "refemu.campaign/1"
REQUEST, LOCK = "campaign.json", ".campaign.lock"
ATTEMPTS = 2  #: at a shard

_HALF_WRITTEN = re.compile(r"\.random-[0-9]+\.new-.*")


@dataclass(frozen=True, order=True)
class Shard:
    """Random cases of one unit in one configuration for consecutive seeds."""

    unit: str
    config: str
    seed: int  #: the first
    seeds: int  #: how many

    @property
    def name(self) -> str:
        """Its folder inside that of the campaign."""
        return f"{self.unit}-{self.config}/random-{self.seed:08d}"


@dataclass(frozen=True)
class Request:
    """All that a campaign's bytes depend on."""

    rows: int  #: of every unit and configuration, at least
    seed: int  #: the first
    units: Mapping[str, int]  #: name -> version

    def shards(self) -> list[Shard]:
        """Every shard, in the order of names."""
        return sorted(shard for name in self.units for config in units.find(name).configs
                      for shard in self._shards(name, config))

    def _shards(self, name: str, config: str) -> Iterator[Shard]:
        each = rows_per_seed(name, config)
        if each == 0:
            return
        last, step = self.seed + -(-self.rows // each), max(1, min(ROWS, BYTES // _row_bytes(name, config)) // each)
        for first in range(self.seed, last, step):
            yield Shard(name, config, first, min(step, last - first))


@dataclass(frozen=True)
class Outcome:
    """What a finished campaign is."""

    shards: int
    made: int  #: this time; the others were there
    rows: int
    bytes: int
    sha256: str  #: over names and digests of all shards


def request(rows: int, *, units_: Sequence[str] | None = None, seed: int = 0) -> Request:
    """A campaign of at least `rows` random rows for every configuration of `units_`, by default of all units."""
    require_int(rows, 1, 1 << 48, "campaign", "rows")
    require_int(seed, 0, 1 << 40, "campaign", "seed")
    names = sorted(set(units.names() if units_ is None else units_))
    return Request(rows, seed, {name: units.find(name).version for name in names})


def rows_per_seed(name: str, config: str) -> int:
    """Rows of the random cases of one seed; 0 if there are none."""
    unit = units.find(name)
    held = 1 + (unit.timing == "event")
    blocks = (next(iter(cases.inputs.values())).shape[:held] for cases in unit.cases(unit.configs[config], "random", 0))
    rows = 0
    for shape in blocks:
        rows += shape[0] * (shape[1] if held == 2 else 1)
    return rows


def _row_bytes(name: str, config: str) -> int:
    size = 4  # the flags
    for port in units.find(name).ports(units.find(name).configs[config]).all:
        size += port.dtype.itemsize * port.lanes
    return size


def render(shard: Shard) -> dict[str, bytes]:
    """Every file of a shard."""
    unit = units.find(shard.unit)
    blocks = generator.random_cases(unit, shard.config, shard.seed, shard.seeds)
    entry = {"function": generator.function_of(unit), "seed": shard.seed, "seeds": shard.seeds}
    manifest, arrays = build.build(unit, shard.config, blocks, generator={"random": entry}, seed=shard.seed,
                                   twin_from=1)
    return sets.render(manifest, arrays)


def make(shard: Shard, out: str) -> str:
    """Write a shard below `out`; returns its name."""
    store.replace(Path(out) / shard.name, render(shard))
    return shard.name


def run(
    wanted: Request,
    out: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Make the shards that are not there yet, `workers` at a time, or on the Dask cluster at `scheduler`.

    progress: called as progress(what, done, total). notice: told of a shard that failed and is tried once more.
    Refused: a folder that holds anything else, another campaign or one of another version, or in which one runs now; a
    shard that fails twice; a scheduler that does not answer. Finished shards stay.
    """
    selftest.check()
    require_int(workers, 1, 1024, "campaign", "workers")
    shards, folder = wanted.shards(), Path(out)
    with _held(folder, wanted):
        missing = [shard for shard in shards if not finished(shard, folder)]
        counter = _Counter(len(shards), len(shards) - len(missing), progress)
        failures: dict[Shard, int] = {}

        def failed(shard: Shard, error: BaseException) -> None:
            failures[shard] = failures.get(shard, 0) + 1
            if failures[shard] == ATTEMPTS:
                raise Refused(f"campaign: shard {shard.name} failed twice: {error or type(error).__name__}; "
                              f"{counter.done} of {len(shards)} are finished: the same command goes on from there")
            notice(f"shard {shard.name} failed: {error or type(error).__name__}; it is tried once more")

        if scheduler is not None:
            from refemu.golden import cluster

            cluster.run(missing, folder, scheduler, counter.one, failed)
        elif workers == 1:
            _alone(missing, folder, counter.one, failed)
        else:
            _pool(missing, folder, workers, counter.one, failed)
        return _outcome(shards, folder, len(missing))


class _Counter:
    def __init__(self, total: int, done: int, progress: Progress | None) -> None:
        self.total, self.done, self._progress = total, done, progress
        self._tell()

    def one(self, shard: Shard) -> None:
        self.done += 1
        self._tell()

    def _tell(self) -> None:
        if self._progress:
            self._progress("shards", self.done, self.total)


def finished(shard: Shard, folder: Path) -> bool:
    """Whether the shard is there, whole: its manifest and every hash in it."""
    place = folder / shard.name
    if not (place / sets.MANIFEST).is_file():
        return False
    try:
        entry = sets.load(place).manifest["generator"]["random"]
    except (Refused, KeyError):
        return False
    return (entry["seed"], entry.get("seeds", 1)) == (shard.seed, shard.seeds)


def _alone(shards: Sequence[Shard], folder: Path, done: Callable[[Shard], None],
           failed: Callable[[Shard, BaseException], None]) -> None:
    todo = list(shards)
    while todo:
        shard = todo.pop(0)
        try:
            make(shard, str(folder))
        except Exception as error:
            failed(shard, error)
            todo.append(shard)
        else:
            done(shard)


def _pool(shards: Sequence[Shard], folder: Path, workers: int, done: Callable[[Shard], None],
          failed: Callable[[Shard, BaseException], None]) -> None:
    """As many shards at once as there are workers, so that a worker that dies casts suspicion on few."""
    todo = list(shards)
    while todo:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            running: dict[Future[str], Shard] = {}
            broken = False
            while (todo or running) and not broken:
                while todo and len(running) < workers:
                    shard = todo.pop(0)
                    running[pool.submit(make, shard, str(folder))] = shard
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    shard = running.pop(future)
                    error = future.exception()
                    if error is None:
                        done(shard)
                        continue
                    failed(shard, error)
                    todo.append(shard)
                    broken = broken or isinstance(error, BrokenProcessPool)
            todo += running.values()  # of a broken pool: nothing of theirs was kept, nor held against them


def _outcome(shards: Sequence[Shard], folder: Path, made: int) -> Outcome:
    digest, rows, size = hashlib.sha256(), 0, 0
    for shard in shards:
        place = folder / shard.name
        manifest = manifests.parse((place / sets.MANIFEST).read_bytes(), str(place))
        digest.update(f"{shard.name} {manifest['self_sha256']}\n".encode())
        rows += manifest["rows"]
        size += (place / sets.MANIFEST).stat().st_size + (place / sets.VECTORS).stat().st_size
    return Outcome(len(shards), made, rows, size, digest.hexdigest())


@contextmanager
def _held(folder: Path, wanted: Request) -> Iterator[None]:
    """The folder, locked and known to hold this campaign or nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / LOCK).open("w")
    except OSError as error:
        raise Refused(f"{folder}: cannot be written: {error.strerror or error}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"{folder}: another campaign is running in this folder") from None
        _claim(folder, wanted)
        _sweep(folder)
        yield
        os.unlink(folder / LOCK)


def _claim(folder: Path, wanted: Request) -> None:
    """Write down the request, or refuse a folder that holds another one, or what is no campaign."""
    stated = {"schema": SCHEMA, "refemu_version": __version__, "request": asdict(wanted)}
    path = folder / REQUEST
    others = sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK)
    if not path.exists():
        if others:
            raise Refused(f"{folder}: holds {others[0]} but no {REQUEST}; a campaign needs a folder of its own")
        store.write_files({path: manifests.canonical(stated)})
        return
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        raise Refused(f"{path}: is no campaign of refemu") from None
    if found == stated:
        return
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise Refused(f"{path}: is no campaign of refemu that this version knows")
    if found.get("refemu_version") != __version__:
        raise Refused(f"{folder}: was made by refemu {found.get('refemu_version')}, this is {__version__}; "
                      "give the new campaign a folder of its own")
    raise Refused(f"{folder}: holds another campaign: {found.get('request')}; give this one a folder of its own")


def _sweep(folder: Path) -> None:
    """Remove what a killed worker left under a temporary name."""
    for place in folder.glob("*/.random-*"):
        if _HALF_WRITTEN.fullmatch(place.name):
            shutil.rmtree(place)
