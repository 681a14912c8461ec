"""The pages of docs/api list the public names."""

from tools import api


def test_pages_are_what_the_tool_writes() -> None:
    """`python -m tools.api` writes them."""
    assert {path.name: path.read_text() for path in api.PLACE.glob("*.md")} == api.pages()


def test_pages_of_models_have_signatures_and_fields() -> None:
    pages = api.pages()

    assert "| `prepare(model, scheme='fp16', backend='jit', calibration=None, progress=None)` |" in pages["models.md"]
    assert "### TextScore\n" in pages["models.md"] and "| `losses` | mean negative log-likeli" in pages["models.md"]
    assert "| `windows` | The perplexity of each window. |" in pages["models.md"]
    assert "progress=silent)`" in pages["studies.md"] and "### " not in pages["formats.md"]


def test_every_name_of_all_is_a_row() -> None:
    page = api.pages()["formats.md"]

    assert "| `Ovp` |" in page and "| `train` |" in page and "| `zeros` |" not in page
    assert "| `CHUNKS` | Dot product operations that one element of D needs |" in api.pages()["units.olive.md"]
    assert "| `levels` | Number of levels of a tree" in api.pages()["units.kllm.md"]
