"""Experiments of the papers on models: measurements, saved results, tables, figures.

The folder of a paper has `experiments`, the steps of its study, and `figures`, its tables and plots.
"""

NAMES = ("olive", "kllm", "harmonia", "leankv", "mix")  #: the folders
