"""Options of the commands on formats, units and golden sets."""

import argparse

from refemu.cli.options.common import (
    CONFIG,
    SCHEME,
    UNIT,
    Commands,
    add_count,
    add_model,
    add_text,
    add_threads,
    add_waive,
    add_word,
    new_command,
    path,
    positive,
)


def _list(commands: Commands) -> None:
    command = new_command(commands, "list", "List formats, units, schemes, models and decisions.")
    kinds = ("formats", "units", "schemes", "models", "decisions")
    command.add_argument(
        "what",
        nargs="?",
        choices=kinds,
        metavar="KIND",
        help=f"One of {', '.join(kinds)} (default: all except decisions).",
    )


def _show(commands: Commands) -> None:
    command = new_command(commands, "show", "Decode the codes of a format, or show the byte map of a KV page.")
    command.add_argument(
        "format",
        metavar="FORMAT",
        help="A format of `refemu list formats`, such as INT4, or `page` for a page of the LeanKV cache.",
    )
    command.add_argument(
        "code",
        nargs="?",
        metavar="CODE",
        help="One code: 0b0101, 0x5 or 5; of a pair format, both codes packed. After `page`: a precision pair, such as "
        "K8V4.",
    )
    command.add_argument(
        "--head",
        type=positive,
        default=128,
        metavar="N",
        help="With `page`: elements of a key or value (default: 128).",
    )
    add_count(command, "--page-bytes", "With `page`: bytes of the page (default: found by search).")
    add_count(command, "--k-group", "With `page`: threads per key (default: 4).")
    add_count(command, "--byte", "With `page`: show only the meaning of byte N, counted from 0.", low=0)


def _generate(commands: Commands) -> None:
    command = new_command(commands, "generate", "Write golden sets: one folder for each unit and configuration.")
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--out", type=path, metavar="DIR", help="Write the sets to folders in DIR.")
    where.add_argument(
        "--stdout",
        action="store_true",
        help="Print the stimulus of one --unit as hex words, for `| device | refemu check --stdin`.",
    )
    add_word(command, "--config", "CONFIG", f"With --stdout: c{CONFIG[1:]}")
    command.add_argument(
        "--unit",
        action="append",
        metavar="UNIT",
        help=f"{UNIT} May be repeated (default: all units).",
    )
    add_word(
        command,
        "--kinds",
        "KIND,...",
        "Kinds of cases: paper, edge, random, exhaustive, model (default: all that apply; model only with --model, "
        "--scheme, --text, --ids or --tokens).",
    )
    add_model(command, None, "tiny", " Cases of kind model are recorded in it.")
    command.add_argument(
        "--scheme",
        action="append",
        metavar="SCHEME",
        help=f"{SCHEME}, under which the model runs. May be repeated (default: olive-4).",
    )
    add_text(command)
    add_count(command, "--tokens", "Run the model on the first N tokens (default: 64).")
    add_count(command, "--seed", "Seed of the random cases (default: 0).", 0, low=0)
    command.add_argument(
        "--minimal",
        action="store_true",
        help="Write only a small subset of the cases of each --unit that detects the same faults (see `refemu grade`).",
    )
    command.add_argument(
        "--complete",
        nargs="?",
        const="",
        metavar="CLASS,...",
        help="Add cases that detect every fault of these classes that the set misses (see `refemu grade`; default: all "
        "except model).",
    )
    _add_prove(command, "With --complete: use")
    add_count(
        command,
        "--cases",
        "Generate a campaign of N random rows for each configuration. Rerun the same command to resume it.",
    )
    add_word(
        command,
        "--layer",
        "LAYER,...",
        "Generate a campaign from the values that reach the units in these blocks of the model, such as 0-3,7 or all. "
        "Needs --tokens.",
    )
    add_count(command, "--win", "With --layer: tokens in each shard of the campaign (default: 64).")
    add_count(command, "--workers", "Number of processes for a campaign (default: 1).")
    add_threads(command)
    add_word(
        command, "--scheduler", "ADDRESS", "Address of a Dask scheduler that runs the campaign, instead of --workers."
    )
    command.add_argument("--hex", action="store_true", help="Also write hex/ for $readmemh, with include files.")
    command.add_argument("--bin", action="store_true", help="Also write bin/ for C and CUDA, with include files.")


def _add_prove(command: argparse.ArgumentParser, how: str) -> None:
    """Add the option of a solver."""
    command.add_argument(
        "--prove",
        nargs="?",
        const=20,
        type=positive,
        metavar="SECONDS",
        help=f"{how} a solver, for at most SECONDS each, to decide the faults that none of the rows tried detects "
        "(default: 20). Needs refemu[formal].",
    )


