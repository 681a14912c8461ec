"""Options of `refemu study`."""

from refemu.cli.options.common import (
    Commands,
    Parser,
    add_calibration,
    add_count,
    add_model,
    add_model_and_text,
    add_threads,
    add_word,
    new_command,
    new_kind,
    path,
)


def _study(commands: Commands) -> None:
    command = new_command(commands, "study", "Repeat the experiments of a paper on a model of your choice.")
    names = command.add_subparsers(metavar="NAME", dest="name", required=True)
    _study_olive(names)
    _study_accuracy(names)
    _study_kllm(names)
    _study_harmonia(names)
    _study_leankv(names)
    _study_mix(names)


def _study_olive(names: Commands) -> None:
    command = new_kind(
        names, "olive", "Where the outliers are, and what losing them costs [olive Fig. 2, 3, 5; Tbl. 2, 9]."
    )
    add_model_and_text(command)
    add_calibration(command)
    _cut(command, 8, 128, "; 0 studies only the weights")
    _kept(command, "weights, inputs, losses, ladder", "fig2, table2, fig3, fig5, table9")


def _study_accuracy(names: Commands) -> None:
    command = new_kind(
        names, "accuracy", "Effect of formats on sentence embeddings and on a classifier of them [olive Tbl. 6-9]."
    )
    add_model(command, "all-minilm-l6-v2")
    add_word(
        command,
        "--data",
        "FILE",
        "Rated sentences, one a line: number, rating and text, separated by tabs (default: film-reviews).",
    )
    add_count(
        command, "--sentences", "Test on N sentences, and train the classifier on 2 N others (default: 1000).", 1000
    )
    command.add_argument("--csv", type=path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument("-o", "--out", type=path, metavar="DIR", help="Save tables, JSON and CSV in DIR.")
    command.set_defaults(plot=None, ids=None, text=None)
    add_threads(command)


def _study_kllm(names: Commands) -> None:
    command = new_kind(
        names, "kllm", "Perplexity of fp16, integer and K-Means schemes [kllm Tables II, IV; Fig. 2, 11]."
    )
    add_model_and_text(command)
    add_calibration(command)
    _cut(command, 4, 64)
    add_count(command, "--calibration-tokens", "Number of tokens in each calibration window (default: 2048).")
    _schemes(command, "the usual ones")
    _kept(command, "ladder, shares, breakdown, centroids, orizuru", "table2, table4, fig11, fig2, orizuru")


def _study_harmonia(names: Commands) -> None:
    command = new_kind(
        names, "harmonia", "Perplexity by mantissa bits and smoothing [harmonia Fig. 4, 5, 7-10; §IV-D]."
    )
    add_model_and_text(command)
    add_calibration(command)
    _cut(command, 8, 256)
    add_count(
        command,
        "--prefill",
        "Tokens of each window that are the prompt and not scored; the others are decoded (default: 0, no token is "
        "decoded).",
        0,
        low=0,
    )
    add_count(command, "--calibration-tokens", "Number of tokens that offline smoothing is learned on (default: 512).")
    _schemes(command, "those of the figures")
    figures = "fig4, fig5, fig7, fig8, fig9, fig10, offsets, dataflows"
    _kept(command, "mantissas, cache, attention, dataflows", figures)


def _study_leankv(names: Commands) -> None:
    command = new_kind(names, "leankv", "Memory and perplexity of a paged KV cache [leankv Table 1; Fig. 1-4, 7-11].")
    add_model_and_text(command)
    add_calibration(command)
    _cut(command, 4, 576)
    add_count(
        command, "--prefill", "Tokens of each window that are the prompt; they are not scored (default: 512).", 512
    )
    _schemes(command, "the usual ones")
    figures = "fig1, fig2, fig3, fig4, fig7, fig8, fig9, fig10, fig11"
    _kept(command, "pairs, mixed, budgets, sweeps, sparsity, significance", figures)


def _study_mix(names: Commands) -> None:
    command = new_kind(names, "mix", "Perplexity and KV cache bits of every pair LINEAR+ATTENTION.")
    add_model_and_text(command)
    add_calibration(command)
    _cut(command, 4, 192)
    add_count(
        command, "--prefill", "Tokens of each window that are the prompt; they are not scored (default: 128).", 128
    )
    _schemes(command, "all pairs")
    _kept(command, "pairs", "bits")


def _schemes(command: Parser, usual: str) -> None:
    command.add_argument(
        "--schemes",
        nargs="+",
        metavar="SCHEME",
        help=f"Schemes to measure (default: {usual}): NAME, NAME:parameter=value,... or a mix.",
    )


def _cut(command: Parser, windows: int, win: int, more: str = "") -> None:
    """Add how a study splits its text."""
    add_count(command, "--windows", f"Use the first N windows of the text (default: {windows}).", windows)
    add_count(command, "--win", f"Split the text into windows of N tokens (default: {win}).", win)
    add_count(
        command, "--tokens", f"Use the first N tokens of the text, instead of --windows{more}.", low=0 if more else 1
    )


def _kept(command: Parser, parts: str, figures: str) -> None:
    """Add parts, figures and output files of a study."""
    add_word(command, "--only", "PART,...", f"Parts to measure: {parts} (default: all).")
    add_word(command, "--figure", "NAME,...", f"Plot these figures, and measure only what they need: {figures}.")
    command.add_argument("--plot", type=path, metavar="FILE", help="Plot the figures to FILE, an .svg or .png.")
    command.add_argument("--csv", type=path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument(
        "-o",
        "--out",
        type=path,
        metavar="DIR",
        help="Save tables, CSV, plots and a JSON file with command and versions in DIR.",
    )
    add_threads(command)


COMMANDS = (_study,)
