"""Injected bugs: a small change in the text of a source, each of which the golden set of its design must catch."""

from typing import NamedTuple

from examples.rtl import bfp_array_mutants, block_mutants, orizuru_mutants, pe_lane_mutants


class Mutant(NamedTuple):
    """One bug. `old` occurs once in `file`."""

    design: str  #: name of the golden set
    file: str
    bug: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "ovp_decoder-int4",
        "ovp_decoder.v",
        "elements swapped",
        "left = pair[3:0], right = pair[7:4]",
        "left = pair[7:4], right = pair[3:0]",
    ),
    Mutant(
        "ovp_decoder-int4", "ovp_decoder.v", "hidden one a place too high", "{3'b001, code[0]}", "{3'b010, code[0]}"
    ),
    Mutant(
        "ovp_decoder-int4", "ovp_decoder.v", "exponent field a bit short", "{2'b00, code[2:1]}", "{3'b000, code[1]}"
    ),
    Mutant(
        "ovp_decoder-int4",
        "ovp_decoder.v",
        "exponent saturates",
        "bias + {2'b00, code[2:1]}",
        "bias > 4'd15 - {2'b00, code[2:1]} ? 4'd15 : bias + {2'b00, code[2:1]}",
    ),
    Mutant("ovp_decoder-int4", "ovp_decoder.v", "a victim keeps its code", "base_int = 4'd0", "base_int = code"),
    Mutant(
        "ovp_decoder-int4",
        "ovp_decoder.v",
        "illegal only where both are identifiers",
        "left == IDENTIFIER || right",
        "left == IDENTIFIER && right",
    ),
    Mutant(
        "olive_systolic_clocked-mixed",
        "olive_systolic_core.v",
        "the type of A is that of B",
        ".flint(flint_a)",
        ".flint(flint_b)",
    ),
    Mutant(
        "olive_systolic_clocked-mixed",
        "olive_systolic_core.v",
        "the type holds for the left element alone",
        "element(right, left, wide, flint, bias)",
        "element(right, left, wide, 1'b0, bias)",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "elements of a pair enter in the other order",
        "enters = takes ? {1'b1, element(left, right, wide, flint, bias)}",
        "enters = takes ? {1'b1, element(right, left, wide, flint, bias)}",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "a pair overwrites the element that its line holds",
        "take && !drain && !now[13]",
        "take && !drain",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "a change of width keeps the accumulators",
        "sum = fresh ? 32'sd0 : ",
        "sum = ",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "a drain keeps operands",
        "    {next_a, next_b} = 0;",
        "    {next_a, next_b} = drain ? {a, b} : 0;",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "the last row is drained first to the left column",
        "bottom[32*(n/step) +: 32]",
        "bottom[32*(C - 1 - n/step) +: 32]",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "operands skip an element",
        "fresh ? 14'd0 : a[14*(at - far) +: 14]",
        "fresh ? 14'd0 : a[0 +: 14]",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "overflow is that of the last product",
        "(over[to] && !fresh) || exact",
        "exact",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "an accumulator of 31 bits",
        "next_acc[32*to +: 32] = exact[31:0];",
        "next_acc[32*to +: 32] = {exact[30], exact[30:0]};",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "8-bit outliers have exponents of four bits",
        "if (!eight) exponent[4] = 1'b0;",
        "exponent[4] = 1'b0;",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "the illegal flag is not sticky",
        "if (!drain && (|bad_west || |bad_north)) illegal <= 1'b1;",
        "illegal <= !drain && (|bad_west || |bad_north);",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "the extra adder leaves out one element",
        " + terms[80*(to + C + 1) +: 80]",
        "",
    ),
    Mutant(
        "olive_systolic_clocked-int4_flint4",
        "olive_systolic_core.v",
        "low halves have a sign",
        ": {1'b0, x[3:0]};",
        ": {x[3], x[3:0]};",
    ),
    Mutant("olive_pe8-wrap", "olive_pe8.v", "a low half has a sign", "low_x = {1'b0,", "low_x = {x_int[3],"),
    Mutant("olive_pe8-wrap", "olive_pe8.v", "the extra adder leaves out an element", " + term3;", ";"),
    Mutant("olive_pe8-wrap", "olive_pe8.v", "high halves are four places apart", "+ 7'd8", "+ 7'd4"),
    Mutant("olive_pe8-wrap", "olive_pe8.v", "both cross products have one shift more", "+ 7'd4", "+ 7'd5"),
    Mutant(
        "olive_pe8-wrap",
        "olive_pe4.v",
        "an element of eight bits",
        "assign product = x * y;",
        "assign product = {{2{x[4] ^ y[4]}}, x[3:0]} * y;",
    ),
    Mutant(
        "olive_pe8-wrap",
        "olive_pe8.v",
        "an exponent of five bits",
        "{1'b0, x_exp} + {1'b0, y_exp}",
        "x_exp + y_exp & 6'd31",
    ),
    Mutant(
        "index_counter-w4a4",
        "index_counter_core.v",
        "sum of the lanes a bit short",
        "AMOUNT_BITS + 4",
        "AMOUNT_BITS + 3",
    ),
    Mutant("index_counter-w4a4", "index_counter_core.v", "lanes that are not valid count", "valid[lane] && ", ""),
    Mutant("index_counter-w4a4", "index_counter_core.v", "clear does nothing", "clear ? {COUNTER_BITS{1'b0}} : ", ""),
    Mutant(
        "index_counter-w4a4",
        "index_counter_core.v",
        "clear drops the positions of its cycle",
        "if (rst)",
        "if (rst || clear)",
    ),
    Mutant("index_counter-integer", "index_counter_core.v", "fifteen lanes", "lane < 16", "lane < 15"),
    Mutant(
        "index_counter-integer",
        "index_counter_core.v",
        "amounts a bit short",
        "amount[AMOUNT_BITS*lane +: AMOUNT_BITS]",
        "amount[AMOUNT_BITS*lane +: AMOUNT_BITS-1]",
    ),
    Mutant("bfp_aligner-paper", "bfp_aligner.v", "shift too far by one", "6'd11", "6'd12"),
    Mutant("bfp_aligner-paper", "bfp_aligner.v", "shift a bit short", "wire [5:0] shift", "wire [4:0] shift"),
    Mutant(
        "bfp_aligner-paper",
        "bfp_aligner.v",
        "rounds half up",
        "significand >> shift",
        "({significand, 1'b0} >> shift) + 1 >> 1",
    ),
    Mutant(
        "bfp_aligner-paper",
        "bfp_aligner.v",
        "a subnormal weighs as field 0",
        "weight = field == 5'd0 ? 5'd1 : field",
        "weight = field",
    ),
    Mutant(
        "bfp_aligner-paper",
        "bfp_aligner.v",
        "subnormals flushed",
        "field != 5'd0, x[16*i +: 10]",
        "field != 5'd0, field != 5'd0 ? x[16*i +: 10] : 10'd0",
    ),
    Mutant("bfp_aligner-paper", "bfp_aligner.v", "infinity and NaN are legal", " || field == 5'd31", ""),
    Mutant("bfp_pe-paper", "bfp_accumulator.v", "high nibbles shifted by three", "<<< 4", "<<< 3"),
    Mutant("bfp_pe-paper", "bfp_pe_products.v", "products a bit short", "reg [11:0] product", "reg [10:0] product"),
    Mutant("bfp_pe-paper", "bfp_pe_products.v", "INT4 -8 is 0", "code[3] ? -code", "code[3] ? {1'b0, -code[2:0]}"),
    Mutant("bfp_pe-paper", "bfp_exponent.v", "exponent 0 weighs 0", "a_exp == 5'd0 ? 7'sd1 : ", ""),
    Mutant("bfp_pe-paper", "bfp_accumulator.v", "flags outlive clear", "(clear ? 3'd0 : flags)", "flags"),
    Mutant("bfp_pe-paper", "bfp_pe_float.v", "FP16: ties away from zero", "kept[0] && (sticky || kept[1])", "kept[0]"),
    Mutant("bfp_pe-paper", "bfp_pe_float.v", "FP16: overflow saturates", "overflow ? 15'h7c00", "overflow ? 15'h7bff"),
    Mutant("bfp_pe-paper", "bfp_pe_float.v", "FP16: exact subnormals underflow", " && (kept[0] || sticky);", ";"),
    Mutant(
        "bfp_pe-paper",
        "bfp_pe_float.v",
        "FP32: ties away from zero",
        "scaled[2] && (scaled[3] || scaled[1] || scaled[0])",
        "scaled[2]",
    ),
    Mutant("bfp_pe-paper", "bfp_pe_float.v", "FP32: no sticky bit", " | {26'd0, lost}", ""),
    Mutant("free_page_list-paper", "free_page_list_core.v", "wraps a place too late", "sum >= PAGES", "sum > PAGES"),
    Mutant(
        "free_page_list-paper",
        "free_page_list_core.v",
        "count a bit short",
        "amount = count[W-1:0]",
        "amount = {1'b0, count[W-2:0]}",
    ),
    Mutant("free_page_list-paper", "free_page_list_core.v", "one id too many leaves", "i >= amount", "i > amount"),
    Mutant(
        "free_page_list-paper",
        "free_page_list_core.v",
        "end is the place after the last id",
        "place(stop, PAGES - 1)",
        "stop",
    ),
    Mutant(
        "free_page_list-small",
        "free_page_list_core.v",
        "ring of a power of two",
        "W'(sum >= PAGES ? sum - LONG'(PAGES) : sum)",
        "W'(sum)",
    ),
    Mutant(
        "free_page_list-small",
        "free_page_list_core.v",
        "ids come back where the list starts",
        "place(stop, LONG'(i))",
        "place(start, LONG'(i))",
    ),
    *(Mutant(*bug) for bug in block_mutants.BUGS),
    *(Mutant(f"orizuru{config}", *bug) for config, *bug in orizuru_mutants.BUGS),
    *(Mutant(f"pe_lane-{config}", *bug) for config, *bug in pe_lane_mutants.BUGS),
    *(Mutant(f"bfp_pe_array_clocked-{config}", *bug) for config, *bug in bfp_array_mutants.BUGS),
)
