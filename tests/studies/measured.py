"""The results of a study that is measured at once."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from refemu.models.backend import Jit
from refemu.studies import steps
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import experiments as leankv
from refemu.studies.leankv.memory import Row
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench, Step


def measured(listed: Sequence[Step], setting: Setting) -> dict[str, Any]:
    """The results of steps by name."""
    with TemporaryDirectory() as folder:
        return steps.run(listed, Bench(setting.model, Jit(), ResultStore("olive", Path(folder)))).results


def leankv_rows(setting: Setting, names: Sequence[str]) -> list[Row]:
    """The rows of schemes, an equal budget being that of the row before."""
    results = measured(leankv.steps(setting, (), names), setting)
    return [leankv.row(results, *each) for each in leankv.placed(names)]
