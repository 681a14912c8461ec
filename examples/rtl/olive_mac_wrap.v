// Exponents and integers of four bits; sums that leave 32 bits wrap. [olive section 4.4]
`timescale 1ns/1ps

module olive_mac (
  input  wire               clk,
  input  wire               rst,
  input  wire               load,
  input  wire signed [31:0] acc_in,
  input  wire        [3:0]  a_exp,
  input  wire signed [3:0]  a_int,
  input  wire        [3:0]  b_exp,
  input  wire signed [3:0]  b_int,
  output wire        [4:0]  shift,
  output wire signed [7:0]  product,
  output wire signed [31:0] acc,
  output wire               overflow
);
  olive_mac_core #(.SATURATE(0)) core (
    .clk(clk), .rst(rst), .load(load), .acc_in(acc_in), .a_exp(a_exp), .a_int(a_int), .b_exp(b_exp), .b_int(b_int),
    .shift(shift), .product(product), .acc(acc), .overflow(overflow));
endmodule
