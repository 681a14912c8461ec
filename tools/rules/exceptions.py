"""Where a forbidden construct is right: file of refemu, construct, and reason."""

REPORT = "a number in a report, never a vector"
PLAIN = "plain float32, the reference of a report"
SECONDS = "seconds of a report, never a vector"
ANY_UNIT = "every unit has different inputs and registers"
ANY_MANAGER = "a device is any object with the methods of the golden manager"

#: files of formats and units that hold no mechanism of a paper
SHARED = (
    *(f"formats/{name}" for name in ("code_format", "field", "html", "config_text")),
    *(
        f"units/{name}"
        for name in ("variant", "cycle_accurate", "comments", "config", "descriptor_rules", "declaration", "derivation")
    ),
    *(
        f"units/{name}"
        for name in ("docstrings", "events", "faults", "parameters", "ports", "state_text", "value_text")
    ),
    *(f"units/{name}" for name in ("stepping", "unit", "compiled/bounds", "compiled/lifter", "kernels/cycle_accurate")),
    *(f"units/compiled/{name}" for name in ("form", "placement", "ranges", "scalars")),
    "units/kernels/packing",
)
#: modules that tests elsewhere cover
ELSEWHERE = {
    **{f"cli/options/{name}": "cli/test_arguments" for name in ("common", "devices", "models", "sets", "studies")},
    "cli/unit_rows": "cli/test_list",
    "harness/adapter": "conformance/test_harness",
    **{f"models/machine/{name}": "models/machine/test_totals" for name in ("system", "work")},
    "models/machine/options": "cli/options/test_accelerator",
    **{
        f"models/schemes/kllm/machine/{name}": "models/schemes/kllm/test_shape"
        for name in ("attended", "options", "records", "works")
    },
    "models/schemes/leankv/compiled/draws": "models/schemes/leankv/serving/test_simulation",
    "models/schemes/kllm/compiled/lane_times": "models/schemes/kllm/machine/test_filled",
    "models/schemes/kllm/compiled/heads": "models/schemes/kllm/compiled/test_product",
    "models/schemes/kllm/compiled/token": "models/schemes/kllm/test_block",
    "models/schemes/kllm/compiled/vector": "models/schemes/kllm/compiled/test_packed",
    **{
        f"models/schemes/leankv/serving/{name}": "models/schemes/leankv/serving/test_simulation"
        for name in ("build", "by_model", "by_shape", "gpu", "pages", "report", "running", "setting")
    },
    **{
        f"models/schemes/leankv/serving/{name}": "models/schemes/leankv/serving/test_places"
        for name in ("invariants", "saved")
    },
    "models/schemes/leankv/server": "models/schemes/leankv/serving/test_simulation",
    **{
        f"models/schemes/leankv/serving/{name}": "models/schemes/leankv/serving/test_simulation"
        for name in ("clock", "shares", "totals")
    },
    "models/schemes/harmonia/compiled/flow": "models/schemes/harmonia/machine/test_flow",
    "models/schemes/harmonia/machine/sizes": "models/schemes/harmonia/machine/test_work",
    **{
        f"models/schemes/harmonia/{name}": "models/schemes/harmonia/test_shape"
        for name in ("machine/options", "machine/products", "widths")
    },
    **{f"testing/{name}": "testing/test_plugin" for name in ("blocks", "save")},
    **{f"prove/{name}": "prove/test_lift" for name in ("sources", "selfcheck")},
    **{f"prove/{name}": "prove/test_interpreter" for name in ("calls", "frames", "merging", "narrowing")},
    **{f"prove/{name}": "prove/test_library" for name in ("forms", "event_forms", "number_forms")},
    **{f"prove/{name}": "prove/test_equivalence" for name in ("solver", "smtlib")},
    **{f"prove/{name}": "cli/designs/test_prove" for name in ("design", "sequential")},
    "prove/handshake": "cli/designs/test_prove_timing",
    **{f"prove/floats/{name}": "prove/floats/test_lowering" for name in ("narrow", "number", "operations", "ranges")},
    **{f"prove/inner/{name}": "prove/inner/test_sweeping" for name in ("comparison", "shared")},
    **{
        f"golden/proofs/{name}": "cli/designs/test_prove" for name in ("prove", "counterexample", "decided", "question")
    },
    "testing/types": "testing/test_strategies",
    **{
        f"models/schemes/olive/{name}": "models/schemes/olive/test_shape"
        for name in ("array_options", "array_works", "designs")
    },
    **{f"models/schemes/{name}/scheme": "models/schemes/test_kind" for name in ("fp16", "harmonia", "kllm", "leankv")},
    **{f"models/schemes/{name}/scheme": "models/schemes/test_kind" for name in ("mix", "olive")},
}

LIMIT = "the time limit of a search or a solver, never a bit"

