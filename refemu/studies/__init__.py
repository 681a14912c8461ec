"""Experiments of the papers on models: what a study measures, saved results, tables, figures.

A folder per study of a paper holds `experiments`, its steps, and `figures`, its tables and plots.
"""

NAMES = ("olive", "kllm", "harmonia", "leankv", "mix")  #: those folders
