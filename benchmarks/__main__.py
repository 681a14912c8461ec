"""Run benchmark rows on one pinned thread and print ratios: `python -m benchmarks [ID ...] [--json FILE] [--quick]`."""

import os
import sys

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is imported
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse  # noqa: E402
import json  # noqa: E402

from benchmarks import (  # noqa: E402
    arith,
    bfp,
    bfp_pe,
    formats,
    kllm,
    kmeans,
    leankv_formats,
    leankv_memory,
    model,
    orizuru,
    units,
    vectors,
)
from benchmarks.pairs import Row, context, report  # noqa: E402

MODULES = (arith, bfp, bfp_pe, formats, kllm, kmeans, leankv_formats, leankv_memory, model, orizuru, units, vectors)


def main() -> int:
    """Print the table as rows finish; exit code 1 if a row's results were wrong or no row matched."""
    options = argparse.ArgumentParser(prog="python -m benchmarks")
    options.add_argument("ids", nargs="*", metavar="ID", help="rows such as PERF-1; default all")
    options.add_argument("--json", metavar="FILE", help="append one JSON line per row")
    arguments = options.parse_args()
    rows: list[Row] = []
    for module in MODULES:
        for name, benchmark in module.ROWS.items():
            if not arguments.ids or name in arguments.ids:
                print(f"{name} ...", file=sys.stderr, flush=True)
                rows.extend(benchmark())
    print(report(rows))
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            file.writelines(json.dumps({**context(), **row.record()}) + "\n" for row in rows)
    return 0 if rows and all(row.checked for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
