"""The table of `refemu study accuracy` [olive Tbl. 6-9]."""

import math
from collections.abc import Sequence

from refemu.models.model import Model
from refemu.studies import evaluation
from refemu.studies.accuracy import Row
from refemu.studies.output.table import Column, Table

COLUMNS = (
    Column("name", "text", "", "number formats"),
    Column("scheme", "text", "scheme", "as `--scheme` takes it; empty for plain float32"),
    Column("accuracy", "number", "probe", "sentences that the probe classifies correctly", "%", 1),
    Column("accuracy_error", "number", "±", "its standard error over the sentences", "%", 1),
    Column("agreement", "number", "as fp32", "sentences with the same class as from their fp32 embedding", "%", 1),
    Column("agreement_error", "number", "±", "its standard error over the sentences", "%", 1),
    Column("error", "number", "error", "mean relative L2 error of the embeddings against fp32", "", 4),
    Column("sentences", "integer", "sentences", "number of test sentences"),
)


def table(model: Model, rows: Sequence[Row], sentences: int, data: str) -> Table:
    """The rows of a probe. data: name of the sentences."""
    title = f"a probe on embeddings of {evaluation.label(model)}: {sentences} sentences of {data} [olive Tbl. 6-9]"
    listed = tuple(
        (
            row.name,
            row.scheme,
            100 * row.accuracy,
            _error(row.accuracy, sentences),
            100 * row.agreement,
            _error(row.agreement, sentences),
            row.error,
            sentences,
        )
        for row in rows
    )
    return Table("accuracy", title, COLUMNS, listed)


def _error(share: float, count: int) -> float | None:
    """Standard error of a share, in percent."""
    return 100 * math.sqrt(share * (1 - share) / (count - 1)) if count > 1 else None
