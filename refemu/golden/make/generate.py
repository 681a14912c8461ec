"""Sets of golden vectors: from units, kinds and a model to directories. regenerate.py starts from a manifest."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from refemu import units as unit_names
from refemu.arguments import checked
from refemu.arith import selftest
from refemu.arith.checks import Refused, require_choice
from refemu.golden.faults.fault import QUICK, known
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets, store
from refemu.golden.grade import complete as complete_cases
from refemu.golden.make import build, model_cases
from refemu.golden.make.model_cases import Progress, Source
from refemu.units import parameters
from refemu.units.unit import KINDS, AnyUnit, Cases, Kind

COMPLETE = "grade.complete"  #: function of cases of kind "fault": they detect what the others miss
Target = tuple[AnyUnit, str, Any]  #: unit, name of a configuration, where its set goes


@dataclass(frozen=True)
class Summary:
    """Summary of a set that was written."""

    name: str  #: name of the set
    unit: str  #: name of the unit
    config: str  #: name of the configuration
    path: str  #: folder of the set
    rows: int  #: rows of every array
    cases: int  #: number of cases
    kinds: Mapping[Kind, int]  #: kind -> rows
    bytes: int  #: bytes of all its files
    self_sha256: str  #: digest of the manifest
    refemu_version: str  #: the version that last changed the set
    left_out: Sequence[str] = ()  #: cases of the ready configurations that do not fit this one, with reasons
    #: operations of a model at this unit with parameters that no set of the request has, and how to request them; the
    #: first Summary also has operations at units without a set, and names units that the model does not reach
    elsewhere: Sequence[str] = ()


@checked
def generate(
    out: str | Path,
    *,
    units: Sequence[str | AnyUnit] | None = None,
    configs: Sequence[str] | None = None,
    kinds: Sequence[Kind] | None = None,
    model: str | None = None,
    scheme: str | Sequence[str] | None = None,
    text: str | None = None,
    tokens: int | None = None,
    seed: int = 0,
    hex: bool = False,
    bin: bool = False,
    progress: Progress | None = None,
    token_ids: Sequence[int] | None = None,
    complete: bool | Sequence[str] = False,
    prove: float = 0,
) -> list[Summary]:
    """Write one set per unit and configuration into `out`/<unit>-<configuration>/.

    Each directory is replaced completely; after an error it is unchanged.

    Parameters
    ----------
    out : str or Path
        Folder of the sets.
    units : sequence of str or Unit, optional
        Units in all their ready configurations or in one: "orizuru", "orizuru:n8", "orizuru:n=4096,k=21". By default
        all units of refemu.
    configs : sequence of str, optional
        Names; by default all.
    kinds : sequence of str, optional
        Names; by default all, "model" only with `model`, `scheme`, `text`, `tokens` or `token_ids`.
    model : str, optional
        Model that cases of kind "model" are tapped from; by default `tiny`.
    scheme : str or sequence of str, optional
        Schemes; each unit is tapped under the scheme that uses it. By default `olive-4`.
    text : str, optional
        The text itself, not a path; by default the shipped one.
    tokens : int, optional
        Tokens of the text; by default 64.
    seed : int
        Seed of the random cases.
    hex, bin : bool
        Export `hex/` or `bin/` too, with headers.
    progress : callable, optional
        Called as progress(what, done, total).
    token_ids : sequence of int, optional
        Token ids that the model reads instead of a text.
    complete : bool or sequence of str
        Whether each set gets cases of kind "fault" that detect every fault that its other cases miss; or the classes of
        these faults, by default all except "model".
    prove : float
        With `complete`: seconds of a solver for each fault that no row tried detects; 0 for none.

    Returns
    -------
    list of Summary
        Sets that were written.

    Raises
    ------
    Refused
        A name is unknown, a folder has files that refemu did not write, two schemes tap a unit in one configuration,
        or one of `units` has no case of these kinds.
    """
    selftest.check()
    model_cases.forget()
    specs = [unit_names.configurations(spec) for spec in (unit_names.names() if units is None else units)]
    chosen = [unit for unit, _ in specs]
    wanted = _kinds(kinds, any(each is not None for each in (model, scheme, text, tokens, token_ids)))
    asked = ((unit, config) for unit, texts in specs for config in texts if configs is None or config in configs)
    sets_by_name = {parameters.set_name(unit, config): (unit, config) for unit, config in asked}
    targets = [(unit, config, Path(out) / name) for name, (unit, config) in sets_by_name.items()]
    for _, _, folder in targets:
        store.require_replaceable(folder)
    store.sweep(Path(out))
    schemes = [scheme] if scheme is None or isinstance(scheme, str) else list(scheme)
    runs = (
        [model_cases.source(model, chosen_scheme, text, tokens, token_ids=token_ids) for chosen_scheme in schemes]
        if "model" in wanted
        else []
    )
    taps = _tapped(runs, [unit.key for unit in chosen], progress)
    if units is not None:
        require_cases(chosen, targets, wanted, seed, taps, runs)
    classes = tuple(QUICK if complete is True else map(known, complete or ()))
    more = partial(complete_cases.added, classes=classes, prove=prove) if classes else None
    written = list(_written(targets, wanted, seed, taps, hex, bin, progress, more))
    if not written:
        raise Refused(f"generate: no cases of kind {', '.join(wanted)} for {', '.join(unit.name for unit in chosen)}")
    return _told(written, _elsewhere(targets, taps), _unreached(runs, chosen, taps))


def _kinds(kinds: Sequence[Kind] | None, model: bool) -> list[Kind]:
    """The kinds in their order; by default all, those of a model only if one is asked for."""
    for kind in kinds or ():
        require_choice(kind, KINDS, "generate", "kinds")
    return [kind for kind in KINDS if (kind in kinds if kinds else model or kind != "model")]


def _tapped(
    runs: Sequence[Source], names: Sequence[str], progress: Progress | None
) -> dict[tuple[str, str], tuple[Source, Sequence[Cases]]]:
    """The model cases of every unit and configuration, with their run."""
    tapped: dict[tuple[str, str], tuple[Source, Sequence[Cases]]] = {}
    for run in runs:
        for key, cases in model_cases.tapped(run, progress, names).items():
            if key in tapped:
                raise Refused(
                    f"generate: schemes {tapped[key][0].scheme} and {run.scheme} both tap {'-'.join(key)}; "
                    "give each scheme its own folder"
                )
            tapped[key] = run, cases
    return tapped


def _written(
    targets: Sequence[tuple[AnyUnit, str, Path]],
    kinds: Sequence[Kind],
    seed: int,
    taps: Mapping[tuple[str, str], tuple[Source, Sequence[Cases]]],
    hex: bool,
    bin: bool,
    progress: Progress | None,
    more: partial[list[Cases]] | None,
) -> Iterator[Summary]:
    for done, (unit, config, folder) in enumerate(targets):
        if progress:
            progress("sets", done, len(targets))
        run, tapped = taps.get((unit.key, config), (None, ()))
        left_out: list[str] = []
        blocks, generator = collect(unit, config, kinds, seed, tapped, left_out.append)
        if blocks and more and (added := more(unit, config, blocks, seed)):
            blocks += added
            generator["fault"] = {"function": COMPLETE, "seed": seed, **more.keywords}
        if blocks:
            source = model_cases.described(run) if run and tapped else {}
            summary = _write(unit, config, folder, blocks, hex, bin, generator=generator, seed=seed, source=source)
            yield dataclasses.replace(summary, left_out=tuple(left_out))
    if progress:
        progress("sets", len(targets), len(targets))


def _elsewhere(
    targets: Sequence[Target], taps: Mapping[tuple[str, str], tuple[Source, Sequence[Cases]]]
) -> dict[str, list[str]]:
    """Operations of a model that no set of the request has, by unit, and how to request them."""
    wanted = {(unit.key, config) for unit, config, _ in targets}
    lines: dict[str, list[str]] = {}
    for (unit, config), (run, cases) in taps.items():
        if (unit, config) not in wanted:
            line = f"{len(cases)} cases of {run.model} under {config}; --unit {unit}:{config} has them"
            lines.setdefault(unit, []).append(line)
    return lines


def _unreached(runs: Sequence[Source], asked: Sequence[AnyUnit], taps: Collection[tuple[str, str]]) -> list[str]:
    """A line for every unit that a scheme taps and a run does not reach."""
    reached = {unit for unit, _ in taps}
    return [
        f"no case of {unit}: {run.tokens} tokens of {run.model} under scheme {run.scheme} bring nothing to its ports"
        for run in runs
        for unit in sorted(model_cases.tapped_units(run, [unit.key for unit in asked]))
        if unit not in reached
    ]


def _told(written: Sequence[Summary], elsewhere: Mapping[str, list[str]], unreached: Sequence[str]) -> list[Summary]:
    """Add lines about missing cases to the summary of a unit's first set, or to the first of all."""
    first = {summary.unit: summary.name for summary in reversed(written)}
    lines: dict[str, list[str]] = {}
    for unit, some in elsewhere.items():
        lines.setdefault(first.get(unit, written[0].name), []).extend(some)
    lines.setdefault(written[0].name, []).extend(unreached)
    return [dataclasses.replace(summary, elsewhere=tuple(lines.get(summary.name, ()))) for summary in written]


