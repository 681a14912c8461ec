"""Bugs of Harmonia's array: configuration of its golden set, file, bug, text that occurs there once, replacement."""

CORE = "bfp_array_core.v"

BUGS = (
    ("by_slot", CORE, "a tile comes in while columns work", "clear && |held && OVERLAP == 0", "1'b0"),
    ("by_slot", CORE, "every group waits for the array", "clear && |held", "|held"),
    ("by_slot", CORE, "of two columns the left one leaves", "if (ends[i]) begin", "if (ends[i] && !leaves) begin"),
    ("by_slot", CORE, "rows that the tile lacks leave", "leaves && rows_at[ROWS*leaving + i]", "leaves"),
    ("by_slot", CORE, "activations pass the last column of the tile", "|next[COLUMNS-1 : PLACE+1]", "1'b1"),
    ("by_slot", CORE, "a group overwrites one that waits", "present && !(waiting && !begins)", "present"),
    ("by_slot", CORE, "weights overwrite those that wait", "if (b_valid && !(b_waiting && !begins))", "if (b_valid)"),
    ("by_slot", CORE, "a group does not wait for its weights", "!left && waiting && b_waiting", "!left && waiting"),
    ("by_slot", CORE, "the second slot reads the next file", "a = begins ? next : current", "a = next"),
    ("by_slot", CORE, "the second slot reads the next weights", "begins ? next_b : current_b", "next_b"),
    ("by_slot", CORE, "the second slot takes the high nibbles", "second ? low : high", "high"),
    ("by_slot", CORE, "the second slot is of the next group's mode", "at = begins ? next : current", "at = next"),
    ("by_slot", CORE, "M8M8 has one slot", "two = begins && mode_at == M8M8", "two = 1'b0"),
    ("by_slot", CORE, "M8M8 adds in both slots", "works && (mode != M8M8 || second)", "works"),
    ("by_slot", CORE, "high nibbles shifted by three", "(wide_high <<< 4)", "(wide_high <<< 3)"),
    ("by_slot", CORE, "sums outlive clear", "acc_at = begins && clear ? 32'd0 : acc", "acc_at = acc"),
    ("by_slot", CORE, "flags outlive clear", "begins && clear ? 3'd0 : flags", "flags"),
    ("by_slot", CORE, "nibbles of M8M8 in neighbouring sub-PEs", "mode == M8M8 ? {slot[0], slot[1]} : slot", "slot"),
    ("by_slot", CORE, "a pass continues into another mode", " || mode != pass_mode", ""),
    ("by_slot", CORE, "a pass continues into another output", "clear || mode != pass_mode", "mode != pass_mode"),
    ("by_slot", CORE, "columns without weights wait for them", "takes ? entry[PLACE] :", "takes ? 1'b1 :"),
    ("by_slot", CORE, "busy ends with the last group that waits", "arrived || waiting || left", "arrived || waiting"),
    ("by_slot", CORE, "the reset leaves the groups under way", "{arrived, waiting, b_waiting, left} <= 0;", ";"),
    ("overlap", CORE, "tiles never overlap", " && OVERLAP == 0", ""),
    ("overlap", CORE, "of two columns the left one leaves", "if (ends[i]) begin", "if (ends[i] && !leaves) begin"),
    ("overlap", CORE, "the column that leaves is not named", "if (leaves) col <= leaving;", ""),
    ("columns", CORE, "two bits for the number of the column", "leaving = i[CW-1:0]", "leaving = i[CW-1:0] & 4'd3"),
)
