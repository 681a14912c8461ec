// Multiply-accumulate of exponent-integer pairs: <a, b> x <c, d> = <a + c, b d>, into 32 bits. [olive section 4.4]
`timescale 1ns/1ps

module olive_mac_core #(
  parameter SATURATE = 0  // a sum that leaves 32 bits: 1 stays at the end of the range, 0 wraps (D-olive-33)
) (
  input  wire               clk,
  input  wire               rst,
  input  wire               load,
  input  wire signed [31:0] acc_in,
  input  wire        [3:0]  a_exp,
  input  wire signed [3:0]  a_int,
  input  wire        [3:0]  b_exp,
  input  wire signed [3:0]  b_int,
  output reg         [4:0]  shift,
  output reg  signed [7:0]  product,
  output reg  signed [31:0] acc,
  output reg                overflow
);
  wire [4:0] places = {1'b0, a_exp} + {1'b0, b_exp};
  wire signed [7:0] multiplied = {{4{a_int[3]}}, a_int} * {{4{b_int[3]}}, b_int};
  wire signed [38:0] term = {{31{multiplied[7]}}, multiplied} <<< places;  // at most 64 * 2^30
  wire signed [38:0] total = {{7{acc[31]}}, acc} + term;
  wire leaves = total[38:31] != {8{total[31]}};
  wire [31:0] reduced = SATURATE != 0 && leaves ? {total[38], {31{!total[38]}}} : total[31:0];

  always @(posedge clk)
    if (rst) {shift, product, acc, overflow} <= 0;
    else begin
      shift <= load ? 5'd0 : places;
      product <= load ? 8'sd0 : multiplied;
      acc <= load ? acc_in : reduced;
      overflow <= !load && leaves;
    end
endmodule