def collect(
    unit: AnyUnit,
    config: str,
    kinds: Iterable[Kind],
    seed: int,
    tapped: Sequence[Cases],
    left_out: Callable[[str], object] | None = None,
) -> tuple[list[Cases], dict[str, Any]]:
    """The cases of the wanted kinds in their order, and the generator of each kind for the manifest.

    left_out: called with the reason why cases of the ready configurations do not fit this one.
    """
    blocks: list[Cases] = []
    generator: dict[str, Any] = {}
    for kind in kinds:
        cases = list(tapped) if kind == "model" else list(unit.stimuli(unit.config(config), kind, seed, left_out))
        if cases:
            function = model_cases.FUNCTION if kind == "model" else function_of(unit)
            generator[kind] = {"function": function, "seed": seed}
        blocks += cases
    return blocks, generator


def function_of(unit: AnyUnit) -> str:
    """Name of the function that makes a unit's cases, as in a manifest."""
    return f"{unit.name}.cases"


def _write(
    unit: AnyUnit, config: str, folder: Path, blocks: Sequence[Cases], hex: bool, bin: bool, **facts: Any
) -> Summary:
    manifest, arrays = build.build(unit, config, blocks, **facts)
    files = sets.render(manifest, arrays, hex, bin)
    sealed = manifests.parse(files[sets.MANIFEST], str(folder))
    kept = _kept_versions(folder, sealed)
    if kept:
        sealed = {**sealed, **kept}
        files[sets.MANIFEST] = manifests.canonical(sealed)
    store.replace(folder, files)
    kinds = {kind: rows for kind in get_args(Kind) if (rows := _rows(sealed, kind))}
    return Summary(
        sealed["name"],
        unit.key,
        config,
        str(folder),
        sealed["rows"],
        _count(sealed),
        kinds,
        len(b"".join(files.values())),
        sealed["self_sha256"],
        sealed["refemu_version"],
    )


