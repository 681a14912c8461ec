"""Experiments of the papers on models: measurements, saved results, tables, figures.

The folder of a paper has `experiments`, the steps of its study, and `figures`, its tables and plots.

found = studies.study("mix", "tiny", schemes=["fp16", "olive-4"], windows=2, win=32, prefill=16)
found.tables[0].rows                                    # values in the order of found.tables[0].columns
"""

from refemu.studies.output.table import Column, Table
from refemu.studies.run import Study, study

__all__ = ["Column", "Study", "Table", "study"]

NAMES = ("olive", "kllm", "harmonia", "leankv", "mix")  #: the folders
