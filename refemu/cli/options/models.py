"""Options of the commands that run a model."""

from refemu.cli.options.common import (
    MODEL,
    SCHEME,
    Commands,
    Parser,
    add_calibration,
    add_count,
    add_model,
    add_model_and_text,
    add_real,
    add_text,
    add_threads,
    add_word,
    new_command,
    path,
    positive,
    real,
)


def _machine(commands: Commands) -> None:
    command = new_command(
        commands,
        "machine",
        "Run a block of a model on a paper's accelerator: cycles, utilization, data moved, mismatches.",
    )
    _on_machine(command)
    add_count(command, "--tokens", "Number of tokens in the prompt (default: 16).", 16)
    add_count(command, "--layer", "Transformer block, counted from 0 (default: 0).", 0, low=0)


def _cost(commands: Commands) -> None:
    command = new_command(
        commands, "cost", "Count the work of a whole run on a paper's accelerator, by layer and kind."
    )
    _on_machine(command, " or a mix, LINEAR+ATTENTION")
    help = "Use the dimensions of a known model, such as llama-2-7b, instead of --model; no weights are needed."
    add_word(command, "--shape", "SHAPE", help)
    help = "Tokens in the prompt, or before the decode step (default: 16, or 2048 with --shape). With --shape, a list "
    help += "gives a report for each length."
    command.add_argument("--tokens", type=_counts, metavar="N,...", help=help)
    add_count(command, "--batch", "Requests at once, with --shape (default: 1).")


def _on_machine(command: Parser, more: str = "") -> None:
    add_model(command, "tiny")
    help = f"A scheme with an accelerator: NAME, NAME:parameter=value,...{more} (default: olive-4)."
    add_word(command, "--scheme", "SCHEME", help, "olive-4")
    add_text(command)
    add_calibration(command)
    command.add_argument(
        "--phase",
        choices=("prompt", "decode"),
        default="prompt",
        help="Run the prompt (prefill), or decode the token after it (default: prompt).",
    )
    help = "Options of the accelerator, such as lanes=8,clock=500; docs/accelerators.md lists them."
    add_word(command, "--machine", "NAME=VALUE,...", help)
    command.add_argument(
        "--overlap",
        choices=("none", "tiles", "operations"),
        help="What overlaps: nothing, the loads of tiles, or whole operations (default: as in the paper).",
    )
    command.add_argument("--trace", type=path, metavar="FILE", help="Save the schedule as trace events for Perfetto.")
    help = "Plot the schedule of a block as a Gantt chart to FILE (.svg or .png)."
    command.add_argument("--plot", type=path, metavar="FILE", help=help)
    help = "Plot every operation of a block on the roofline to FILE, an .svg or .png."
    command.add_argument("--roofline", type=path, metavar="FILE", help=help)
    add_threads(command)


def _counts(words: str) -> list[int]:
    """Parse positive integers joined by commas."""
    return [positive(word) for word in words.split(",")]


def _ppl(commands: Commands) -> None:
    command = new_command(
        commands, "ppl", "Measure the perplexity of a text under a scheme, with its standard error over windows."
    )
    add_model_and_text(command)
    command.add_argument("--scheme", default="fp16", metavar="SCHEME", help=f"{SCHEME} (default: fp16).")
    add_word(command, "--over", "SCHEME", "Score this scheme too, and compare --scheme with it window by window.")
    add_calibration(command)
    add_count(command, "--win", "Split the text into windows of N tokens (default: 512).", 512)
    help = (
        "Tokens of each window that are the prompt; they are not scored (default: 0, and half a window for schemes "
        "that change only later tokens, such as leankv)."
    )
    add_count(command, "--prefill", help, low=0)
    add_count(command, "--windows", "Use only the first N windows of the text.")
    add_count(command, "--tokens", "Use only the first N tokens of the text.")
    add_threads(command)


