"""Options of the commands on formats, units and golden sets."""

from refemu.cli.options.common import (
    CONFIG,
    IDS,
    SCHEME,
    UNIT,
    Commands,
    add_count,
    add_model,
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
    command.add_argument("what", nargs="?", choices=kinds, help="Kind to list (default: all but decisions).")


def _show(commands: Commands) -> None:
    command = new_command(commands, "show", "Show the codes of a format, or one code field by field.")
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
        "--head", type=positive, default=128, metavar="N", help="With `page`: head size (default: 128)."
    )
    add_count(command, "--page-bytes", "With `page`: its size (default: found by search).")
    add_count(command, "--k-group", "With `page`: threads per key (default: 4).")
    add_count(command, "--byte", "With `page`: show what byte N holds.", low=0)


def _generate(commands: Commands) -> None:
    command = new_command(
        commands, "generate", "Write golden vectors: a set, which is a folder, for each unit and configuration."
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--out", type=path, metavar="DIR", help="Write every set as a folder of DIR.")
    where.add_argument(
        "--stdout",
        action="store_true",
        help="Print the stimulus of one --unit as hex words and an end line, for `| device | refemu check --stdin`.",
    )
    add_word(command, "--config", "CONFIG", f"With --stdout. {CONFIG}")
    command.add_argument(
        "--unit",
        action="append",
        metavar="UNIT",
        help=f"{UNIT} May be repeated (default: all that have cases of these kinds).",
    )
    add_word(
        command,
        "--kinds",
        "KIND,...",
        "Kinds of cases: paper, edge, random, exhaustive, model (default: all that apply).",
    )
    add_model(command, None, "tiny", " Cases of kind model are captured from it.")
    command.add_argument(
        "--scheme",
        action="append",
        metavar="SCHEME",
        help=f"{SCHEME}. The model runs under it. May be repeated (default: olive-4).",
    )
    add_word(command, "--text", "FILE", "UTF-8 text that the model reads (default: a text that refemu ships).")
    add_word(command, "--ids", "FILE", IDS)
    add_count(command, "--tokens", "Run the model on the first N tokens of the text (default: 64).")
    add_count(command, "--seed", "Seed of the random cases (default: 0).", 0, low=0)
    command.add_argument(
        "--minimal",
        action="store_true",
        help="Keep a small subset of the cases of each --unit that convicts the same wrong devices, see `refemu "
        "grade`.",
    )
    add_count(
        command,
        "--cases",
        "Make a campaign: N random rows of each configuration. The same command goes on after an interrupt.",
    )
    add_word(
        command,
        "--layer",
        "LAYER,...",
        "Make a campaign of what units meet in these blocks of the model, such as 0-3,7 or all. Needs --tokens.",
    )
    add_count(command, "--win", "With --layer: tokens of a shard (default: 64).")
    add_count(command, "--workers", "Processes of a campaign (default: 1).")
    add_threads(command)
    add_word(command, "--scheduler", "ADDRESS", "Dask cluster that makes the campaign, instead of processes.")
    command.add_argument("--hex", action="store_true", help="Also write hex/ for $readmemh, and include/.")
    command.add_argument("--bin", action="store_true", help="Also write bin/ for C and CUDA, and include/.")


def _check(commands: Commands) -> None:
    command = new_command(
        commands,
        "check",
        "Make every set below DIR anew and compare all files byte for byte; or check the answers of a device.",
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("dir", nargs="?", type=path, metavar="DIR", help="A set or a folder of sets.")
    what.add_argument(
        "--stdin",
        action="store_true",
        help="Read the answers of a device: lines of a word of `generate --stdout`, a space, the answer.",
    )
    add_word(command, "--unit", "UNIT", f"With --stdin: the unit that the device is held against. {UNIT}")
    add_word(command, "--config", "CONFIG", f"With --stdin. {CONFIG}")
    command.add_argument("--any-nan", action="store_true", help="With --stdin: take any NaN for any NaN.")
    command.add_argument("--explain", action="store_true", help="With --stdin: say what a wrong device did.")
    add_count(
        command,
        "--rows",
        "With --stdin: expect N rows, for a device that cannot pass on the end line of `generate --stdout`.",
    )


def _diff(commands: Commands) -> None:
    command = new_command(
        commands, "diff", "Compare the answers of a device with a golden set, and decode the first difference."
    )
    command.add_argument("golden", metavar="GOLDEN", help="The golden set: a folder.")
    command.add_argument(
        "dut",
        metavar="DUT",
        help="The answers: an .npz with arrays out.*, a set, or a text file such as gold.mem, .csv or .jsonl.",
    )
    command.add_argument("--explain", action="store_true", help="Say what the device did, as far as its answers tell.")
    add_word(
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
    add_word(command, "--ports", "PORT,...", "Outputs to compare (default: all, and none may be absent).")
    command.add_argument(
        "--any-nan", action="store_true", help="Take any NaN for any NaN in words, too (default: compare bit by bit)."
    )
    add_waive(command, "Leave out")


def _explain(commands: Commands) -> None:
    command = new_command(
        commands, "explain", "Explain a decision, unit, scheme, format, parameter, port, field or term."
    )
    command.add_argument(
        "word",
        metavar="WORD",
        help="A decision (D-olive-19), unit (NAME, NAME:CONFIG, NAME:parameter=value,...), scheme, format, parameter, "
        "port or other field of a unit (harmonia-kv4.low, orizuru.x, orizuru.cycles), or a term of the glossary.",
    )
    add_word(command, "--config", "CONFIG", f"Of a unit. {CONFIG}")
    command.add_argument(
        "--set",
        type=path,
        metavar="SET",
        help="Of a unit or decision: count the rows of this golden set that tell each other answer.",
    )


def _grade(commands: Commands) -> None:
    command = new_command(
        commands, "grade", "Count the wrong devices that a stimulus convicts, and name those that it lets pass."
    )
    command.add_argument("stimulus", metavar="SET", help="A golden set; with --unit an .npz with the inputs, in.*.")
    add_word(command, "--unit", "UNIT", f"The unit that an .npz is for. {UNIT}")
    add_word(command, "--config", "CONFIG", f"With --unit. {CONFIG}")
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
        "--write-missing", type=path, metavar="DIR", help="Write a set of cases below DIR that convict every hole."
    )
    command.add_argument(
        "--strict", action="store_true", help="Exit with 1 at any hole, and where a fault is undecided."
    )


def _report(commands: Commands) -> None:
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
    command.add_argument("folder", type=path, metavar="RUN_DIR", help="Folder of sets, answers, benches, campaigns.")
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
            type=path,
            metavar="FILE",
            help=f"Write the {form} report to FILE{more}. Without any of the three options all are written, this one "
            "as "
            f"RUN_DIR/{name}.",
        )


COMMANDS = (_list, _show, _generate, _check, _diff, _explain, _grade, _report)