def _check(commands: Commands) -> None:
    command = new_command(
        commands,
        "check",
        "Regenerate the sets in DIR and compare every byte, or check the answers of a device on a pipe.",
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("dir", nargs="?", type=path, metavar="DIR", help="A golden set or a folder of sets.")
    what.add_argument(
        "--stdin",
        action="store_true",
        help="Read answers from standard input: each line is a word of `generate --stdout`, a space, the answer.",
    )
    add_word(command, "--unit", "UNIT", f"With --stdin: the unit to compare with. {UNIT}")
    add_word(command, "--config", "CONFIG", f"With --stdin: c{CONFIG[1:]}")
    command.add_argument("--any-nan", action="store_true", help="With --stdin: treat all NaN codes as equal.")
    command.add_argument("--explain", action="store_true", help="With --stdin: diagnose a device that differs.")
    add_count(
        command,
        "--rows",
        "With --stdin: number of rows, for a device that cannot forward the end line of `generate --stdout`.",
    )


def _diff(commands: Commands) -> None:
    command = new_command(
        commands, "diff", "Compare the answers of a device with a golden set; decode and explain the differences."
    )
    command.add_argument("golden", metavar="GOLDEN", help="The golden set: a folder.")
    command.add_argument(
        "dut",
        metavar="DUT",
        help="The answers: an .npz file with arrays out.*, another set, or a .mem, .csv or .jsonl file.",
    )
    command.add_argument(
        "--explain",
        action="store_true",
        help="Explain the differences: the bug or decision that gives the answers of the device.",
    )
    add_word(
        command,
        "--write-missing",
        "DIR",
        "Explain, and write a set to DIR with rows that distinguish the best explanations.",
    )
    command.add_argument(
        "--full",
        action="store_true",
        help="Show every lane of the first row that differs (default: wide inputs are shortened).",
    )
    command.add_argument(
        "--cases",
        action="store_true",
        help="DUT is another version of the set: list the cases that were added, removed, renamed or changed.",
    )
    add_word(command, "--ports", "PORT,...", "Outputs to compare (default: all that the answers have).")
    command.add_argument(
        "--any-nan", action="store_true", help="Treat all NaN codes as equal (default: compare bit by bit)."
    )
    add_waive(command, "Do not compare")


def _explain(commands: Commands) -> None:
    command = new_command(commands, "explain", "Explain a unit, format, scheme, decision, parameter, port or term.")
    command.add_argument(
        "word",
        metavar="WORD",
        help="A unit (NAME, NAME:CONFIG or NAME:parameter=value,...), a format, a scheme, a decision (D-olive-19), a "
        "parameter, port or counter (harmonia-kv4.low, orizuru.x, orizuru.cycles), or a term of the glossary.",
    )
    add_word(command, "--config", "CONFIG", f"With a unit: c{CONFIG[1:]}")
    command.add_argument(
        "--set",
        type=path,
        metavar="SET",
        help="With a unit or a decision: count the rows of this golden set that detect each variant.",
    )


def _grade(commands: Commands) -> None:
    command = new_command(commands, "grade", "Inject faults and report which ones the vectors detect or miss.")
    command.add_argument("stimulus", metavar="SET", help="A golden set; with --unit, an .npz file with arrays in.PORT.")
    add_word(command, "--unit", "UNIT", f"Unit of an .npz file. {UNIT}")
    add_word(command, "--config", "CONFIG", f"With --unit: c{CONFIG[1:]}")
    command.add_argument(
        "--class",
        dest="classes",
        metavar="CLASS,...",
        action="append",
        help="Classes of faults: bits, lanes, order, words, reset, use, width, rounding, decisions, model. May be "
        "repeated (default: all except model, which takes minutes).",
    )
    command.add_argument(
        "--all", action="store_true", help="With class model: try every mutant (default: a sample of 300)."
    )
    command.add_argument(
        "--write-missing",
        type=path,
        metavar="DIR",
        help="Write a set to DIR with cases that detect every missed fault.",
    )
    _add_prove(command, "Use")
    command.add_argument(
        "--strict",
        action="store_true",
        help="Exit with 1 also if a fault is undecided; a missed one always gives 1 (class model: below 97 %%).",
    )


def _report(commands: Commands) -> None:
    help = "Summarize a folder of sets and answers as JUnit XML, JSON and an HTML page."
    command = commands.add_parser(
        "report",
        help=help,
        description=help,
        epilog="Answers to the set vec/S are "
        "vec/S.answers.npz or vec/S/answers.npz (also .mem, .csv, .jsonl), build/dut.mem and build/*.log of its bench, "
        "and files of pytest --refemu-save. Exit codes: 0 every set passes, 1 a device differs, 2 a set has no answer "
        "or a file cannot be read.",
    )
    command.set_defaults(module="report", prints_json=False)
    command.add_argument(
        "folder", type=path, metavar="RUN_DIR", help="Folder with sets, answers, benches and campaigns."
    )
    command.add_argument(
        "--grade",
        choices=("fast", "all", "none"),
        default="fast",
        help="Fault classes for the coverage of the sets: fast is bits, lanes, order and words; all is the default of "
        "`refemu grade` (default: fast).",
    )
    for form, name, how, more in (
        ("junit", "report.xml", "as JUnit XML", ""),
        ("json", "report.json", "as JSON", ", or print it with -"),
        ("html", "report.html", "as an HTML page", ""),
    ):
        command.add_argument(
            f"--{form}",
            type=path,
            metavar="FILE",
            help=f"Write the report {how} to FILE{more} (default: RUN_DIR/{name}, if none of the three is given).",
        )


COMMANDS = (_list, _show, _generate, _check, _diff, _explain, _grade, _report)
