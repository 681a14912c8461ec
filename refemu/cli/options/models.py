"""Options of the commands that run a model."""

from refemu.cli.options.common import (
    IDS,
    SCHEME,
    Commands,
    Parser,
    add_calibration_ids,
    add_count,
    add_model,
    add_model_and_text,
    add_threads,
    add_word,
    new_command,
)


def _machine(commands: Commands) -> None:
    command = new_command(
        commands,
        "machine",
        "Run a block of a model on the machine of a paper: cycles, use, words, and elements unlike the scheme's.",
    )
    _on_machine(command)
    add_count(command, "--layer", "Block of the model, from 0 (default: 0).", 0, low=0)


def _cost(commands: Commands) -> None:
    command = new_command(
        commands, "cost", "Count what a whole run costs on the machine of a paper, by layer and kind of work."
    )
    _on_machine(command, ", or a mix, LINEAR+ATTENTION")


def _on_machine(command: Parser, more: str = "") -> None:
    add_model(command, "tiny")
    help = f"A scheme with a machine: NAME, NAME:parameter=value,...{more} (default: olive-4)."
    add_word(command, "--scheme", "SCHEME", help, "olive-4")
    add_word(command, "--ids", "FILE", IDS)
    add_calibration_ids(command)
    add_count(command, "--tokens", "Tokens of the prompt (default: 16).", 16)
    command.add_argument(
        "--phase",
        choices=("prompt", "decode"),
        default="prompt",
        help="Run all tokens of the prompt, or the one behind them (default: prompt).",
    )
    add_threads(command)


def _ppl(commands: Commands) -> None:
    command = new_command(
        commands, "ppl", "Measure the perplexity of a text under a scheme, with its standard error over windows."
    )
    add_model_and_text(command)
    command.add_argument("--scheme", default="fp16", metavar="SCHEME", help=f"{SCHEME} (default: fp16).")
    add_calibration_ids(command)
    add_count(command, "--win", "Split the text into windows of N tokens (default: 512).", 512)
    add_count(
        command, "--prefill", "First N tokens of each window are the prompt and not scored (default: 0).", 0, low=0
    )
    add_count(command, "--windows", "Use only the first N windows of the text.")
    add_count(command, "--tokens", "Use only the first N tokens of the text.")
    add_threads(command)


COMMANDS = (_machine, _cost, _ppl)