def _kept_versions(folder: Path, sealed: Mapping[str, Any]) -> dict[str, str]:
    """The releases that last changed the set, from its recorded manifest if all else is equal."""
    path = folder / sets.MANIFEST
    try:
        old = manifests.parse(path.read_bytes(), str(path)) if path.is_file() else {}
    except Refused:
        return {}
    if old.get("self_sha256") != sealed["self_sha256"]:
        return {}
    return {name: old[name] for name in ("refemu_version", "distribution_version") if name in old}


def _rows(manifest: Mapping[str, Any], kind: Kind) -> int:
    rows = 0
    for entry in manifest["cases"]:
        rows += entry["cases"] * entry["rows"] if entry["kind"] == kind else 0
    return rows


def _count(manifest: Mapping[str, Any]) -> int:
    count = 0
    for entry in manifest["cases"]:
        count += entry["cases"]
    return count


def require_cases(
    units: Sequence[AnyUnit],
    targets: Sequence[Target],
    kinds: Sequence[Kind],
    seed: int,
    taps: Collection[tuple[str, str]],
    runs: Sequence[Source],
) -> None:
    """Require a case for each unit. Refused: a line for each unit without one, with the reason.

    taps: pairs of unit and configuration that a model's run reached. runs: the runs of models.
    """
    served = {
        unit.key for unit, config, _ in targets if (unit.key, config) in taps or _has_cases(unit, config, kinds, seed)
    }
    missing = {unit.key: unit for unit in units if unit.key not in served}
    if not missing:
        return
    offered = {unit.key for unit, _, _ in targets}
    lines = [
        f"{name}: {_why(unit, kinds, runs, taps) if name in offered else _no_configuration(unit)}"
        for name, unit in missing.items()
    ]
    count = len({unit.key for unit in units})
    raise Refused(
        f"generate: units: each must have cases, got none for {len(missing)} of {count}; nothing was written:", *lines
    )


def _has_cases(unit: AnyUnit, config: str, kinds: Sequence[Kind], seed: int) -> bool:
    """Whether there is a case of a kind other than "model"; only the first is made."""
    return any(True for kind in kinds if kind != "model" for _ in unit.stimuli(unit.config(config), kind, seed))


def _no_configuration(unit: AnyUnit) -> str:
    return f"none of its configurations is requested: {', '.join(unit.configs)}"


def _why(unit: AnyUnit, kinds: Sequence[Kind], runs: Sequence[Source], taps: Collection[tuple[str, str]]) -> str:
    reasons = [f"no cases of kind {', '.join(kinds)}"]
    for run in runs:
        if unit.name in model_cases.tapped_units(run):
            offered = ", ".join(sorted({config for name, config in taps if name == unit.name}))
            reasons.append(
                f"{run.tokens} tokens of {run.model} under scheme {run.scheme} bring "
                + (f"cases to {offered} only" if offered else "nothing to its ports")
            )
        else:
            reasons.append(f"scheme {run.scheme} does not tap it")
    return "; ".join(reasons)
