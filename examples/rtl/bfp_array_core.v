// Output-stationary array of reconfigurable PEs, edge by edge. [harmonia section IV-A (2), section IV-C, Fig. 14a]
// Activations move from column to column, weights reach a column directly; a PE has two register files for activations,
// a column two latches for weights. A group has one slot, in M8M8 two. Sums are FP16, products with the factor FP32.
`timescale 1ns/1ps

module bfp_array_core #(
  parameter ROWS = 8,
  parameter COLUMNS = 16,
  parameter OVERLAP = 0,  // a tile may begin while columns work on the one before (D-harmonia-43)
  parameter CW = COLUMNS > 1 ? $clog2(COLUMNS) : 1
) (
  input  wire                   clk,
  input  wire                   rst,
  input  wire [1:0]             mode,
  input  wire                   clear,
  input  wire                   last,
  input  wire [ROWS-1:0]        a_valid,
  input  wire [COLUMNS-1:0]     col_valid,
  input  wire [32*ROWS-1:0]     a_sign,
  input  wire [256*ROWS-1:0]    a_mag,
  input  wire [5*ROWS-1:0]      a_exp,
  input  wire [COLUMNS-1:0]     b_valid,
  input  wire [256*COLUMNS-1:0] b,
  input  wire [32*COLUMNS-1:0]  b_sign,
  input  wire [5*COLUMNS-1:0]   b_exp,
  input  wire [16*COLUMNS-1:0]  w_scale,
  output reg  [32*ROWS-1:0]     acc,
  output reg  [3*ROWS-1:0]      flags,
  output reg  [ROWS-1:0]        valid,
  output reg  [CW-1:0]          col,
  output wire                   busy,
  output wire [COLUMNS-1:0]     arrived,
  output reg  [4*COLUMNS-1:0]   sub_pes
);
  localparam E = 4 + ROWS + COLUMNS;  // what moves beside the activations: mode, clear, last, rows, columns

  wire [E-1:0] entry = {mode, clear, last, a_valid, col_valid};
  wire [COLUMNS-1:0] held;
  wire blocked = clear && |held && OVERLAP == 0;  // a tile waits until no column has a group (D-harmonia-22)
  assign busy = |held;

  wire [E*(COLUMNS+1)-1:0] passing;         // into column c at c
  wire [COLUMNS:0] present;                 // something comes
  wire [COLUMNS-1:0] takes, begins, works, second, ends;
  wire [ROWS*COLUMNS-1:0] rows_in, rows_at;
  wire [2*COLUMNS-1:0] mode_at;
  wire [COLUMNS-1:0] clear_at;
  wire [256*COLUMNS-1:0] b_at;
  wire [32*COLUMNS-1:0] b_sign_at;
  wire [5*COLUMNS-1:0] b_exp_at;
  wire [16*COLUMNS-1:0] w_scale_at;
  assign passing[E-1:0] = entry;
  assign present[0] = |a_valid && !blocked;

  // Registers of the PEs that others see: the next files, by row and by column, and what a slot made of the sums.
  wire [293*ROWS*(COLUMNS+1)-1:0] files;
  wire [32*ROWS*COLUMNS-1:0] sums;
  wire [3*ROWS*COLUMNS-1:0] sum_flags;
  wire [4*ROWS*COLUMNS-1:0] seats;

  genvar r, c;
  generate
    for (r = 0; r < ROWS; r = r + 1) begin : from_the_ports
      assign files[293*r*(COLUMNS+1) +: 293] = {a_exp[5*r +: 5], a_mag[256*r +: 256], a_sign[32*r +: 32]};
    end
    for (c = 0; c < COLUMNS; c = c + 1) begin : columns
      bfp_array_column #(.ROWS(ROWS), .COLUMNS(COLUMNS), .PLACE(c)) control (.clk(clk), .rst(rst),
        .present(present[c]), .entry(passing[E*c +: E]), .b_valid(b_valid[c]), .b(b[256*c +: 256]),
        .b_sign(b_sign[32*c +: 32]), .b_exp(b_exp[5*c +: 5]), .w_scale(w_scale[16*c +: 16]),
        .takes(takes[c]), .rows_in(rows_in[ROWS*c +: ROWS]), .begins(begins[c]), .works(works[c]), .second(second[c]),
        .ends(ends[c]), .mode_at(mode_at[2*c +: 2]), .clear_at(clear_at[c]), .rows_at(rows_at[ROWS*c +: ROWS]),
        .b_at(b_at[256*c +: 256]), .b_sign_at(b_sign_at[32*c +: 32]), .b_exp_at(b_exp_at[5*c +: 5]),
        .w_scale_at(w_scale_at[16*c +: 16]), .arrived(arrived[c]), .held(held[c]), .leaves(passing[E*(c+1) +: E]),
        .moves(present[c+1]));
      for (r = 0; r < ROWS; r = r + 1) begin : rows
        bfp_array_pe pe (.clk(clk), .rst(rst), .take(takes[c] && rows_in[ROWS*c + r]),
          .file(files[293*(r*(COLUMNS+1) + c) +: 293]), .begins(begins[c] && rows_at[ROWS*c + r]),
          .works(works[c] && rows_at[ROWS*c + r]), .second(second[c]), .mode(mode_at[2*c +: 2]), .clear(clear_at[c]),
          .b(b_at[256*c +: 256]), .b_sign(b_sign_at[32*c +: 32]), .b_exp(b_exp_at[5*c +: 5]),
          .w_scale(w_scale_at[16*c +: 16]), .next(files[293*(r*(COLUMNS+1) + c + 1) +: 293]),
          .sum(sums[32*(r*COLUMNS + c) +: 32]), .sum_flags(sum_flags[3*(r*COLUMNS + c) +: 3]),
          .seat(seats[4*(r*COLUMNS + c) +: 4]));
      end
    end
  endgenerate

  // A column leaves with its last slot; of two in one edge the right one, which began earlier (D-harmonia-43).
  reg [CW-1:0] leaving;
  reg leaves;
  integer i, j;
  always @* begin
    leaving = 0;
    leaves = 0;
    for (i = 0; i < COLUMNS; i = i + 1)
      if (ends[i]) begin
        leaving = i[CW-1:0];
        leaves = 1;
      end
  end

  always @(posedge clk) begin
    {acc, flags, valid, col, sub_pes} <= 0;
    if (!rst) begin
      if (leaves) col <= leaving;
      for (i = 0; i < ROWS; i = i + 1)
        if (leaves && rows_at[ROWS*leaving + i]) begin
          acc[32*i +: 32] <= sums[32*(i*COLUMNS + {{(32-CW){1'b0}}, leaving}) +: 32];
          flags[3*i +: 3] <= sum_flags[3*(i*COLUMNS + {{(32-CW){1'b0}}, leaving}) +: 3];
          valid[i] <= 1;
        end
      for (j = 0; j < COLUMNS; j = j + 1)  // of the rows at work the first one shows the slot
        for (i = ROWS - 1; i >= 0; i = i - 1)
          if (works[j] && rows_at[ROWS*j + i]) sub_pes[4*j +: 4] <= seats[4*(i*COLUMNS + j) +: 4];
    end
  end
endmodule

// Control of one column: the group whose activations came, the group at work, and their weights.
module bfp_array_column #(
  parameter ROWS = 1,
  parameter COLUMNS = 1,
  parameter PLACE = 0,
  parameter E = 4 + ROWS + COLUMNS
) (
  input  wire         clk,
  input  wire         rst,
  input  wire         present,
  input  wire [E-1:0] entry,
  input  wire         b_valid,
  input  wire [255:0] b,
  input  wire [31:0]  b_sign,
  input  wire [4:0]   b_exp,
  input  wire [15:0]  w_scale,
  output wire         takes,      // activations come in
  output wire [ROWS-1:0] rows_in,
  output wire         begins,     // a group begins its slots
  output wire         works,
  output wire         second,     // the second slot of M8M8
  output wire         ends,       // the last slot of an output
  output wire [1:0]   mode_at,    // of the group at work
  output wire         clear_at,
  output wire [ROWS-1:0] rows_at,
  output wire [255:0] b_at,
  output wire [31:0]  b_sign_at,
  output wire [4:0]   b_exp_at,
  output wire [15:0]  w_scale_at,
  output reg          arrived,
  output wire         held,
  output wire [E-1:0] leaves,     // to the next column, an edge later
  output wire         moves
);
  localparam [1:0] M8M8 = 2'd2;
  reg waiting, b_waiting, left;   // left: the second slot of M8M8 is to come
  reg [E-1:0] next, current;
  reg [308:0] next_b, current_b;

  assign begins = !left && waiting && b_waiting;
  assign works = begins || left;
  assign second = left;
  wire [E-1:0] at = begins ? next : current;
  wire last_at;
  wire [COLUMNS-1:0] columns_at;
  assign {mode_at, clear_at, last_at, rows_at, columns_at} = at;
  assign {b_at, b_sign_at, b_exp_at, w_scale_at} = begins ? next_b : current_b;
  wire two = begins && mode_at == M8M8;
  assign ends = works && !two && last_at;

  // Operands that find the file or the latch in use are lost (D-harmonia-41).
  assign takes = present && !(waiting && !begins);
  assign rows_in = entry[COLUMNS +: ROWS];
  assign leaves = next;
  assign held = arrived || waiting || left;
  generate
    if (PLACE + 1 < COLUMNS) begin : inner  // no further than the tile (D-harmonia-44)
      assign moves = arrived && |next[COLUMNS-1 : PLACE+1];
    end else begin : rightmost
      assign moves = 0;
    end
  endgenerate

  always @(posedge clk)
    if (rst) begin
      {arrived, waiting, b_waiting, left} <= 0;
    end else begin
      arrived <= takes;
      waiting <= takes ? entry[PLACE] : waiting && !begins;
      b_waiting <= b_valid || (b_waiting && !begins);
      left <= two;
      if (takes) next <= entry;
      if (b_valid && !(b_waiting && !begins)) next_b <= {b, b_sign, b_exp, w_scale};
      if (begins) {current, current_b} <= {next, next_b};
    end
endmodule

// A PE: one sub-PE works in a slot, seats of a pass of four slots; nibbles of M8M8 meet in its second slot.
module bfp_array_pe (
  input  wire         clk,
  input  wire         rst,
  input  wire         take,
  input  wire [292:0] file,       // exponent, magnitudes, signs
  input  wire         begins,
  input  wire         works,
  input  wire         second,
  input  wire [1:0]   mode,
  input  wire         clear,
  input  wire [255:0] b,
  input  wire [31:0]  b_sign,
  input  wire [4:0]   b_exp,
  input  wire [15:0]  w_scale,
  output reg  [292:0] next,
  output wire [31:0]  sum,        // behind this slot
  output wire [2:0]   sum_flags,
  output wire [3:0]   seat        // the sub-PE that works
);
  localparam [1:0] M8W4 = 2'd0, M8M8 = 2'd2;
  localparam [15:0] ONE = 16'h3c00;
  reg [292:0] current;
  reg signed [17:0] latched;
  reg [31:0] acc;
  reg [2:0] flags;
  reg [1:0] of_pass, pass_mode;

  wire [292:0] a = begins ? next : current;
  wire [31:0] sign;
  wire [127:0] high, low;
  wire signed [17:0] psum;
  bfp_operand operand (.mode(mode), .b(b), .b_sign(b_sign), .sign(sign), .high(high), .low(low));
  bfp_sub_pe sub_pe (.a_sign(a[31:0]), .a_mag(a[287:32]), .b_sign(sign), .b_mag(second ? low : high), .psum(psum));

  // A pass has four slots, one mode and one output; M8M8 takes a sub-PE of each wrapper in turn.
  wire opens = clear || mode != pass_mode || of_pass == 2'd3;
  wire [1:0] slot = begins && opens ? 2'd0 : of_pass + 2'd1;
  assign seat = 4'd1 << (mode == M8M8 ? {slot[0], slot[1]} : slot);

  wire signed [21:0] wide = {{4{psum[17]}}, psum};
  wire signed [21:0] wide_high = {{4{latched[17]}}, latched};
  wire signed [21:0] p = mode == M8M8 ? (wide_high <<< 4) + wide : wide;
  wire signed [6:0] power;
  wire [15:0] half;
  wire overflow, underflow;
  wire [31:0] value, total;
  bfp_exponent exponent (.mode(mode), .a_exp(a[292:288]), .b_exp(b_exp), .power(power));
  fp16_from_scaled convert (.p(p), .power(power), .half(half), .overflow(overflow), .underflow(underflow));
  fp16_product scale (.a(half), .b(mode == M8W4 ? w_scale : ONE), .y(value));

  wire [31:0] acc_at = begins && clear ? 32'd0 : acc;
  wire [2:0] flags_at = begins && clear ? 3'd0 : flags;
  fp32_add add (.a(acc_at), .b(value), .y(total));
  wire adds = works && (mode != M8M8 || second);
  wire invalid = total[30:0] > 31'h7f800000;
  assign sum = adds ? total : acc_at;
  assign sum_flags = adds ? flags_at | {invalid, underflow, overflow} : flags_at;

  always @(posedge clk)
    if (rst) begin
      {acc, flags, pass_mode} <= 0;
      of_pass <= 2'd3;
    end else begin
      if (take) next <= file;
      if (begins) current <= next;
      if (works) begin
        acc <= sum;
        flags <= sum_flags;
        of_pass <= slot;
        pass_mode <= mode;
        latched <= psum;
      end
    end
endmodule
