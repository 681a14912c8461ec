"""Proofs of CI: units lifted and self-checked, compiled forms and example designs proved, planted bugs of each refuted.

    python -m tools.formal [--bugs N] [DESIGN ...]   # exit code 1 if a proof or a refutation is missing

A prover that proves anything would pass the designs, so the bugs are the control.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from examples.rtl import bugs
from examples.rtl.benches import DESIGNS, HERE, Design
from examples.rtl.mutants import MUTANTS
from refemu import units
from refemu.golden.proofs import prove, question
from refemu.prove import lift, selfcheck
from refemu.prove.compiled import derived, helpers, written

#: designs that are proved in seconds
PROVED = (
    *("ovp_decoder-int4", "olive_mac-wrap", "olive_mac-saturate", "concat-a4", "concat-a3_qk", "prefix_sum-paper"),
    *("prefix_sum-odd", "bfp_aligner-paper", "fp2half-paper", "fp2half-saturate", "orizuru-n8"),
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
#: configurations of units without registers whose hand-written compiled form is proved
WRITTEN = ("prefix_sum:paper", "prefix_sum:odd", "fp16_mac:paper", "olive_requant:int4")
SECONDS = 60.0


def outcome(design: Design, sources: list[str]) -> str:
    """What `prove` says of a design."""
    return prove.prove(
        question.Question(units.find(design.unit), design.config, sources, seconds=SECONDS)
    ).proof.outcome


def main() -> int:
    """Print a line for each unit and design; return 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("designs", nargs="*", metavar="DESIGN")
    parser.add_argument("--bugs", type=int, default=3, help="planted bugs of each design (default: 3)")
    arguments = parser.parse_args()
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
    for name in () if arguments.designs else COMPILED:
        unit = units.find(name)
        outcomes = [
            derived.compiled_equals(lift.lift(unit, config), SECONDS).outcome for config in unit.configs.values()
        ]
        wrong += outcomes.count("proved") < len(outcomes)
        print(f"{name}: compiled form {', '.join(outcomes)}", flush=True)
    for spec in () if arguments.designs else WRITTEN:
        unit, config = units.choose(spec)
        proved = written.written_equals(lift.lift(unit, unit.configs[config]), SECONDS).outcome
        wrong += proved != "proved"
        print(f"{spec}: hand-written compiled form {proved}", flush=True)
    for part in () if arguments.designs else helpers.proofs(SECONDS):
        wrong += part.outcome != "proved"
        print(f"{part.what}: helper of compiled forms {part.outcome}", flush=True)
    for design in DESIGNS:
        if design.set not in (arguments.designs or PROVED):
            continue
        began = time.monotonic()
        says = [outcome(design, [str(HERE / source) for source in design.sources])]
        for mutant in [each for each in MUTANTS if each.design == design.set][: arguments.bugs]:
            with tempfile.TemporaryDirectory() as folder:
                says.append(outcome(design, [str(path) for path in bugs.one(design, mutant, Path(folder))]))
        right = says[0] == "proved" and set(says[1:]) <= {"refuted"}
        wrong += not right
        refuted = f"{says[1:].count('refuted')} of {len(says) - 1} bugs refuted"
        print(
            f"{'' if right else 'FAIL '}{design.set}: {says[0]}, {refuted}, {time.monotonic() - began:.1f} s",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
