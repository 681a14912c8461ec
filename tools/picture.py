"""Write docs/pictures: drawings in the README, of refemu's layers in CONTRIBUTING.md, of a LeanKV page in docs.

python tools/picture.py            # writes them
"""

from pathlib import Path

from refemu import draw
from refemu.draw.svg import MARGIN, Drawing
from refemu.formats import K8V4, UnifiedPage
from refemu.units import orizuru
from tools.rules.imports import ALLOWED

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs" / "pictures"
#: contents of each layer, the lowest first
LAYERS = {
    "arith": "hardware arithmetic: fp16, float32, sums in stated orders, exact sums",
    "formats": "number formats: values to codes and back",
    "units": "hardware blocks: readable models, compiled forms, cases, variants",
    "prove": "units as terms for a solver: equal to a design for all inputs",
    "draw": "drawings of formats and of states of units",
    "models": "transformers under a scheme, and the accelerators",
    "golden": "sets: make, compare, grade, explain, export, serve",
    "studies": "experiments of the papers on models",
    "harness": "model of lm-evaluation-harness: its tasks under a scheme",
    "testing": "strategies and rules for hypothesis and pytest",
    "cli": "commands",
}
#: functions that a token passes under scheme olive-4, and those that a golden set passes, with their tasks
TENSOR = {
    "models.runtime.Session.append": "token ids to hidden states",
    "models.runtime.decoder": "parts of a transformer, in order",
    "models.schemes.olive.layers.OliveLayers.linear": "the scheme's linear layer",
    "models.schemes.olive.linear.Part.__call__": "encode, multiply exactly, rescale",
    "formats.olive.compiled.ovp.encode_pairs": "values to pairs of codes",
}
SET = {
    "golden.make.generate.generate": "units, configurations, kinds of cases",
    "golden.make.generate.collect": "cases of the unit",
    "golden.make.build.build": "arrays and manifest",
    "golden.make.rows.evaluate": "answers of the unit and its compiled form",
    "golden.files.store.replace": "files of the set: all or none",
}


def pictures() -> dict[str, str]:
    """Drawings by file name: Orizuru at the first pop of the paper's example [kllm Fig. 7], the layers, a page."""
    unit = orizuru.UNIT
    cases = next(iter(unit.stimuli(unit.configs["n8"], "paper")))
    states = unit.trace(unit.configs["n8"], {port: array[:1] for port, array in cases.inputs.items()})
    popped = next(state for state in states if state.event == "pop_max")
    return {
        "orizuru.svg": draw.state(unit, "n8", popped),
        "layers.svg": layers(),
        "leankv-page.svg": draw.page(UnifiedPage(128, K8V4)),
    }


def layers() -> str:
    """The layers with what each may import, and the ways of a tensor and of a set."""
    drawing = Drawing(
        "Layers of refemu", "Each layer with the layers that it may import, and two ways through them.", 760
    )
    drawing.heading("Layers, and what each may import")
    for name in reversed(LAYERS):
        y = drawing.height + 6
        drawing.cell(MARGIN, y, 70, 26, name, "key")
        drawing.text(MARGIN + 80, y + 12, LAYERS[name], "small")
        allowed = ", ".join(each for each in LAYERS if each in ALLOWED[name] - {name})
        drawing.text(MARGIN + 80, y + 25, f"imports {allowed or 'no other layer'}", "small faint")
    for title, way in (
        ("The way of a tensor: a token under olive-4", TENSOR),
        ("The way of a set: refemu generate", SET),
    ):
        drawing.height += 10
        drawing.heading(title)
        for place, (name, meaning) in enumerate(way.items()):
            y = drawing.height + 6
            drawing.cell(MARGIN, y, 380, 24, name, "val")
            drawing.text(MARGIN + 390, y + 16, meaning, "small")
            if place:
                drawing.line(MARGIN + 190, y - 6, MARGIN + 190, y, True)
    return drawing.svg()


def main(place: Path = PLACE) -> None:
    """Write every drawing."""
    place.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (place / name).write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
