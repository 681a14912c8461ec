// OliVe's array of 4 x 2 elements with types of 4-bit pairs as inputs. [olive section 4.3, section 4.5]
`timescale 1ns/1ps

module olive_systolic_clocked (
  input  wire         clk,
  input  wire         rst,
  input  wire         wide,
  input  wire         drain,
  input  wire [63:0]  west,
  input  wire [3:0]   west_valid,
  input  wire [31:0]  north,
  input  wire [1:0]   north_valid,
  input  wire [3:0]   bias_a,
  input  wire [3:0]   bias_b,
  input  wire         flint_a,
  input  wire         flint_b,
  output wire [63:0]  south,
  output wire [1:0]   south_overflow,
  output wire         illegal
);
  olive_systolic_core core (
    .clk(clk), .rst(rst), .wide(wide), .drain(drain), .west(west), .west_valid(west_valid), .north(north),
    .north_valid(north_valid), .bias_a(bias_a), .bias_b(bias_b), .flint_a(flint_a), .flint_b(flint_b), .south(south),
    .south_overflow(south_overflow), .illegal(illegal));
endmodule
