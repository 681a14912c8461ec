// Output-stationary array of 4 x 4 elements, int4 by flint4 pairs, behind valid/ready: it takes a product of 4 x 6 by
// 6 x 4 whole, feeds it from two borders, and offers the sums as they stand in the elements.
// [olive section 4.3, Fig. 8]
// +BUG=<n> chooses a bug as the simulation starts, 0 none.
`timescale 1ns/1ps

module olive_systolic_4x4 (
  input  wire         clk,
  input  wire         rst,
  input  wire         in_valid,
  output wire         in_ready,
  output wire         out_valid,
  input  wire         out_ready,
  input  wire [95:0]  a_pairs,  // rows of A, int4
  input  wire [95:0]  b_pairs,  // columns of B, flint4
  input  wire [3:0]   bias_a,
  input  wire [3:0]   bias_b,
  output wire [511:0] d,
  output wire [15:0]  overflow,
  output wire         illegal
);
  localparam SKEW = 1, HALVES = 2, KEEPS = 3, LAST = 4, EARLY = 5, BUSY = 6, ILLEGAL = 7, SATURATES = 8, RESET = 9;
`ifdef SYNTHESIS
  localparam bug = 0;
`else
  integer bug;
  initial if (!$value$plusargs("BUG=%d", bug)) bug = 0;
`endif

  localparam K = 6, CYCLES = K + 4 + 4 - 2;  // until the element in the far corner has its last product (D-olive-39)
  reg [3:0] cycle;
  reg working, done;
  reg [95:0] a_held, b_held;
  reg [3:0] bias_a_held, bias_b_held;

  assign in_ready = !working && (!done || out_ready) || bug == BUSY;
  assign out_valid = done;
  wire takes = in_valid && in_ready;
  wire ends = cycle == (bug == EARLY ? CYCLES - 3 : CYCLES - 1);
  always @(posedge clk)
    if (rst) begin
      cycle <= 0;
      done <= 0;
      if (bug != RESET) working <= 0;
    end else begin
      if (takes) {a_held, b_held, bias_a_held, bias_b_held} <= {a_pairs, b_pairs, bias_a, bias_b};
      working <= takes || (working && !ends);
      cycle <= takes ? 4'd0 : cycle + 4'd1;
      done <= (working && ends && !takes) || (done && !out_ready);
    end

  // {valid, exponent, integer} of what enters a line; the border's lines begin a cycle after each other
  wire [8:0] from_west [0:3];
  wire [8:0] from_north [0:3];
  wire [7:0] bad;
  genvar g, h;
  generate
    for (g = 0; g < 4; g = g + 1) begin : border
      wire [3:0] start = bug == SKEW && g == 2 ? 4'd1 : g;
      systolic_border #(.FLINT(0)) west (.cycle(cycle - start), .working(working), .halves(bug == HALVES),
        .pairs(a_held[24*g +: 24]), .bias(bias_a_held), .enters(from_west[g]), .bad(bad[g]));
      systolic_border #(.FLINT(1)) north (.cycle(cycle - start), .working(working), .halves(1'b0),
        .pairs(b_held[24*g +: 24]), .bias(bias_b_held), .enters(from_north[g]), .bad(bad[4 + g]));
    end
  endgenerate

  wire [8:0] east [0:15];
  wire [8:0] south [0:15];
  generate
    for (g = 0; g < 4; g = g + 1) begin : array_row
      for (h = 0; h < 4; h = h + 1) begin : array_column
        wire [8:0] a, b;
        if (h == 0) begin : first_column
          assign a = from_west[g];
        end else begin : other_column
          assign a = east[4*g + h - 1];
        end
        if (g == 0) begin : first_row
          assign b = from_north[h];
        end else begin : other_row
          assign b = south[4*g + h - 4];
        end
        systolic_element element (.clk(clk), .clear(rst || takes && bug != KEEPS), .working(working),
          .last(bug == LAST), .saturates(bug == SATURATES), .a(a), .b(b), .east(east[4*g + h]), .south(south[4*g + h]),
          .acc(d[32*(4*g + h) +: 32]), .overflow(overflow[4*g + h]));
      end
    end
  endgenerate

  reg any;  // sticky over the operation
  always @(posedge clk)
    if (rst || takes) any <= 0;
    else if (working && (bug == ILLEGAL ? |bad[3:0] : |bad)) any <= 1;
  assign illegal = any;
endmodule

// Decoder of a border line: three pairs, the left element of each at once and the right one a cycle later (D-olive-38).
module systolic_border #(
  parameter FLINT = 0
) (
  input  wire [3:0]  cycle,  // since this line began; before, above 5
  input  wire        working,
  input  wire        halves,
  input  wire [23:0] pairs,
  input  wire [3:0]  bias,
  output wire [8:0]  enters,
  output wire        bad
);
  wire valid = working && cycle < 4'd6;
  wire right = cycle[0] ^ halves;
  wire [7:0] pair = cycle[2:1] == 2'd0 ? pairs[7:0] : cycle[2:1] == 2'd1 ? pairs[15:8] : pairs[23:16];
  wire [7:0] exponent, base_int;
  wire illegal;
  ovp_decoder #(.FLINT(FLINT)) decoder (
    .pair(pair), .bias(bias), .exponent(exponent), .base_int(base_int), .illegal(illegal));
  assign enters = !valid ? 9'd0 : right ? {1'b1, exponent[7:4], base_int[7:4]} : {1'b1, exponent[3:0], base_int[3:0]};
  assign bad = valid && illegal;
endmodule

// An element: the exact product is added to 32 bits, and operands go on east and south.
module systolic_element (
  input  wire               clk,
  input  wire               clear,
  input  wire               working,
  input  wire               last,
  input  wire               saturates,
  input  wire        [8:0]  a,
  input  wire        [8:0]  b,
  output reg         [8:0]  east,
  output reg         [8:0]  south,
  output reg  signed [31:0] acc,
  output reg                overflow
);
  wire signed [7:0] product = $signed(a[3:0]) * $signed(b[3:0]);
  wire [4:0] shift = {1'b0, a[7:4]} + {1'b0, b[7:4]};
  wire signed [38:0] total = {{7{acc[31]}}, acc} + ({{31{product[7]}}, product} <<< shift);
  wire leaves = total[38:31] != {8{total[31]}};
  always @(posedge clk)
    if (clear) {east, south, acc, overflow} <= 0;
    else begin
      east <= a;
      south <= b;
      if (working && a[8] && b[8]) begin
        acc <= saturates && leaves ? {total[38], {31{!total[38]}}} : total[31:0];  // D-olive-33: wraps
        overflow <= leaves || (overflow && !last);
      end
    end
endmodule
