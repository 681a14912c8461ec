"""`refemu study`: repeat the experiments of a paper, and write tables, JSON, CSV and plots."""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import source
from refemu.cli.output import counted, json_text, print_json, print_table, table_lines
from refemu.cli.progress import duration, progress

WIDTH = 200  #: columns of a table in a file


def run(arguments: argparse.Namespace) -> int:
    """Run one study on a model and print its tables; return 0."""
    if arguments.plot:
        from refemu import plotting

        plotting.require(arguments.plot)
    _require_places(arguments)
    from refemu import models

    model = models.load(arguments.model)
    tables, drawn, setting, counts = (
        _accuracy(model, arguments) if arguments.name == "accuracy" else _paper(model, arguments)
    )
    from refemu.studies.output.document import document

    origins = source.read_digests(arguments)
    whole = document(
        arguments.name, setting, arguments.command, source.named(arguments), tables, drawn, counts, origins
    )
    if arguments.json:
        print_json("study", whole)
    else:
        for table in tables:
            print_table(table.title, table.headings, table.cells(), table.numeric)
        if arguments.name == "accuracy":
            print(_MEANING)
    _keep(arguments, whole, tables, drawn)
    return 0


def _require_places(arguments: argparse.Namespace) -> None:
    """Raise Refused before any measurement if an output cannot be written."""
    for option, word in (("--csv", arguments.csv), ("-o", arguments.out)):
        if word and not _may_be_folder(Path(word)):
            raise Refused(f"study: {option} must be a writable folder, got {word}")
    if arguments.plot and (Path(arguments.plot).is_dir() or not _may_be_folder(Path(arguments.plot).parent)):
        raise Refused(f"study: --plot must be a file in a writable folder, got {arguments.plot}")


def _may_be_folder(path: Path) -> bool:
    """Whether a path is a writable folder or can become one; tries a temporary file."""
    nearest = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return True
    except OSError:
        return False


