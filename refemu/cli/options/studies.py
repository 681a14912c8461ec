"""Options of `refemu study`."""

from refemu.cli.options.common import (
    Commands,
    Parser,
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
    command = new_command(commands, "study", "Repeat the experiments of a paper on a model.")
    names = command.add_subparsers(metavar="NAME", dest="name", required=True)
    _study_olive(names)
    _study_accuracy(names)
    _study_kllm(names)
    _study_harmonia(names)
    _study_leankv(names)
    _study_mix(names)


def _study_olive(names: Commands) -> None:
    command = new_kind(names, "olive", "Where outliers lie, and what losing them costs [olive Fig. 2, 3, 5; Tbl. 2, 9]")
    add_model_and_text(command)
    _cut(command, 8, 128, "; 0: only the weights")
    _kept(command, "weights, inputs, losses, ladder", "fig2, table2, fig3, fig5, table9")


def _study_accuracy(names: Commands) -> None:
    command = new_kind(names, "accuracy", "What formats do to sentence embeddings and a probe on them [olive Tbl. 6-9]")
    add_model(command, "all-minilm-l6-v2")
    add_word(
        command,
        "--data",
        "FILE",
        "Rated sentences: number, rating and text between tabs (default: film-reviews, once fetched).",
    )
    add_count(
        command, "--sentences", "Test with N sentences, and train the probe with 2 N others (default: 1000).", 1000
    )
    command.add_argument("--csv", type=path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument("-o", "--out", type=path, metavar="DIR", help="Keep tables, JSON and CSV in DIR.")
    command.set_defaults(plot=None, ids=None, text=None)
    add_threads(command)


def _study_kllm(names: Commands) -> None:
    command = new_kind(names, "kllm", "Perplexity from fp16 over integers to K-Means [kllm Tables II, IV; Fig. 2, 11]")
    add_model_and_text(command)
    _cut(command, 4, 64)
    add_count(command, "--calibration-tokens", "Tokens of each calibration window (default: 2048).")
    _schemes(command, "the ladder")
    _kept(command, "ladder, shares, breakdown, centroids, orizuru", "table2, table4, fig11, fig2, orizuru")


def _study_harmonia(names: Commands) -> None:
    command = new_kind(names, "harmonia", "Perplexity by mantissa bits and smoothing [harmonia Fig. 4, 5, 7-10; §IV-D]")
    add_model_and_text(command)
    _cut(command, 8, 256)
    add_count(
        command,
        "--prefill",
        "First N tokens of each window are the prompt and not scored, the others are decoded (default: 0, all are one "
        "prompt).",
        0,
        low=0,
    )
    add_count(command, "--calibration-tokens", "Tokens to learn offline smoothing on (default: 512).")
    _schemes(command, "those of its figures")
    figures = "fig4, fig5, fig7, fig8, fig9, fig10, offsets, dataflows"
    _kept(command, "mantissas, cache, attention, dataflows", figures)


def _study_leankv(names: Commands) -> None:
    command = new_kind(names, "leankv", "Memory and perplexity of a KV cache in pages [leankv Table 1; Fig. 1-4, 7-11]")
    add_model_and_text(command)
    _cut(command, 4, 576)
    add_count(command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 512).", 512)
    _schemes(command, "the usual ones")
    figures = "fig1, fig2, fig3, fig4, fig7, fig8, fig9, fig10, fig11"
    _kept(command, "pairs, mixed, budgets, sweeps, sparsity, significance", figures)


def _study_mix(names: Commands) -> None:
    command = new_kind(names, "mix", "Perplexity and bits of the KV cache of LINEAR+ATTENTION, pair by pair.")
    add_model_and_text(command)
    _cut(command, 4, 192)
    add_count(command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 128).", 128)
    _schemes(command, "all pairs")
    _kept(command, "pairs", "bits")


def _schemes(command: Parser, usual: str) -> None:
    command.add_argument(
        "--schemes",
        nargs="+",
        metavar="SCHEME",
        help=f"Measure these schemes instead of {usual}: NAME, NAME:parameter=value,... or a mix.",
    )


def _cut(command: Parser, windows: int, win: int, more: str = "") -> None:
    """How the text of a study is cut."""
    add_count(command, "--windows", f"Use the first N windows of the text (default: {windows}).", windows)
    add_count(command, "--win", f"Split the text into windows of N tokens (default: {win}).", win)
    add_count(
        command, "--tokens", f"Use the first N tokens of the text instead of --windows{more}.", low=0 if more else 1
    )


def _kept(command: Parser, parts: str, figures: str) -> None:
    """Parts, figures and files of a study."""
    add_word(command, "--only", "PART,...", f"Parts to measure: {parts} (default: all).")
    add_word(command, "--figure", "NAME,...", f"Measure what these figures need, and plot them: {figures}.")
    command.add_argument("--plot", type=path, metavar="FILE", help="Draw the figures into FILE.svg or FILE.png.")
    command.add_argument("--csv", type=path, metavar="DIR", help="Also write every table as DIR/TABLE.csv.")
    command.add_argument(
        "-o",
        "--out",
        type=path,
        metavar="DIR",
        help="Keep tables, JSON with command and versions, CSV and plots in DIR.",
    )
    add_threads(command)


COMMANDS = (_study,)