EXCEPTIONS = {
    **{
        (f"prove/{name}.py", "module time"): LIMIT
        for name in (
            *("equivalence", "handshake", "lift", "sequential", "solver", "compiled/derived"),
            *(f"inner/{name}" for name in ("comparison", "shared", "sweeping")),
        )
    },
    ("golden/proofs/prove.py", "module time"): SECONDS,
    ("golden/files/origin.py", "module time"): "whether a source file changed too recently, never a vector",
    ("arith/casts.py", "cast to float16"): "the one place that casts",
    ("arith/jit/__init__.py", "njit"): "the one place that compiles",
    ("arith/jit/parts.py", "njit"): "its parts",
    ("arith/jit/tiers.py", "module time"): "which of two forms with the same bits runs",
    ("arith/rotary.py", "operator **"): "signs of rational coefficients, in Python integers",
    ("arith/integers.py", "operator @"): "BLAS on integers below 2**24 or 2**53: every partial sum is exact",
    ("units/declaration.py", "hash()"): "whether a value has a hash, not which",
    ("formats/kllm/compiled/kmeans.py", "ternary in a kernel loop"): "registers chosen by comparisons, of integers",
    ("models/scores/perplexity.py", "library function exp"): REPORT,
    ("models/scores/perplexity.py", "library function log"): REPORT,
    ("models/scores/uncertainty.py", "library function exp"): REPORT,
    ("models/scores/uncertainty.py", "library function expm1"): REPORT,
    ("models/scores/score.py", "library function exp"): REPORT,
    ("models/sequences/generation.py", "module time"): SECONDS,
    ("models/schemes/leankv/serving/totals.py", "reduction mean"): REPORT,
    ("studies/evaluation.py", "library function exp"): REPORT,
    ("studies/output/plot.py", "operator **"): "the limits of an axis, never a vector",
    ("studies/output/scores.py", "library function exp"): REPORT,
    ("studies/accuracy.py", "operator @"): "fits the probe, a number in a report, never a vector",
    ("studies/accuracy.py", "linalg of a library"): "fits the probe, a number in a report, never a vector",
    ("models/encoder/plain_float.py", "operator @"): PLAIN,
    ("models/encoder/plain_float.py", "reduction mean"): PLAIN,
    ("models/encoder/plain_float.py", "reduction sum"): PLAIN,
    ("models/encoder/plain_float.py", "library function exp"): PLAIN,
    ("models/encoder/plain_float.py", "library function erf"): PLAIN,
    ("models/schemes/harmonia/search.py", "library function exp2"): "points that a search visits; its result is data",
    ("models/schemes/harmonia/search.py", "library function log2"): "start of a search; its result is data",
    ("studies/leankv/figures.py", "library function log10"): REPORT,
    ("studies/steps.py", "module time"): "how long a study will take, never a vector",
    ("models/weights/digests.py", "module time"): "whether a file changed too recently to be cached, never a vector",
    ("models/machine/runner.py", "module time"): "seconds of preparation in a report, never a vector",
    ("cli/progress.py", "module time"): "lines of progress, never a vector",
    ("models/schemes/leankv/serving/saved.py", "module time"): "when a state is saved, never what it is",
    ("cli/unit_rows.py", "module time"): "whether a source changed too recently for that, never a vector",
    ("cli/grade.py", "module time"): SECONDS,
    ("golden/grade/reached_lines.py", "module time"): "how long a mutant may run before it counts as endless",
    ("golden/grade/decider.py", "module time"): "how long a solver may take for a fault",
    ("golden/grade/invariants.py", "module time"): "how long a solver may take for the registers",
    ("golden/serve/server.py", "module time"): "how long to poll for a request before sleeping",
    ("golden/serve/predictor.py", "module time"): "which of two equal forms is faster, never a bit",
    ("golden/explain/unit_runs.py", "module time"): "the sample size for a slow device, never a vector",
    ("golden/explain/search.py", "module time"): "how long slow devices are tried for an explanation, never a vector",
    ("golden/explain/diagnosis.py", "module time"): "how many rows of a large set are covered, as the report says",
    ("arith/dot.py", "dot says Any"): "`start` has the type of the accumulator",
    ("arith/jit/__init__.py", "kernel says Any"): "numba has no types",
    ("arith/jit/__init__.py", "callee says Any"): "numba has no types",
    ("arith/jit/__init__.py", "inlined says Any"): "numba has no types",
    ("units/config.py", "Config.__init__ says Any"): "parameters of any unit",
    ("units/declaration.py", "Sequential.steps says Any"): ANY_UNIT,
    **{
        ("units/stepping.py", f"Stepped.{name} says Any"): ANY_UNIT
        for name in ("reset", "latched", "changed", "validate_event", "validated", "steps")
    },
    (
        "units/leankv/paged_attention/arithmetic.py",
        "Pages.of says Any",
    ): "constants of a UnifiedPage, which checks them",
    ("models/schemes/scheme.py", "Prepared.attention says Any"): "a scheme reads the cache that it made",
    **{
        ("testing/machines.py", f"PageManagerMachine.{name} says Any"): ANY_MANAGER for name in ("make", "call", "runs")
    },
    ("arith/kernels/groups.py", "arith names a paper"): "a kernel of the papers that group elements",
    **{(f"{name}.py", "no citation of a paper"): "shared by papers" for name in SHARED},
    **{(f"{name}.py", "no test module"): f"tests/{place}.py covers it" for name, place in ELSEWHERE.items()},
}
