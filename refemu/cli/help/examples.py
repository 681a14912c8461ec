"""Examples at the end of the help of every command. tests/cli/help/test_examples.py runs each of them.

The reader's files have the same names everywhere: `vec`, sets of `refemu generate -o vec --unit ovp_decoder`; `before`,
sets of an earlier version; `dut.npz`, answers of a device to vec/ovp_decoder-int4, one of them wrong; `answers.txt`,
answers to `refemu generate --stdout`; `ovp_decoder.v`, a design; `stimulus.npz`, inputs without answers;
`core.json`, a port map; `book.txt`, a text.
"""

from typing import NamedTuple


class Example(NamedTuple):
    """A command line, run where the files above are."""

    line: str
    says: str
    code: int = 0  #: exit code
    long: bool = False  #: takes seconds
    needs: str = ""  #: a model that must have been fetched
    program: str = ""  #: a program that must be installed
    solver: bool = False  #: needs the extra `formal`


_SET = "vec/ovp_decoder-int4"

#: by the words of the command
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "refemu": (
        Example("refemu list units", "the hardware blocks, with their ports"),
        Example("refemu step ovp_decoder", "one block, event by event, on an example of its paper"),
        Example(
            "refemu generate -o vec --unit ovp_decoder", "golden vectors for your own version of this block", long=True
        ),
        Example("refemu --version --json", "version details for bug reports"),
    ),
    "refemu list": (
        Example("refemu list", "formats, units, schemes and models"),
        Example("refemu list units --json", "units as JSON; `refemu schema list` describes it"),
    ),
    "refemu show": (
        Example("refemu show INT4", "all codes of a format"),
        Example("refemu show OVP_INT4 0x85", "one pair of codes: an outlier and its victim"),
        Example("refemu show K8V4", "the stored fields of a block format"),
        Example("refemu show page K8V4 --byte 4100", "the meaning of one byte of a page of the KV cache"),
    ),
    "refemu generate": (
        Example("refemu generate -o vec --unit ovp_decoder --hex", "every kind of case, with files for $readmemh"),
        Example(
            "refemu generate -o vec --unit orizuru:n=16,k=2 --kinds edge,random --seed 7",
            "your own sizes, two kinds of cases",
        ),
        Example("refemu generate --stdout --unit ovp_decoder:int4 > stimulus.txt", "stimulus for a device on a pipe"),
        Example(
            "refemu generate -o campaign --unit outlier_decoder --cases 10000 --workers 2",
            "a random campaign in two processes; rerun the command to resume it",
            long=True,
        ),
    ),
    "refemu check": (
        Example("refemu check vec", "regenerate all sets in vec and compare"),
        Example(
            "refemu check --stdin --unit ovp_decoder:int4 --rows 3 --explain < answers.txt",
            "compare three answers of a device, and diagnose the wrong one",
            code=1,
        ),
    ),
    "refemu diff": (
        Example(f"refemu diff {_SET} dut.npz", "the first wrong row, decoded", code=1),
        Example(f"refemu diff {_SET} dut.npz --explain", "also a diagnosis of the device", code=1),
        Example(f"refemu diff before/ovp_decoder-int4 {_SET} --cases", "the cases that changed between two versions"),
    ),
    "refemu explain": (
        Example("refemu explain ovp_decoder", "a unit: ports, parameters, events, counters, decisions"),
        Example("refemu explain D-olive-19", "a detail that a paper leaves open, and what refemu does"),
        Example("refemu explain harmonia-kv4.prefill_window", "a parameter of a scheme"),
        Example("refemu explain victim", "a term"),
    ),
    "refemu grade": (
        Example(f"refemu grade {_SET} --class bits,lanes,order", "three classes of simple faults"),
        Example(f"refemu grade {_SET} --strict", "all classes; exit code 1 also if a fault is undecided", long=True),
        Example(
            "refemu grade stimulus.npz --unit ovp_decoder --class bits --write-missing new",
            "grade your own stimulus, and write rows that detect what it misses",
            code=1,
        ),
    ),
    "refemu prove": (
        Example("refemu prove ovp_decoder ovp_decoder.v", "all inputs of a decoder", program="yosys", solver=True),
        Example(
            "refemu prove ovp_decoder ovp_decoder.v --set D-olive-20=saturate --out wrong",
            "compare with a variant of a decision; write inputs that refute it",
            code=1,
            program="yosys",
            solver=True,
        ),
    ),
    "refemu report": (
        Example(
            "refemu report vec --grade none --html report.html",
            "an HTML page; exit code 2, since a set has no answer",
            2,
        ),
        Example("refemu report vec --grade none --junit report.xml --json -", "for a CI server, and for a program", 2),
    ),
    "refemu export": (
        Example(f"refemu export csv {_SET} -o rows.csv", "a set as a table"),
        Example("refemu export rtl ovp_decoder -o bench", "a Verilog testbench for your ovp_decoder.v"),
    ),
    "refemu export testfloat": (
        Example(f"refemu export testfloat {_SET} -o rows.txt", "hex words in the format of TestFloat"),
        Example(f"refemu export testfloat {_SET} > rows.txt", "the same, through standard output"),
    ),
    "refemu export csv": (
        Example(f"refemu export csv {_SET} -o rows.csv", "a header, then decimal numbers"),
        Example(f"refemu export csv {_SET} > rows.csv", "the same, through standard output"),
    ),
    "refemu export jsonl": (
        Example(f"refemu export jsonl {_SET} -o rows.jsonl", "one JSON object per row"),
        Example(f"refemu export jsonl {_SET} > rows.jsonl", "the same, through standard output"),
    ),
    "refemu export rtl": (
        Example("refemu export rtl ovp_decoder -o bench", "then: fill in bench/ovp_decoder.v, run make there"),
        Example(
            "refemu export rtl ovp_decoder -o bench2 --map core.json --latency 2",
            "a core with its own port names and a latency of two cycles",
        ),
    ),
    "refemu export c": (
        Example("refemu export c ovp_decoder -o in_c", "then: fill in in_c/ovp_decoder.c"),
        Example("refemu export c ovp_decoder --config int8 -o in_c8", "another configuration"),
    ),
    "refemu export sv": (
        Example("refemu export sv ovp_decoder -o sv", "then: make -C sv -f sv.mk"),
        Example("refemu export sv orizuru:n=16,k=2 -o sv16", "a unit of your size"),
    ),
    "refemu export suite": (
        Example(f"refemu export suite {_SET} -o suite", "then: python suite/run.py suite/*.json device.py"),
        Example("refemu export suite vec -o suite", "every set of a folder"),
    ),
    "refemu export shell": (
        Example(f"refemu export shell {_SET} -o made --map core.json", "as the Makefile of a testbench calls it"),
        Example(f"refemu export shell {_SET} -o made --waive D-olive-20", "a mask for a waiver"),
    ),
    "refemu export dpi": (
        Example("refemu export dpi ovp_decoder -o live", "then: make -C live verilator DEVICE=my_decoder.v"),
        Example("refemu export dpi orizuru:n=16,k=2 -o live2 --registers", "a unit of your size, with its registers"),
    ),
    "refemu export formal": (
        Example(
            "refemu export formal ovp_decoder -o formal",
            "then: add ovp_decoder.v, run yosys -s ovp_decoder.ys",
            solver=True,
        ),
        Example("refemu export formal olive_mac:saturate -o formal_mac", "a unit with registers, in one configuration"),
    ),
    "refemu serve": (
        Example("refemu serve orizuru:n=16,k=2", "as the client of `refemu export dpi` starts it", long=True),
        Example("refemu serve ovp_decoder --care", "with a mask of the bits that a device must get right", long=True),
    ),
    "refemu step": (
        Example("refemu step ovp_decoder --input pair=0x85,0xd5 --input bias=2", "two events, all ports"),
        Example("refemu step orizuru --html orizuru.html", "a page with drawings; the arrow keys step through it"),
        Example(
            "refemu step orizuru --break 'root_max_valid == 1' --vcd wave.vcd",
            "up to the first valid maximum, with a waveform",
        ),
        Example(f"refemu step ovp_decoder --case {_SET}:paper/two-normal-values/0", "the inputs of one case of a set"),
    ),
    "refemu view": (
        Example(f"refemu view {_SET} --html rows.html", "the rows of a set"),
        Example(f"refemu view {_SET} --html rows.html --answers dut.npz", "next to the answers of a device", 1),
    ),
    "refemu machine": (
        Example(
            "refemu machine --scheme olive-4 --tokens 8", "block 0 of the model `tiny`, a prompt of 8 tokens", long=True
        ),
        Example(
            "refemu machine --scheme kllm-a4 --phase decode --layer 1", "block 1, the token after a prompt", long=True
        ),
    ),
    "refemu cost": (
        Example("refemu cost --scheme olive-4 --tokens 8", "a prompt of 8 tokens", long=True),
        Example("refemu cost --scheme kllm-a4 --phase decode --json", "the token after a prompt, as JSON", long=True),
        Example(
            "refemu cost --shape llama-2-7b --scheme kllm-a4 --phase decode --batch 16",
            "a model of known sizes, without weights: time, bytes, bound, energy",
            long=True,
        ),
        Example(
            "refemu cost --shape llama-7b --scheme kllm-a4 --plot gantt.svg",
            "a prompt of 2,048 tokens, the schedule of a block as a Gantt chart",
            long=True,
        ),
    ),
    "refemu simulate": (
        Example(
            "refemu simulate --rate 2 --requests 20 --generate 200",
            "requests at random on an L40, Llama-2-7B",
            long=True,
        ),
        Example(
            "refemu simulate --scheme fp16 --rate 2 --requests 20 --generate 200 --json",
            "the paged cache without compression, as JSON",
            long=True,
        ),
    ),
    "refemu ppl": (
        Example(
            "refemu ppl --model tiny --scheme harmonia-kv8 --over fp16 --win 32",
            "the built-in model under two schemes, and the change between them",
        ),
        Example(
            "refemu ppl --model tiny --scheme leankv --text book.txt --win 64 --prefill 32",
            "your text under a scheme; the second half of each window is decoded",
        ),
        Example("refemu ppl --model tiny --text - --win 64 < book.txt", "a text from standard input"),
        Example(
            "refemu ppl --scheme olive-4 --win 32 --windows 1",
            "a trained model; first: refemu models fetch smollm2-135m",
            long=True,
            needs="smollm2-135m",
        ),
    ),
    "refemu generate-text": (
        Example('refemu generate-text --model tiny --prompt "The sea" --tokens 8', "greedy; the same bits everywhere"),
        Example(
            "refemu generate-text --temperature 0.8 --top-k 40 --seed 7 --tokens 16",
            "sampled by a trained model; first: refemu models fetch smollm2-135m",
            long=True,
            needs="smollm2-135m",
        ),
    ),
    "refemu study": (
        Example("refemu study olive --model tiny --tokens 0", "where the outliers of the weights are"),
        Example("refemu study mix --model tiny --win 32 --prefill 16 --schemes fp16 olive-4", "two pairs"),
    ),
    "refemu study olive": (
        Example("refemu study olive --model tiny --tokens 0 --csv tables", "only the weights, also as CSV"),
        Example(
            "refemu study olive --model tiny --windows 1 --win 32 --only ladder", "only the perplexities", long=True
        ),
    ),
    "refemu study accuracy": (
        Example(
            "refemu study accuracy --sentences 10",
            "first: refemu models fetch all-minilm-l6-v2, and film-reviews",
            long=True,
            needs="all-minilm-l6-v2 film-reviews",
        ),
        Example(
            "refemu study accuracy --sentences 10 --json",
            "the tables as JSON",
            long=True,
            needs="all-minilm-l6-v2 film-reviews",
        ),
    ),
    "refemu study kllm": (
        Example("refemu study kllm --model tiny --windows 1 --win 32 --only ladder", "perplexities", long=True),
        Example(
            "refemu study kllm --model tiny --windows 1 --win 32 --only orizuru", "comparisons of Orizuru", long=True
        ),
    ),
    "refemu study leankv": (
        Example("refemu study leankv --model tiny --win 64 --prefill 32 --only pairs", "precision pairs", long=True),
        Example("refemu study leankv --model tiny --win 64 --prefill 32 --figure fig1", "data of Fig. 1", long=True),
    ),
    "refemu study harmonia": (
        Example("refemu study harmonia --model tiny --windows 1 --win 32 --only mantissas", "mantissa bits", long=True),
        Example(
            "refemu study harmonia --model tiny --only dataflows --csv tables", "data moved, also as CSV", long=True
        ),
    ),
    "refemu study mix": (
        Example("refemu study mix --model tiny --win 32 --prefill 16 --schemes olive-4+leankv", "one pair"),
        Example("refemu study mix --model tiny --win 32 --prefill 16 --schemes fp16 kllm-a4", "two pairs", long=True),
    ),
    "refemu models": (
        Example("refemu models", "all models, and which are downloaded"),
        Example("refemu models fetch smollm2-135m", "the model of the studies, 93 MB", needs="smollm2-135m"),
        Example("refemu models prepared --json", "the cache of prepared models, as JSON"),
    ),
    "refemu new-unit": (
        Example("refemu new-unit my_block", "a package in refemu-my-block; its README.md describes each file"),
        Example("refemu new-unit decoder -o hardware/decoder", "in a folder of your choice"),
    ),
    "refemu completion": (
        Example("refemu completion bash > refemu.bash", "then, in ~/.bashrc: source /path/to/refemu.bash"),
        Example("refemu completion zsh > _refemu", "then put _refemu into a folder of $fpath"),
        Example("refemu completion fish > refemu.fish", "then put refemu.fish into ~/.config/fish/completions"),
    ),
    "refemu schema": (
        Example("refemu schema", "all schemas"),
        Example("refemu schema diff > diff.schema.json", "the schema of refemu diff --json"),
    ),
}


def text(prog: str) -> str:
    """Format the examples of a command for its help. prog: its words, such as "refemu export csv"."""
    lines = [f"  {example.line}\n      {example.says}\n" for example in EXAMPLES.get(prog, ())]
    return "".join(["\nexamples:\n", *lines]) if lines else ""