def _generate_text(commands: Commands) -> None:
    command = new_command(commands, "generate-text", "Continue a text under a scheme, bit-exactly: greedy, or sampled.")
    command.set_defaults(module="texts.generate_text")
    add_model_and_text(command)
    add_word(command, "--prompt", "TEXT", "The words to continue, instead of --text.")
    command.add_argument("--scheme", default="fp16", metavar="SCHEME", help=f"{SCHEME} (default: fp16).")
    add_calibration(command)
    add_count(command, "--tokens", "Number of tokens to generate (default: 64).", 64)
    command.add_argument(
        "--temperature",
        type=real,
        default=0.0,
        metavar="T",
        help="Sample from the logits divided by T; 0: take the likeliest token (default: 0).",
    )
    add_count(
        command,
        "--top-k",
        "Sample from the N likeliest tokens, at a temperature above 0; 0: from all (default: 0).",
        0,
        low=0,
    )
    add_count(command, "--seed", "Seed of the sampling (default: 0).", 0, low=0)
    add_threads(command)


def _simulate(commands: Commands) -> None:
    command = new_command(
        commands,
        "simulate",
        "Simulate LLM serving with a paged KV cache: batch size, pages, preemptions, tokens per second.",
    )
    command.set_defaults(module="serving.simulate")
    help = "A LeanKV scheme, or fp16 for the paged cache without compression (default: leankv)."
    add_word(command, "--scheme", "SCHEME", help, "leankv")
    add_word(
        command,
        "--model",
        "MODEL",
        f"{MODEL}, to run instead of a shape; its attention decides which tokens are significant.",
    )
    add_word(command, "--shape", "SHAPE", "Sizes of a model, such as llama-2-7b, the default, or llama-3-70b.")
    add_word(command, "--gpu", "GPU", "Rates and memory: l40 (the default), a100 or h100.")
    help = 'File of requests, a line each: {"arrival": seconds, "prompt": tokens, "generate": tokens}.'
    add_word(command, "--trace", "FILE", help)
    add_real(command, "--rate", "R", "Draw requests that arrive at random, R a second, instead of --trace.")
    add_count(command, "--requests", "Number of drawn requests.")
    add_count(command, "--prompt", "Mean tokens of a drawn prompt (default: 161).")
    add_count(command, "--generate", "Tokens that each drawn request generates (default: 4096).")
    add_count(command, "--seed", "Seed of drawn requests and of the significance of tokens (default: 0).", low=0)
    add_count(command, "--workers", "Number of GPUs, among which heads and matrices are divided (default: 1).")
    add_count(command, "--slots", "Maximum number of running requests (default: 256).")
    add_real(command, "--memory-share", "X", "Share of the memory for weights and pages (default: 0.9).")
    add_count(
        command, "--context", "Maximum tokens of a request; longer ones are rejected (default: the longest request)."
    )
    command.add_argument(
        "--preemption",
        choices=("recompute", "swap", "none"),
        help="If pages run out, the newest request is computed again later, or swapped to the host; none: admit a "
        "request only if enough pages are free for its full length (default: recompute).",
    )
    command.add_argument(
        "--quality",
        choices=("lossless", "five-percent"),
        help="Use the shares of high, low and pruned tokens that reproduce the cache size in the paper's Table 1 "
        "(default: lossless).",
    )
    add_real(command, "--high-share", "X", "Share of tokens at the high precision, instead of --quality.")
    add_real(command, "--pruned-share", "X", "Share of pruned tokens (default: 0).")
    help = "Save the state in this file each minute; after an interruption, the same command resumes from it."
    add_word(command, "--state", "FILE", help)
    help = "Check the pages after every call of the memory manager; a step then takes several times as long."
    command.add_argument("--check", action="store_const", const=True, help=help)
    add_threads(command)
    add_word(
        command,
        "--plot",
        "FILE",
        "Draw batch, pages, fragmentation, stalls and throughput, and the batch in the paper (.svg or .png).",
    )


COMMANDS = (_machine, _cost, _ppl, _generate_text, _simulate)
