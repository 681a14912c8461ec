"""Options of the commands that export, serve, step and draw a unit."""

from refemu.cli.options.common import (
    CONFIG,
    UNIT,
    Commands,
    Parser,
    add_count,
    add_waive,
    add_word,
    new_command,
    new_kind,
    path,
)


def _export(commands: Commands) -> None:
    command = new_command(
        commands, "export", "Write a testbench or a predictor for your design, or convert a golden set.", json=False
    )
    forms = command.add_subparsers(metavar="FORM", dest="form", required=True)
    for form, what in (
        ("testfloat", "lines of hex words: stimulus, outputs, flags"),
        ("csv", "CSV: a header, then one line of decimal numbers per row"),
        ("jsonl", "JSON Lines: one object per row"),
    ):
        form_parser = new_kind(
            forms, form, f"Write a set as {what}. `refemu diff` reads answers in this form.", json=False
        )
        form_parser.add_argument("set", metavar="SET", help="The golden set: a folder.")
        form_parser.add_argument(
            "-o", "--out", type=path, metavar="FILE", help="File to write (default: standard output)."
        )
    for form, what in (
        ("rtl", "Write a Verilog module to fill in, a Verilog and a cocotb testbench, a Makefile and the golden set."),
        ("c", "Write a C function to fill in, a program that checks it, golden_set.h and the golden set."),
        (
            "sv",
            "Write a SystemVerilog package (structs, scoreboard, coverage), a testbench and the golden set.",
        ),
    ):
        bench = new_kind(forms, form, what, json=False)
        bench.add_argument("unit", metavar="UNIT", help=UNIT)
        add_word(bench, "--config", "CONFIG", CONFIG)
        help = "Folder to write to. Files that you changed there are preserved."
        bench.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help=help)
        if form == "rtl":
            _of_a_core(bench)
    help = "Write sets as JSON in the manner of Wycheproof, with a runner in C, Python and SystemVerilog each."
    suite = new_kind(forms, "suite", help, json=False)
    help = "Golden sets, or folders of sets (default: every unit and configuration, generated)."
    suite.add_argument("set", metavar="SET", nargs="*", type=path, help=help)
    suite.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help="Folder to write to.")
    help = "Write the wrapper of a port map, the registers and the waivers for the Makefile of a testbench."
    shell = new_kind(forms, "shell", help, json=False)
    shell.add_argument("set", metavar="SET", help="The golden set: a folder.")
    shell.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help="Folder to write shell.v to.")
    shell.add_argument("--map", type=path, metavar="FILE", help="Port map of your core (docs/port-map.md).")
    shell.add_argument("--regs", action="store_true", help="Also write regs.mem, the registers after each row.")
    add_waive(shell, "Also write waive.mem, a mask that excludes")
    help = "Write a live predictor: C sources, a DPI-C package, a random testbench for Verilator, a C client."
    dpi = new_kind(forms, "dpi", help, json=False)
    dpi.epilog = (
        "In C: h = ovp_decoder_open(); ovp_decoder_set_pair(in, 0x85); refemu_step(h, in, out). "
        "docs/dpi-predictor.md has more."
    )
    dpi.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(dpi, "--config", "CONFIG", CONFIG)
    dpi.add_argument(
        "-o",
        "--out",
        required=True,
        type=path,
        metavar="DIR",
        help="Folder to write to. An existing testbench, client or Makefile is preserved.",
    )
    add_word(
        dpi,
        "--name",
        "WORD",
        "Prefix of files and functions, to use two configurations in one program (default: UNIT).",
    )
    dpi.add_argument(
        "--registers", action="store_true", help="Append the registers, st.*, to the outputs of each answer."
    )
    help = "Write a synthesizable reference, properties, C and SMT-LIB, with scripts for yosys and other formal tools."
    formal = new_kind(forms, "formal", help, json=False)
    formal.epilog = "docs/proofs.md describes the files. Units that use floating point or have no terms are rejected."
    formal.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(formal, "--config", "CONFIG", CONFIG)
    help = "Folder to write to. Files of the same names are replaced; your UNIT.v is not one of them."
    formal.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help=help)


def _of_a_core(rtl: Parser) -> None:
    """Add how the bench drives a core that was not written for refemu."""
    rtl.add_argument(
        "--map",
        type=path,
        metavar="FILE",
        help="Port map of your core, for the Makefile (docs/port-map.md).",
    )
    add_count(
        rtl,
        "--latency",
        "Rising clock edges from the inputs of a row to its answer (default: 0; 1 for a unit with registers).",
        low=0,
    )
    rtl.add_argument("--valid", action="store_true", help="Drive your core with valid/ready on both sides.")


