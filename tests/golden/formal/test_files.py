"""Files of a reference."""

import pytest

from refemu.golden.formal import files
from tests.golden.formal.formal_references import needs_solver, reference_of

pytestmark = [pytest.mark.long, needs_solver]


def test_files_have_unit_names_and_no_marks() -> None:
    texts = files.files(reference_of("concat:a4"))

    assert sorted(texts) == sorted(
        f"concat{end}"
        for end in (
            *("_ref.sv", "_props.sv", "_ref.c", "_ref.smt2"),
            *(".sby", ".ys", "_jaspergold.tcl", "_vcformal.tcl"),
        )
    )
    assert not any(b"${" in text or b"$unit" in text for text in texts.values())


def test_scripts_of_untested_tools_say_so() -> None:
    texts = files.files(reference_of("concat:a4"))

    assert [text.startswith(b"# UNTESTED") for name, text in texts.items() if name.endswith(".tcl")] == [True, True]
