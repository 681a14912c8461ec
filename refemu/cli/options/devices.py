"""Options of the commands that put a unit into other hands: benches, predictors, steppers."""

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
        commands, "export", "Convert a golden set for another tool, or write a bench for a device.", json=False
    )
    forms = command.add_subparsers(metavar="FORM", dest="form", required=True)
    for form, what in (
        ("testfloat", "hex words a line: stimulus, outputs, flags"),
        ("csv", "a header, then one row a line, decimal"),
        ("jsonl", "one JSON object per row"),
    ):
        form_parser = new_kind(
            forms, form, f"Write a set as {what}. `refemu diff` reads answers in this form.", json=False
        )
        form_parser.add_argument("set", metavar="SET", help="The golden set: a folder.")
        form_parser.add_argument(
            "-o", "--out", type=path, metavar="FILE", help="File to write (default: standard output)."
        )
    for form, what in (
        ("rtl", "Write a device to fill in, a Verilog and a cocotb bench, a Makefile, and the golden set."),
        ("c", "Write a C function to fill in, its check, golden_set.h, and the golden set."),
        (
            "sv",
            "Write a SystemVerilog package (structs, scoreboard, coverage), a bench that uses it, and the golden set.",
        ),
    ):
        bench = new_kind(forms, form, what, json=False)
        bench.add_argument("unit", metavar="UNIT", help=UNIT)
        add_word(bench, "--config", "CONFIG", CONFIG)
        help = "Folder to write to. Files there that you changed stay."
        bench.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help=help)
        if form == "rtl":
            _of_a_core(bench)
    help = "Write what the Makefile of a bench makes of a port map, for registers and for waivers."
    shell = new_kind(forms, "shell", help, json=False)
    shell.add_argument("set", metavar="SET", help="The golden set: a folder.")
    shell.add_argument("-o", "--out", required=True, type=path, metavar="DIR", help="Folder to write shell.v to.")
    shell.add_argument("--map", type=path, metavar="FILE", help="Port map of your core, see docs/port-map.md.")
    shell.add_argument("--regs", action="store_true", help="Also write regs.mem, the registers after every row.")
    add_waive(shell, "Also write waive.mem, a mask that leaves out")
    help = "Write a live predictor: C sources, a DPI-C package, a random bench for Verilator, a C client."
    dpi = new_kind(forms, "dpi", help, json=False)
    dpi.epilog = (
        "In C: h = ovp_decoder_open(); ovp_decoder_set_pair(in, 0x85); refemu_step(h, in, out). "
        "See docs/dpi-predictor.md."
    )
    dpi.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(dpi, "--config", "CONFIG", CONFIG)
    dpi.add_argument(
        "-o",
        "--out",
        required=True,
        type=path,
        metavar="DIR",
        help="Folder to write to. Bench, client and Makefile that are there stay.",
    )
    add_word(
        dpi,
        "--name",
        "WORD",
        "Begin names of files and functions with WORD, for two of a unit in one program (default: UNIT).",
    )
    dpi.add_argument(
        "--registers", action="store_true", help="Send the registers, st.*, behind the outputs of every answer."
    )


def _of_a_core(rtl: Parser) -> None:
    """How a core that was not written for refemu is driven."""
    rtl.add_argument(
        "--map",
        type=path,
        metavar="FILE",
        help="Port map of your core, which the Makefile takes, see docs/port-map.md.",
    )
    add_count(
        rtl,
        "--latency",
        "Rising edges from the inputs of a row to its answer (default: 0, of a unit with registers 1).",
        low=0,
    )
    rtl.add_argument("--valid", action="store_true", help="Use valid and ready on both sides of your core.")


def _serve(commands: Commands) -> None:
    help = "Answer another process as a unit, in binary frames on standard input and output."
    command = new_command(commands, "serve", help, json=False)
    command.epilog = (
        "`refemu export dpi UNIT -o DIR` writes the client, for C and for simulators with DPI-C: "
        'refemu_open("orizuru:n=16,k=2") starts `refemu serve orizuru:n=16,k=2`. docs/serve-protocol.md has the frames.'
    )
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(command, "--config", "CONFIG", CONFIG)
    command.add_argument(
        "--registers", action="store_true", help="Send the registers, st.*, behind the outputs of every answer."
    )
    command.add_argument(
        "--care",
        action="store_true",
        help="Send masks of the outputs behind those: 1 = a device must answer this bit so.",
    )


def _step(commands: Commands) -> None:
    command = new_command(commands, "step", "Step through a unit, one event at a time.")
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    add_word(command, "--config", "CONFIG", CONFIG)
    add_word(
        command,
        "--case",
        "DIR:ID",
        "Take the inputs of one case of a golden set, by id or first row (default, without --input: a case of the "
        "paper).",
    )
    command.add_argument(
        "--input",
        action="append",
        metavar="PORT=V[,V...]",
        help="Values of a port, one per event. May be repeated; a single value stays for all events.",
    )
    command.add_argument(
        "--break", dest="stop", metavar="COND", help="Stop at the first event where COND holds, such as 'illegal == 1'."
    )
    command.add_argument(
        "--full", action="store_true", help="Show every lane of what changed (default: wide ports are folded)."
    )
    add_word(command, "--vcd", "FILE", "Also write a waveform (GTKWave, Surfer), and names of events in FILE.events.")
    command.add_argument(
        "--html",
        type=path,
        metavar="FILE",
        help="Write a page instead of tables: a slider over the events, drawings, changes, decisions. It needs no "
        "network.",
    )
    add_word(command, "--events", "A:B", "With --html: show events A to B - 1 (default: all, up to 10,000 or 5 MB).")


def _view(commands: Commands) -> None:
    command = new_command(
        commands, "view", "Write the rows of a set as a page, with the answers of a device beside them."
    )
    command.epilog = "The page needs no network. Exit codes: 0 written, 1 written and some answer differs, 2 unusable."
    command.add_argument("set", metavar="SET", help="The golden set: a folder.")
    command.add_argument("--html", required=True, type=path, metavar="FILE", help="File of the page.")
    command.add_argument(
        "--answers",
        type=path,
        metavar="FILE",
        help="Answers of a device as for `refemu diff`; the page also says what the device did.",
    )
    add_word(command, "--rows", "A:B", "Show rows A to B - 1 (default: all, up to 5 MB).")


COMMANDS = (_export, _serve, _step, _view)
