"""`refemu prove`: prove that a design equals a unit for all legal inputs, or show inputs for which it does not."""

import argparse
import sys
from pathlib import Path
from typing import Any

from refemu.cli.output import print_json

PROVED, REFUTED, UNDECIDED, BROKEN = 0, 1, 2, 3
CODES = {"proved": PROVED, "refuted": REFUTED, "undecided": UNDECIDED}


def run(arguments: argparse.Namespace) -> int:
    """Print the answer and what it rests on; return 0 proved, 1 refuted, 2 undecided, 3 an error inside refemu."""
    from refemu import units
    from refemu.golden.proofs import counterexample, prove, question
    from refemu.prove.selfcheck import Disagrees

    unit, config = units.choose(arguments.unit, arguments.config)
    asked = question.Question(
        unit,
        config,
        arguments.sources,
        arguments.map or "",
        arguments.top or "",
        arguments.depth,
        arguments.timeout,
        arguments.latency,
        arguments.valid,
        tuple(arguments.set or ()),
        arguments.solver or "",
    )
    try:
        report = prove.prove(asked)
    except Disagrees as error:
        print(f"refemu: {error}; this is an error inside refemu, please report it", file=sys.stderr)
        return BROKEN
    written = None
    if report.counterexample is not None and report.counterexample.states and arguments.out:
        from refemu.prove import lift as lifts

        lifted = lifts.lift(unit, unit.config(config))
        example = report.counterexample
        what = f"gives {example.says}" if example.says else f"differs in {example.port}"
        why = f"inputs for which {report.design.top} {what}"
        written = counterexample.write(example, lifted, config, why, Path(arguments.out))
    document = _document(report, written)
    if arguments.json:
        print_json("prove", document)
    else:
        print("\n".join(_lines(report, document)))
    return CODES[report.proof.outcome]


def _document(report: Any, written: Path | None) -> dict[str, Any]:
    proof, answer = report.proof, report.counterexample
    return {
        "outcome": proof.outcome,
        "unit": report.question.unit.key,
        "config": report.question.config,
        "target": report.target,
        "method": proof.method,
        "depth": proof.depth,
        "parts": [
            {"what": part.what, "outcome": part.outcome, "seconds": round(part.seconds, 3), "solver": part.solver}
            for part in proof.parts
        ],
        "untied": list(proof.untied),
        "assumptions": list(report.assumptions),
        "masks": list(report.masks),
        "reset": dict(report.reset),
        "checked": report.checked,
        "reader": report.design.reader,
        "design": report.design.digest,
        "text": report.digest,
        "seconds": round(report.seconds, 3),
        "counterexample": None
        if answer is None
        else {
            "event": answer.event,
            "port": answer.port,
            "expected": f"{answer.expected:#x}",
            "got": f"{answer.got:#x}",
            **({"says": answer.says} if answer.says else {}),
            "inputs": {name: array.tolist() for name, array in answer.inputs.items()},
            "set": None if written is None else str(written),
        },
        "diagnosis": list(report.diagnosis),
    }


def _lines(report: Any, document: dict[str, Any]) -> list[str]:
    """The answer in words."""
    from refemu import __version__

    proof, answer = report.proof, report.counterexample
    design = f"{report.design.top} as {report.design.reader} reads it"
    says = {
        "proved": f"proved: {design} equals {report.target} of refemu {__version__}, for all legal inputs",
        "refuted": f"refuted: {design} differs from {report.target} of refemu {__version__}",
        "undecided": f"undecided: {design} and {report.target} of refemu {__version__}",
    }
    lines = [says[proof.outcome]]
    if answer is not None:
        event = f" after event {answer.event}" if report.reset else ""
        lines.append(
            f"  {answer.says}"
            if answer.says
            else f"  {answer.port}{event}: expected {answer.expected:#x}, got {answer.got:#x}"
        )
        for name, array in answer.inputs.items():
            lanes = (array[0] if report.reset else array).ravel().tolist()
            lines.append(f"  {name} " + " ".join(f"{lane:#x}" for lane in lanes))
        if document["counterexample"]["set"]:
            lines.append(f"  golden set {document['counterexample']['set']}, waveforms next to it")
        elif answer.states:
            lines.append("  give --out DIR for these inputs as a golden set, and waveforms")
        if not answer.says:
            lines += [f"  {each}" for each in report.diagnosis] or ["  equal to no single variant of a decision"]
    lines += [f"  {part.what}: {part.outcome}, {part.seconds:.2f} s, {part.solver}" for part in proof.parts]
    lines += [f"  not tied: {each}" for each in proof.untied]
    lines += [f"  assumes that {each}" for each in report.assumptions]
    lines += [f"  {each}" for each in report.masks]
    if report.reset:
        lines.append("  reset state " + ", ".join(f"{name} {value}" for name, value in report.reset.items())[:200])
    lines.append(f"  self-check: {report.checked} rows through the terms equal the compiled form")
    lines.append(f"  SHA-256 of the sources {report.design.digest[:16]}, of the unit's text {report.digest[:16]}")
    return lines
