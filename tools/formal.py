"""Proofs of CI: units lifted and self-checked, compiled forms and example designs proved, planted bugs of each refuted.

    python -m tools.formal [--bugs N] [DESIGN ...]   # exit code 1 if a proof or a refutation is missing
    python -m tools.formal --table [--seconds S] [--bugs N] [DESIGN ...]   # the table of docs/proofs.md
    python -m tools.formal --forms   # that of compiled forms

A prover that proves anything would pass the designs, so the bugs are the control.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from examples.rtl import bugs
from examples.rtl.benches import DESIGNS, HERE, Design
from examples.rtl.mutants import MUTANTS
from refemu import units
from refemu.golden.grade.every import Every
from refemu.golden.proofs import prove, question
from refemu.prove import lift, selfcheck, solver
from refemu.prove.compiled import derived, helpers, written
from refemu.prove.equivalence import Proof

#: designs that are proved in seconds
PROVED = (
    *("ovp_decoder-int4", "olive_mac-wrap", "olive_mac-saturate", "concat-a4", "concat-a3_qk", "prefix_sum-paper"),
    *("prefix_sum-odd", "bfp_aligner-paper", "fp2half-paper", "fp2half-saturate", "orizuru-n8", "orizuru16-leaves"),
    *("orizuru16-above", "olive_pe8-wrap", "index_counter-integer"),
)
#: units, or one configuration of a unit, whose terms are checked on golden cases and 10,000 drawn rows
LIFTED = (
    *("outlier_decoder", "flint_decoder", "ovp_encoder", "olive_pe8", "olive_edp", "olive_requant", "sub_pe"),
    *("index_product", "index_counter", "weighted_sum", "fp16_mac", "clustering", "bfp_accumulator", "significance"),
    *("bfp_pe", "bit_allocator", "score_quantizer", "index_norm", "olive_systolic:int4", "olive_systolic_clocked"),
    *("olive_edp_clocked", "free_page_list:small", "k_offset:small", "fdgf", "orizuru_clocked:n8", "pe_lane"),
)
#: units whose derived compiled form is proved equal to the readable text
COMPILED = (
    *("ovp_decoder", "flint_decoder", "outlier_decoder", "olive_mac", "olive_pe8", "sub_pe", "concat", "bfp_aligner"),
    *("ovp_encoder", "index_product", "clustering", "bfp_accumulator", "fp2half", "bit_allocator", "orizuru16"),
)
#: changes of the decoder of another style: a table, both handshakes, a dropped stall, a flag
FOREIGN_BUGS = (
    ("3'd5: abfloat = 6'o23", "3'd5: abfloat = 6'o22"),
    ("second_valid_q <= first_valid_q", "second_valid_q <= 1'b1"),
    ("= ~first_valid_q | second_ready", "= 1'b1"),
    ("~second_valid_q | m_axis_tready", "1'b1"),
    ("(first_q[7] | first_q[3])", "first_q[7]"),
)
#: configurations of units without registers whose hand-written compiled form is proved
WRITTEN = (
    *("prefix_sum:paper", "prefix_sum:odd", "fp16_mac:paper", "olive_edp:int4_int4", "olive_edp:int4_flint4"),
    *("olive_edp:flint4_int4", "olive_edp:flint4_flint4", "score_quantizer:fixed3", "olive_requant:int4"),
    *("olive_requant:flint4", "olive_requant:int8"),
)
#: those with so few legal inputs that all are tried
TRIED = ("functional:exp", "functional:sqrt", "functional:recip")
#: why a compiled form has no proof -> units or configurations
OPEN = {
    "a loop over events": "bfp_converter bfp_pe bfp_pe_array_clocked fdgf free_page_list "
    "harmonia_core_clocked index_counter k_offset kv_compressor layer_step mmaovp_clocked olive_edp_clocked "
    "olive_systolic_clocked orizuru_clocked page_manager page_table pe_lane v_grouper",
    "the unit has no terms": "bfp_pe_array harmonia_core kllm_chip orizuru_passes paged_attention prompt_compressor",
    "not tried, too large": "generation_compressor index_function index_matmul mmaovp page_reader "
    "streaming_significance",
    "a function of NumPy": "functional:softmax functional:softmax32 index_norm kv_quantizer significance",
    "a kernel without terms": "olive_systolic orizuru weighted_sum",
    "solver: `overflow`": "olive_edp:int8_int8",
    "solver: `d`, `overflow`": "olive_edp:int8_int8_saturate",
    "solver: `pair`, `grid`": "olive_requant:int8_repo",
    "solver: `q`, `scale`": "score_quantizer:fold4 score_quantizer:fold4_exact score_quantizer:max8",
    "solver: `y`, `overflow`": "fp16_mac:fma",
    "solver: all outputs": "fp16_mac:ieee fp16_mac:ieee_separate",
}
SECONDS = 60.0


def proof(design: Design, sources: list[str], seconds: float = SECONDS, map_: str = "") -> Proof:
    """The proof of a design."""
    asked = question.Question(units.find(design.unit), design.config, sources, map=map_, seconds=seconds)
    return prove.prove(asked).proof


def refuted(design: Design, count: int, seconds: float) -> list[str]:
    """What `prove` says of a design with each of its first planted bugs."""
    answer: list[str] = []
    for mutant in [each for each in MUTANTS if each.design == design.set][:count]:
        with tempfile.TemporaryDirectory() as folder:
            answer.append(
                proof(design, [str(path) for path in bugs.one(design, mutant, Path(folder))], seconds).outcome
            )
    return answer


def foreign(seconds: float) -> tuple[str, list[str]]:
    """What `prove` says of the decoder of another style, and of its bugs."""
    design, map_ = Design("ovp_decoder", "int4", ()), str(HERE / "foreign" / "axis_decoder.json")
    source = HERE / "foreign" / "axis_decoder.v"
    says: list[str] = []
    for old, new in FOREIGN_BUGS:
        with tempfile.TemporaryDirectory() as folder:
            wrong = Path(folder) / source.name
            wrong.write_text(source.read_text().replace(old, new))
            says.append(proof(design, [str(wrong)], seconds, map_).outcome)
    return proof(design, [str(source)], seconds, map_).outcome, says


def tried(spec: str) -> tuple[int, bool]:
    """Number of legal inputs of a unit without registers, and whether both forms have the same results."""
    unit, config = units.choose(spec)
    every = Every(unit, unit.config(config))
    forms = [vars(unit.evaluate(every.config, every.inputs, jit=jit)) for jit in (True, False)]
    names = [port.name for port in (*unit.ports(every.config).outputs, *unit.ports(every.config).state)]
    return every.count, all(forms[0][name].tobytes() == forms[1][name].tobytes() for name in names)


def forms() -> list[tuple[str, str]]:
    """Units or configurations, and what is known of their compiled forms."""
    answer = [(spec, "derived, proved") for spec in COMPILED] + [(spec, "hand-written, proved") for spec in WRITTEN]
    answer += [(spec, "all inputs tried") for spec in TRIED]
    return answer + [(spec, f"open: {why}") for why, specs in OPEN.items() for spec in specs.split()]


def compiled() -> Iterator[tuple[str, bool]]:
    """A line for each compiled form and each of their helpers, and whether it is proved."""
    for name in COMPILED:
        unit = units.find(name)
        outcomes = {derived.compiled_equals(lift.lift(unit, each), SECONDS).outcome for each in unit.configs.values()}
        yield f"{name}: compiled form {', '.join(outcomes)}", outcomes == {"proved"}
    for spec in WRITTEN:
        unit, config = units.choose(spec)
        outcome = written.written_equals(lift.lift(unit, unit.configs[config]), 2 * SECONDS).outcome
        yield f"{spec}: hand-written compiled form {outcome}", outcome == "proved"
    for spec in TRIED:
        count, equal = tried(spec)
        yield f"{spec}: hand-written compiled form on all {count:,} legal inputs", equal
    for part in helpers.proofs(SECONDS):
        yield f"{part.what}: helper of compiled forms {part.outcome}", part.outcome == "proved"


def row(design: Design, count: int, seconds: float) -> str:
    """The row of a design in the table."""
    began = time.process_time()
    try:
        found = proof(design, [str(HERE / source) for source in design.sources], seconds)
    except (lift.NotLifted, selfcheck.Disagrees) as error:
        return f"| `{design.set}` | no terms: {lift.short(str(error))} | | | |"
    spent, bugs_of = time.process_time() - began, refuted(design, count, seconds)
    how = found.method + (" by inner words" if any("inner words" in part.what for part in found.parts) else "")
    solvers = sorted({part.solver.split()[0] for part in found.parts if part.solver and part.solver[0].isalpha()})
    return (
        f"| `{design.set}` | {found.outcome} | {bugs_of.count('refuted')} of {len(bugs_of)} | {spent:.0f} "
        f"| {how}, {', '.join(each for each in solvers if each in solver.SOLVERS) or 'constant terms'} |"
    )


def main() -> int:
    """Print a line for each unit and design; return 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("designs", nargs="*", metavar="DESIGN")
    parser.add_argument("--bugs", type=int, default=3, help="planted bugs of each design (default: 3)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of a proof (default: %(default)s)")
    parser.add_argument("--table", action="store_true", help="print a table of all designs, or of these")
    parser.add_argument("--forms", action="store_true", help="print what is known of compiled forms, by unit")
    arguments = parser.parse_args()
    if arguments.forms:
        by_state: dict[str, list[str]] = {}
        for spec, what in sorted(forms()):
            by_state.setdefault(what, []).append(f"`{spec}`")
        print("| compiled form | units |\n|---|---|")
        print("\n".join(f"| {what} | {', '.join(specs)} |" for what, specs in sorted(by_state.items())))
        return 0
    if arguments.table:
        print("| design | outcome | bugs refuted | processor seconds | method, solver |\n|---|---|---|---|---|")
        for design in DESIGNS:
            if not arguments.designs or design.set in arguments.designs:
                print(row(design, arguments.bugs, arguments.seconds), flush=True)
        return 0
    wrong = 0
    for name in () if arguments.designs else LIFTED:
        known, _, only = name.partition(":")
        unit = units.find(known)
        ready = [unit.configs[only]] if only else list(unit.configs.values())
        for config in ready:
            try:
                selfcheck.check(lift.lift(unit, config))
            except (lift.NotLifted, selfcheck.Disagrees) as error:
                if config is ready[0]:
                    wrong += 1
                    print(f"FAIL {error}")
        print(f"{name}: lifted and checked", flush=True)
    for line, right in () if arguments.designs else compiled():
        wrong += not right
        print(f"{'' if right else 'FAIL '}{line}", flush=True)
    for design in DESIGNS:
        if design.set not in (arguments.designs or PROVED):
            continue
        began = time.monotonic()
        says: list[str] = [proof(design, [str(HERE / source) for source in design.sources], arguments.seconds).outcome]
        says += refuted(design, arguments.bugs, arguments.seconds)
        right = says[0] == "proved" and set(says[1:]) <= {"refuted"}
        wrong += not right
        caught = f"{says[1:].count('refuted')} of {len(says) - 1} bugs refuted"
        print(
            f"{'' if right else 'FAIL '}{design.set}: {says[0]}, {caught}, {time.monotonic() - began:.1f} s",
            flush=True,
        )
    if not arguments.designs:
        first, others = foreign(arguments.seconds)
        wrong += first != "proved" or set(others) != {"refuted"}
        print(f"foreign/axis_decoder.v: {first}, {others.count('refuted')} of {len(others)} bugs refuted")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