def _paper(model: Any, arguments: argparse.Namespace) -> tuple[list[Any], list[Any], Any, tuple[int, int]]:
    """Tables, figures, setting, and numbers of steps that were measured and cached."""
    from refemu.models.backend import Jit
    from refemu.models.entry import calibration_tokens
    from refemu.studies import evaluation, steps
    from refemu.studies.results import ResultStore

    experiments = importlib.import_module(f"refemu.studies.{arguments.name}.experiments")
    figures = importlib.import_module(f"refemu.studies.{arguments.name}.figures")
    setting = _setting(model, arguments)
    parts, names = _parts(setting, arguments, experiments, figures)
    options = _options(arguments)
    calibration: Any = calibration_tokens(model, source.calibration_ids(model, arguments))
    bench = steps.Bench(model, Jit(), ResultStore(arguments.name, notice=_notice), calibration)
    listed = experiments.steps(setting, parts, **options)
    source.note_unused(calibration, sorted({step.scheme for step in listed if step.scheme}))
    outcome = _measured(listed, bench, arguments.name)
    for scheme in evaluation.unchanged(outcome.results):
        _notice(f"note: {scheme} has the loss of fp16 in all bits in every window: it changed nothing")
    tables = figures.tables(setting, outcome.results, parts, **options)
    if not (arguments.plot or arguments.out):
        names = []
    options.pop("listed", None)
    drawn = figures.figures(setting, outcome.results, names, **options)
    return tables, drawn, setting, (outcome.measured, outcome.found)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Options that only some studies have."""
    options: dict[str, Any] = {}
    if "schemes" in arguments:
        options["listed"] = tuple(arguments.schemes or ())
    if "calibration_tokens" in arguments:
        options["tokens"] = arguments.calibration_tokens
    return options


def _setting(model: Any, arguments: argparse.Namespace) -> Any:
    """The model and the windows of the text."""
    from refemu.studies.evaluation import Setting

    prefill = getattr(arguments, "prefill", 0)
    limit = arguments.windows * arguments.win if arguments.tokens is None else arguments.tokens
    setting = Setting(model, (), arguments.win, prefill)
    if setting.is_encoder:
        texts = _texts(model, arguments, limit)
        return Setting(model, tuple(token for ids in texts for token in ids), arguments.win, prefill, texts)
    setting = Setting(model, tuple(source.ids(model, arguments)[:limit]), arguments.win, prefill)
    if limit:
        _ = setting.windows  # raises Refused if there is none
    return setting


def _texts(model: Any, arguments: argparse.Namespace, limit: int) -> tuple[tuple[int, ...], ...]:
    """The input of an encoder: paragraphs of a text, or windows of token ids."""
    from refemu.studies import evaluation

    listed = source.listed_ids(model, arguments)
    if listed is None:
        return evaluation.paragraphs(model, source.remembered(arguments), limit, arguments.win)
    size = min(arguments.win, model.config.context)
    return tuple(tuple(listed[at : at + size]) for at in range(0, min(limit, len(listed)), size))


def _parts(setting: Any, arguments: argparse.Namespace, experiments: Any, figures: Any) -> tuple[list[str], list[str]]:
    """Parts to measure, and figures to draw."""
    known = list(getattr(experiments, "ENCODER_PARTS", ()) if setting.is_encoder else ()) or list(experiments.PARTS)
    if getattr(arguments, "schemes", None):
        if arguments.only or arguments.figure or arguments.plot:
            raise Refused("study: --schemes prints one table: leave out --only, --figure and --plot")
        return [], []
    if not setting.ids:
        known = [part for part in known if part == "weights"]
    also: Mapping[str, Sequence[str]] = getattr(figures, "ALSO", {})
    needs = {name: (part, *also.get(name, ())) for name, part in figures.FIGURES.items()}
    needs = {name: parts for name, parts in needs.items() if set(parts) <= set(known)}
    names = _chosen(arguments.figure, list(needs), "figure") or list(needs)
    parts = _chosen(arguments.only, known, "only")
    if arguments.figure:
        known = [part for part in known if any(part in needs[name] for name in names)]
        if not set(parts) <= set(known):
            drawn = f"--figure {arguments.figure} needs --only {','.join(known)}"
            raise Refused(f"study: {drawn}, got {arguments.only}")
    parts = parts or known
    names = [name for name in names if set(needs[name]) <= set(parts)]
    if arguments.plot and not names:
        raise Refused(f"study: none of the parts {', '.join(parts)} has a figure to plot")
    return parts, names


def _chosen(text: str | None, known: list[str], option: str) -> list[str]:
    """The words of an option, in the order of `known`. Refused: a word that is not in it."""
    from refemu.arith.checks import require_choice

    asked = [] if text is None else text.split(",")
    for word in asked:
        require_choice(word, known, "study", f"--{option}")
    return [word for word in known if word in asked]


def _measured(listed: Sequence[Any], bench: Any, name: str) -> Any:
    """Print an estimate of the time, then run the steps; an interrupted study can be resumed."""
    from refemu.studies import steps

    _announce(listed, bench, name)
    try:
        with progress() as report:
            return steps.run(listed, bench, report, f"study {name}")
    except KeyboardInterrupt:
        _notice("finished measurements are saved; run the same command to resume")
        raise


def _announce(listed: Sequence[Any], bench: Any, name: str) -> None:
    """Print an estimate of the time."""
    from refemu.studies import evaluation, steps

    todo, count = steps.missing(listed, bench), len({step.name for step in listed})
    kept = f"; {count - len(todo)} of {count} results cached" if len(todo) < count else ""
    about = f"study {name} of {evaluation.label(bench.model)}"
    if not todo:
        _notice(f"{about}: nothing to measure, {counted(count, 'result')} cached")
        return
    seconds = steps.seconds(steps.estimate(list(todo.values()), bench.model), bench.model, bench.backend)
    _notice(f"{about}: {counted(len(todo), 'measurement')}, about {duration(seconds)}{kept}")


def _notice(text: str) -> None:
    print(f"refemu: {text}", file=sys.stderr)


def _accuracy(model: Any, arguments: argparse.Namespace) -> tuple[list[Any], list[Any], Any, tuple[int, int]]:
    """Evaluate a classifier on the embeddings of rated sentences under every scheme [olive Tbl. 6-9]."""
    from refemu.models.backend import Jit
    from refemu.models.fetch import store
    from refemu.studies import accuracy, steps
    from refemu.studies.evaluation import Setting
    from refemu.studies.output import accuracy_table
    from refemu.studies.results import ResultStore

    path = arguments.data or store.require("film-reviews")
    listed = accuracy.steps(model, accuracy.read(path), arguments.sentences)
    bench = steps.Bench(model, Jit(), ResultStore("olive", notice=_notice))
    outcome = _measured(listed, bench, "accuracy")
    rows = [accuracy.Row(**outcome.results[step.name]) for step in listed]
    table = accuracy_table.table(model, rows, arguments.sentences, str(arguments.data or "film-reviews"))
    return [table], [], Setting(model, (), 0), (outcome.measured, outcome.found)


def _keep(arguments: argparse.Namespace, whole: Mapping[str, Any], tables: Sequence[Any], drawn: Sequence[Any]) -> None:
    """Write the files of --csv, --plot and -o, each one atomically."""
    if arguments.csv:
        _write_csv(Path(arguments.csv), whole, tables)
    if arguments.plot:
        from refemu.studies.output import plot

        _write(Path(arguments.plot), plot.draw(drawn, Path(arguments.plot).suffix[1:]))
    if arguments.out:
        _keep_all(Path(arguments.out), whole, tables, drawn)


def _keep_all(folder: Path, whole: Mapping[str, Any], tables: Sequence[Any], drawn: Sequence[Any]) -> None:
    _write(folder / "study.json", (json_text(whole) + "\n").encode())
    lines = [whole["command"], ""]
    for table in tables:
        lines += [table.title, *table_lines(table.headings, table.cells(), table.numeric, WIDTH), ""]
    _write_csv(folder, whole, tables)
    _write(folder / "tables.txt", ("\n".join(lines) + "\n").encode())
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        _notice(f"{folder}: no plots without matplotlib; run: pip install matplotlib")
        return
    from refemu.studies.output import plot

    for figure in drawn:
        for form in ("svg", "png"):
            _write(folder / f"{figure.name}.{form}", plot.draw([figure], form))


def _write_csv(folder: Path, whole: Mapping[str, Any], tables: Sequence[Any]) -> None:
    model = whole["model"]
    for table in tables:
        _write(folder / f"{table.name}.csv", table.csv(model["name"], model["seeded"]).encode())


def _write(path: Path, data: bytes) -> None:
    from refemu.models.schemes import offline_file

    path.parent.mkdir(parents=True, exist_ok=True)
    offline_file.save(path, data)


_MEANING = """\
probe      percent of the sentences that the classifier rates as people do. It is a ridge regression, fitted to the
           fp32 embeddings of twice as many other sentences and applied to the embeddings of every scheme
as fp32    percent of the sentences that get the same rating as with fp32 embeddings
error      mean of |embedding - fp32 embedding| / |fp32 embedding| over the sentences, L2 norms
fp32       float32 in NumPy; all other rows use refemu's exact arithmetic. Rows without outliers saturate"""
