"""A study as a function: its measurements, then typed tables."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.models.backend import Jit
from refemu.models.entry import calibration_tokens
from refemu.models.model import Model
from refemu.models.schemes.scheme import CalibrationTokens, Progress, silent
from refemu.models.scores.score import decoder, token_ids
from refemu.studies import steps
from refemu.studies.evaluation import Setting
from refemu.studies.output.table import Table
from refemu.studies.results import ResultStore


@dataclass(frozen=True)
class Cut:
    """How a study cuts its text by default."""

    windows: int
    win: int
    prefill: int = 0


#: by the name of the study, as on the command line
CUTS = {
    "olive": Cut(8, 128),
    "kllm": Cut(4, 64),
    "harmonia": Cut(8, 256),
    "leankv": Cut(4, 576, 512),
    "mix": Cut(4, 192, 128),
}


@dataclass(frozen=True)
class Study:
    """The tables of a study."""

    tables: tuple[Table, ...]  #: tables with typed columns, as the command prints them
    measured: int  #: measurements made now
    cached: int  #: measurements found from before


def study(
    name: str,
    model: Model | str = "smollm2-135m",
    text: str | Path | None = None,
    ids: Sequence[int] | None = None,
    parts: Sequence[str] = (),
    schemes: Sequence[str] = (),
    windows: int | None = None,
    win: int | None = None,
    prefill: int | None = None,
    calibration: CalibrationTokens | str | Path | None = None,
    progress: Progress = silent,
) -> Study:
    """Repeat the experiments of a paper on a decoder, as `refemu study NAME` does; measurements are saved.

    Parameters
    ----------
    name : str
        "olive", "kllm", "harmonia", "leankv" or "mix".
    model : Model or str
        Decoder, or a name that `models.load` knows.
    text : str or Path, optional
        A text, or the path of a file or folder of texts; by default the novel that refemu ships.
    ids : sequence of int, optional
        Token ids in place of a text.
    parts : sequence of str
        Parts to measure, as for `--only`; by default all.
    schemes : sequence of str
        Schemes to measure in place of parts.
    windows, win, prefill : int, optional
        Number of windows, tokens of a window, tokens of a window's prompt; by default as on the command line.
    calibration : sequence of int, str or Path, optional
        As for `models.prepare`.
    progress : callable
        Called as progress(what, done, total).

    Returns
    -------
    Study
        Tables with typed columns.

    Raises
    ------
    Refused
        An unknown study or part, parts and schemes together, schemes for a study without, an encoder, or a text that is
        too short.
    """
    require_choice(name, CUTS, "study", "name")
    loaded, cut = decoder(model), CUTS[name]
    size = cut.win if win is None else win
    count = require_int(cut.windows if windows is None else windows, 1, 1 << 32, f"study {name}", "windows")
    read = tuple(token_ids(loaded, text, ids).tolist()[: count * size])
    setting = Setting(loaded, read, size, cut.prefill if prefill is None else prefill)
    _ = setting.windows  # raises Refused if there is none
    experiments = importlib.import_module(f"refemu.studies.{name}.experiments")
    figures = importlib.import_module(f"refemu.studies.{name}.figures")
    for part in parts:
        require_choice(part, experiments.PARTS, f"study {name}", "part")
    options = _options(name, parts, schemes)
    chosen = () if schemes else tuple(parts or experiments.PARTS)
    tokens: Any = calibration_tokens(loaded, calibration)  # of one text: an encoder has several
    bench = steps.Bench(loaded, Jit(), ResultStore(name), tokens)
    outcome = steps.run(experiments.steps(setting, chosen, **options), bench, progress, f"study {name}")
    tables = figures.tables(setting, outcome.results, chosen, **options)
    return Study(tuple(tables), outcome.measured, outcome.found)


def _options(name: str, parts: Sequence[str], schemes: Sequence[str]) -> dict[str, Any]:
    """The schemes of a study that takes a list of them."""
    if not schemes:
        return {}
    if parts or name == "olive":
        raise Refused(f"study {name}: schemes must be left out for {'parts' if parts else 'this study'}")
    return {"listed": tuple(schemes)}
