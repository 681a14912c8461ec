"""Examples that end the help of every command. tests/cli/help/test_examples.py runs each of them.

Files that a reader brings have the same names everywhere: `vec`, sets that `refemu generate -o vec --unit ovp_decoder`
wrote; `before`, sets of an earlier version; `dut.npz`, the answers of a device to vec/ovp_decoder-int4, one of them
wrong; `answers.txt`, answers to `refemu generate --stdout`; `stimulus.npz`, inputs without answers; `core.json`, a port
map; `book.txt`, a text.
"""

from typing import NamedTuple


class Example(NamedTuple):
    """A command line that does something, run where the files above are."""

    line: str
    says: str
    code: int = 0  #: exit code
    long: bool = False  #: takes seconds
    needs: str = ""  #: a model that must have been fetched


_SET = "vec/ovp_decoder-int4"

#: by the words of the command
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "refemu": (
        Example("refemu list units", "the hardware blocks, with their ports"),
        Example("refemu step ovp_decoder", "one block, event by event, on an example of its paper"),
        Example(
            "refemu generate -o vec --unit ovp_decoder", "golden vectors for your own version of this block", long=True
        ),
        Example("refemu --version --json", "all versions that belong into a report of an error"),
    ),
    "refemu list": (
        Example("refemu list", "formats, units, schemes and models"),
        Example("refemu list units --json", "units for a program: refemu schema list says what stands where"),
    ),
    "refemu show": (
        Example("refemu show INT4", "all codes of a format"),
        Example("refemu show OVP_INT4 0x85", "one pair of codes, an outlier and its victim"),
        Example("refemu show K8V4", "the stored fields of a block format"),
        Example("refemu show page K8V4 --byte 4100", "one byte of a page of the KV cache"),
    ),
    "refemu generate": (
        Example("refemu generate -o vec --unit ovp_decoder --hex", "every case there is, with files for $readmemh"),
        Example(
            "refemu generate -o vec --unit orizuru:n=16,k=2 --kinds edge,random --seed 7", "other sizes, two kinds"
        ),
        Example("refemu generate --stdout --unit ovp_decoder:int4 > stimulus.txt", "stimulus for a device on a pipe"),
        Example(
            "refemu generate -o campaign --unit outlier_decoder --cases 10000 --workers 2",
            "a campaign of random cases by two processes; the same command goes on after an interrupt",
            long=True,
        ),
    ),
    "refemu check": (
        Example("refemu check vec", "make all sets below vec anew and compare"),
        Example(
            "refemu check --stdin --unit ovp_decoder:int4 --rows 3 --explain < answers.txt",
            "answers of a device, each behind its stimulus; one of them is wrong",
            code=1,
        ),
    ),
    "refemu diff": (
        Example(f"refemu diff {_SET} dut.npz", "the first wrong row, decoded", code=1),
        Example(f"refemu diff {_SET} dut.npz --explain", "also what the device may have done", code=1),
        Example(f"refemu diff before/ovp_decoder-int4 {_SET} --cases", "the cases that changed between two versions"),
    ),
    "refemu explain": (
        Example("refemu explain ovp_decoder", "a unit: ports, parameters, events, counters, decisions"),
        Example("refemu explain D-olive-19", "what a paper leaves open, and what is done"),
        Example("refemu explain harmonia-kv4.prefill_window", "a parameter of a scheme"),
        Example("refemu explain victim", "a term"),
    ),
    "refemu grade": (
        Example(f"refemu grade {_SET} --class bits,lanes,order", "the simple faults that a set convicts"),
        Example(f"refemu grade {_SET} --strict", "all classes; exit code 1 if a fault passes", code=1, long=True),
        Example(
            "refemu grade stimulus.npz --unit ovp_decoder:int4 --class bits,decisions --write-missing more",
            "your own stimulus, which lets faults pass, and a set of rows that it lacks",
            code=1,
        ),
    ),
    "refemu report": (
        Example("refemu report vec --grade none --html report.html", "a page; the set without an answer is named", 2),
        Example("refemu report vec --grade none --junit report.xml --json -", "for a CI system, and for a program", 2),
    ),
    "refemu export": (
        Example(f"refemu export csv {_SET} -o rows.csv", "a set as a table"),
        Example("refemu export rtl ovp_decoder -o bench", "a Verilog bench for your ovp_decoder.v"),
    ),
    "refemu export testfloat": (Example(f"refemu export testfloat {_SET} -o rows.txt", "hex words, as TestFloat has"),),
    "refemu export csv": (Example(f"refemu export csv {_SET} > rows.csv", "a header, then decimal numbers"),),
    "refemu export jsonl": (Example(f"refemu export jsonl {_SET} -o rows.jsonl", "one JSON object per row"),),
    "refemu export rtl": (
        Example("refemu export rtl ovp_decoder -o bench", "then: fill in bench/ovp_decoder.v, run make there"),
        Example(
            "refemu export rtl ovp_decoder --config int8 -o bench8 --map core.json --latency 2",
            "a core with other names of ports, whose answers come two edges later",
        ),
    ),
    "refemu export c": (Example("refemu export c ovp_decoder -o in_c", "then: fill in in_c/ovp_decoder.c"),),
    "refemu export sv": (Example("refemu export sv ovp_decoder -o sv", "then: make -C sv -f sv.mk"),),
    "refemu export shell": (
        Example(f"refemu export shell {_SET} -o made --map core.json --waive D-olive-20", "as the Makefile of a bench"),
    ),
    "refemu export dpi": (
        Example("refemu export dpi ovp_decoder -o live", "then: make -C live verilator DEVICE=my_decoder.v"),
        Example("refemu export dpi orizuru:n=16,k=2 -o live2 --registers", "a unit of your size, with its registers"),
    ),
    "refemu serve": (
        Example(
            "refemu serve orizuru:n=16,k=2", "as the client of `refemu export dpi` starts it, with pipes", long=True
        ),
        Example("refemu serve ovp_decoder --care", "with a mask of the bits that a device must answer so", long=True),
    ),
    "refemu step": (
        Example("refemu step ovp_decoder --input pair=0x85,0xd5 --input bias=2", "two events, all ports"),
        Example("refemu step orizuru --html orizuru.html", "a page with drawings; open it and press the arrow keys"),
        Example(
            "refemu step ovp_decoder --input pair=0xd5,0x88 --input bias=2 --break 'illegal == 1' --vcd wave.vcd",
            "up to the first illegal pair, with a waveform",
        ),
        Example(f"refemu step ovp_decoder --case {_SET}:paper/two-normal-values/0", "the inputs of one case of a set"),
    ),
    "refemu view": (
        Example(f"refemu view {_SET} --html rows.html", "the rows of a set"),
        Example(f"refemu view {_SET} --html rows.html --answers dut.npz", "with the answers of a device beside", 1),
    ),
    "refemu machine": (
        Example("refemu machine --scheme olive-4 --tokens 8", "the first block of the built-in model", long=True),
        Example("refemu machine --scheme kllm-a4 --phase decode --layer 1", "the token behind a prompt", long=True),
    ),
    "refemu cost": (
        Example("refemu cost --scheme olive-4 --tokens 8", "a prompt of 8 tokens", long=True),
        Example("refemu cost --scheme kllm-a4 --phase decode --json", "the token behind it, for a program", long=True),
    ),
    "refemu ppl": (
        Example("refemu ppl --model tiny --win 32 --windows 2", "the built-in model in fp16"),
        Example(
            "refemu ppl --model tiny --scheme olive-4+leankv --text book.txt --win 64 --prefill 32",
            "a mix, on your text; the second half of each window token by token",
        ),
        Example(
            "refemu ppl --scheme olive-4 --win 32 --windows 1",
            "a real model; refemu models fetch smollm2-135m first",
            long=True,
            needs="smollm2-135m",
        ),
    ),
    "refemu study": (
        Example("refemu study olive --model tiny --tokens 0", "where the outliers of the weights lie"),
        Example("refemu study mix --model tiny --win 32 --windows 1 --prefill 16 --schemes fp16 olive-4", "two mixes"),
    ),
    "refemu study olive": (
        Example("refemu study olive --model tiny --tokens 0 --csv tables", "the weights alone, also as CSV"),
        Example("refemu study olive --model tiny --windows 1 --win 32 --only ladder", "one part", long=True),
    ),
    "refemu study accuracy": (
        Example(
            "refemu study accuracy --sentences 10",
            "refemu models fetch all-minilm-l6-v2 and film-reviews first",
            long=True,
            needs="all-minilm-l6-v2 film-reviews",
        ),
    ),
    "refemu study kllm": (
        Example("refemu study kllm --model tiny --windows 1 --win 32 --only ladder", "perplexities", long=True),
    ),
    "refemu study leankv": (
        Example("refemu study leankv --model tiny --windows 1 --win 64 --prefill 32 --only pairs", "pairs", long=True),
    ),
    "refemu study harmonia": (
        Example("refemu study harmonia --model tiny --windows 1 --win 32 --only mantissas", "mantissas", long=True),
    ),
    "refemu study mix": (
        Example(
            "refemu study mix --model tiny --windows 1 --win 32 --prefill 16 --schemes fp16 olive-4+leankv",
            "two of the pairs",
        ),
    ),
    "refemu models": (
        Example("refemu models", "what there is, and what is here"),
        Example("refemu models fetch smollm2-135m", "the model of the studies, 93 MB", needs="smollm2-135m"),
        Example("refemu models prepared --json", "what is kept prepared"),
    ),
    "refemu new-unit": (
        Example("refemu new-unit my_block", "a package in refemu-my-block; its README.md says what each file holds"),
        Example("refemu new-unit decoder -o hardware/decoder", "in a folder of your choice"),
    ),
    "refemu completion": (
        Example("refemu completion bash > refemu.bash", "then, in ~/.bashrc: source /path/to/refemu.bash"),
        Example("refemu completion zsh > _refemu", "then put _refemu into a folder of $fpath"),
        Example("refemu completion fish > refemu.fish", "then put refemu.fish into ~/.config/fish/completions"),
    ),
    "refemu schema": (
        Example("refemu schema", "every form"),
        Example("refemu schema diff > diff.schema.json", "the schema of refemu diff --json"),
    ),
}


def text(prog: str) -> str:
    """The examples of a command as its help shows them; prog: its words, "refemu export csv"."""
    lines = [f"  {example.line}\n      {example.says}\n" for example in EXAMPLES.get(prog, ())]
    return "".join(["\nexamples:\n", *lines]) if lines else ""
