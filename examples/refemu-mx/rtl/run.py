"""The MXFP4 encoder in Verilog against its golden set, then with each of its planted bugs, which the set must detect.

    python rtl/run.py FOLDER

Needs Icarus Verilog; Verilator and yosys are used where they are. Exit code 1 if the encoder fails, a bug passes, or
yosys cannot synthesize the design; 2 without Icarus.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
DESIGN = HERE / "mx_encoder_e2m1.v"
#: bug -> text of the design, its replacement
BUGS = {
    "the last lane is left out of the largest": (
        "lane < 32; lane = lane + 1) begin\n      each",
        "lane < 31; lane = lane + 1) begin\n      each",
    ),
    "the largest is one lane only": (
        "if (each > field) field",
        "if (lane == 3) field",
    ),
    "the scale is that of 2**1": (
        "field - 8'd2 : 8'd0",
        "field - 8'd1 : 8'd0",
    ),
    "small scales wrap": (
        "(field > 8'd2) ? field - 8'd2 : 8'd0",
        "field - 8'd2",
    ),
    "NaN is infinity only": (
        "if (each == 8'hFF) not_finite",
        "if (each == 8'hFF && x[32*lane +: 23] == 0) not_finite",
    ),
    "elements of a block with NaN stay": (
        "not_finite ? 4'd0 : code",
        "code",
    ),
    "the scale of a block with NaN is the largest": (
        "8'hFF : shared",
        "8'hFE : shared",
    ),
    "a block with NaN may be clipped": (
        "|beyond & ~not_finite",
        "|beyond",
    ),
    "lane 31 is not looked at for clipping": (
        "|beyond & ~not_finite",
        "|beyond[30:0] & ~not_finite",
    ),
    "ties go away from zero": (
        "((rest == half) & whole[0])",
        "(rest == half)",
    ),
    "ties go to zero": (
        " | ((rest == half) & whole[0])",
        "",
    ),
    "elements are truncated": (
        "{3'd0, up}",
        "4'd0",
    ),
    "the lowest bit does not stick": (
        "(rest > half)",
        "(rest[24:1] > half[24:1])",
    ),
    "elements do not saturate": (
        "beyond ? 3'd7 : size[2:0]",
        "size[2:0]",
    ),
    "zeros have no sign": (
        "{x[31], beyond",
        "{x[31] & |size, beyond",
    ),
    "subnormal values are zeros": (
        "{normal, x[22:0]}",
        "{normal, normal ? x[22:0] : 23'd0}",
    ),
    "subnormal values have a leading one": (
        "{normal, x[22:0]}",
        "{1'b1, x[22:0]}",
    ),
    "small elements shift by too little": (
        "(far > 10'sd25) ? 5'd25 : far[4:0]",
        "far[4:0]",
    ),
    "steps above 4 are those above 2": (
        "{1'b0, power[1:0], 1'b0}",
        "4'd2",
    ),
}


def main() -> int:
    """Run all; returns the exit code."""
    if not shutil.which("iverilog"):
        print("rtl: no Icarus Verilog: apt-get install iverilog", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    refemu = [sys.executable, "-m", "refemu"]
    subprocess.run([*refemu, "export", "rtl", "mx_encoder", "--config", "e2m1", "-o", str(folder)], check=True)
    wrong = [] if passes(folder, DESIGN) else ["the encoder fails in Icarus"]
    if shutil.which("verilator") and not passes(folder, DESIGN, "verilator"):
        wrong.append("the encoder fails in Verilator")
    if shutil.which("yosys") and not synthesized():
        wrong.append("the encoder cannot be synthesized")
    text = DESIGN.read_text()
    for number, (bug, (old, new)) in enumerate(BUGS.items(), 1):
        if text.count(old) != 1:
            wrong.append(f"{old!r} must occur once in the design, got {text.count(old)} times")
            continue
        device = folder / f"bug{number}.v"
        device.write_text(text.replace(old, new))
        detected = not passes(folder, device)
        print(f"{'convicted' if detected else 'PASSES   '}  {bug}", flush=True)
        wrong += [] if detected else [f"a bug passes: {bug}"]
    for line in wrong:
        print(f"rtl: {line}", file=sys.stderr)
    if not wrong:
        print(f"rtl: the encoder passes, its {len(BUGS)} bugs are detected")
    return int(bool(wrong))


def passes(folder: Path, device: Path, simulator: str = "icarus") -> bool:
    """Whether a device passes the bench. A device that cannot be built ends the run."""
    (folder / "build" / "mx_encoder.vvp").unlink(missing_ok=True)
    check = [] if device == DESIGN else ["CHECK=true"]  # the set is regenerated once
    words = ["make", "-s", "-C", str(folder), simulator, f"DEVICE={device}", f"PYTHON={sys.executable}", *check]
    ran = run(words)
    if "PASS" in ran.stdout:
        return True
    if "FAIL" not in ran.stdout:
        sys.exit(f"rtl: {device.name} gives no result:\n{ran.stdout}")
    return False


def synthesized() -> bool:
    """Whether yosys makes gates of it, without a latch or a complaint of its check."""
    script = f"read_verilog {DESIGN}; synth -top mx_encoder; check -assert; select -assert-none t:$_DLATCH_*"
    ran = run(["yosys", "-q", "-p", script])
    if ran.returncode:
        print(ran.stdout, file=sys.stderr)
    return ran.returncode == 0


def run(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """A command with all that it prints."""
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ)


if __name__ == "__main__":
    sys.exit(main())