def _serve(commands: Commands) -> None:
    help = "Serve a unit to another process over stdin and stdout, in binary frames."
    command = new_command(commands, "serve", help, json=False)
    command.epilog = (
        "`refemu export dpi UNIT -o DIR` writes a client for C and for simulators with DPI-C: "
        'refemu_open("orizuru:n=16,k=2") starts `refemu serve orizuru:n=16,k=2`. docs/serve-protocol.md defines the '
        "frames."
    )
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(command, "--config", "CONFIG", CONFIG)
    command.add_argument(
        "--registers", action="store_true", help="Append the registers, st.*, to the outputs of each answer."
    )
    command.add_argument(
        "--care",
        action="store_true",
        help="Append masks of the outputs; a 1 marks a bit that a device must get right.",
    )


def _prove(commands: Commands) -> None:
    help = "Prove that a design equals a unit for all legal inputs, or show inputs for which it does not."
    command = new_command(commands, "prove", help)
    command.set_defaults(module="designs.prove")
    command.epilog = (
        "Needs yosys and a solver: install refemu[formal]. docs/proofs.md says what a proof promises. Exit codes: "
        "0 proved, 1 refuted, 2 undecided or unusable, 3 an error inside refemu."
    )
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    command.add_argument("sources", nargs="+", type=path, metavar="FILE", help="Sources of the design, in Verilog.")
    add_word(command, "--config", "CONFIG", CONFIG)
    add_word(command, "--top", "MODULE", "Module to prove (default: the unit's name, or that of the port map).")
    command.add_argument("--map", type=path, metavar="FILE", help="Port map of your core (docs/port-map.md).")
    add_count(
        command,
        "--depth",
        "If induction fails, check this many events (or handshake cycles) after reset (default: 8).",
        8,
    )
    add_count(command, "--timeout", "Seconds for the solver (default: 60).", 60)
    add_count(
        command,
        "--latency",
        "Rising edges from the inputs of a row to its outputs (default: as `refemu export rtl`).",
        low=0,
    )
    command.add_argument("--valid", action="store_true", help="The design has valid and ready on both sides.")
    command.add_argument(
        "--set",
        action="append",
        metavar="ID=WORDS",
        help="Compare with a variant of a decision, named by words of its description: D-olive-20=saturate. May be "
        "repeated.",
    )
    add_word(command, "--solver", "NAME", "Solver: bitwuzla or z3 (default: the first that is installed).")
    help = "If the design is refuted, write its inputs as a golden set, and waveforms of it and of the unit, to DIR."
    command.add_argument("--out", type=path, metavar="DIR", help=help)


def _step(commands: Commands) -> None:
    command = new_command(commands, "step", "Step through a unit, one event at a time, and show what changes.")
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(command, "--config", "CONFIG", CONFIG)
    add_word(
        command,
        "--case",
        "DIR:ID",
        "Take the inputs from a case of the golden set in DIR, by its id or first row (default: an example of the "
        "paper).",
    )
    command.add_argument(
        "--input",
        action="append",
        metavar="PORT=V[,V...]",
        help="Values of a port, one per event; a single value is used for all events. May be repeated.",
    )
    command.add_argument(
        "--break", dest="stop", metavar="COND", help="Stop at the first event where COND is true: 'illegal == 1'."
    )
    command.add_argument(
        "--full", action="store_true", help="Show every lane (default: lanes of wide ports are shortened)."
    )
    add_word(command, "--vcd", "FILE", "Also write a VCD waveform, and the names of the events to FILE.events.")
    command.add_argument(
        "--html",
        type=path,
        metavar="FILE",
        help="Write an HTML page instead of tables: a slider over the events, drawings, changes, decisions. It works "
        "offline.",
    )
    add_word(
        command,
        "--events",
        "A:B",
        "With --html: show events A to B - 1 (default: all; at most 10,000 events and 5 MB).",
    )


def _view(commands: Commands) -> None:
    command = new_command(
        commands, "view", "Write an HTML page with the rows of a set, next to the answers of a device."
    )
    command.epilog = "The page works offline. Exit codes: 0 written, 1 written and an answer differs, 2 unusable."
    command.add_argument("set", metavar="SET", help="The golden set: a folder.")
    command.add_argument("--html", required=True, type=path, metavar="FILE", help="HTML file to write.")
    command.add_argument(
        "--answers",
        type=path,
        metavar="FILE",
        help="Answers of a device, in a form of `refemu diff`; the page then includes a diagnosis.",
    )
    add_word(command, "--rows", "A:B", "Show rows A to B - 1 (default: all; at most 5 MB).")


COMMANDS = (_export, _serve, _prove, _step, _view)
