// Reconfigurable PE, modes M8W4, M8M4, M8M8: 32 products, exact sum, FP16, weight factor, FP32 accumulator.
// [harmonia section IV-B, Fig. 13]. One group a clock edge: the slots of a pass, in which sub-PEs share the accumulator,
// are no outputs of the unit, so the two sub-PEs that M8M8 joins stand side by side here.
`timescale 1ns/1ps

module bfp_pe (
  input  wire         clk,
  input  wire         rst,
  input  wire [1:0]   mode,     // 0 M8W4, 1 M8M4, 2 M8M8
  input  wire         clear,    // this group starts an output: accumulator +0, flags 0
  input  wire [31:0]  a_sign,
  input  wire [255:0] a_mag,
  input  wire [4:0]   a_exp,
  input  wire [255:0] b,        // INT4, 4-bit or 8-bit mantissas
  input  wire [31:0]  b_sign,
  input  wire [4:0]   b_exp,
  input  wire [15:0]  w_scale,
  output wire [31:0]  acc,
  output wire [2:0]   flags     // sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN
);
  wire [31:0] sign;
  wire [127:0] high, low;
  wire signed [17:0] sum_high, sum_low;
  wire signed [21:0] p;
  wire [31:0] value;

  bfp_operand operand (.mode(mode), .b(b), .b_sign(b_sign), .sign(sign), .high(high), .low(low));
  bfp_sub_pe sub_high (.a_sign(a_sign), .a_mag(a_mag), .b_sign(sign), .b_mag(high), .psum(sum_high));
  bfp_sub_pe sub_low (.a_sign(a_sign), .a_mag(a_mag), .b_sign(sign), .b_mag(low), .psum(sum_low));
  bfp_accumulator accumulator (
    .clk(clk), .rst(rst), .mode(mode), .clear(clear), .psum(sum_high), .low(sum_low), .a_exp(a_exp), .b_exp(b_exp),
    .w_scale(w_scale), .p(p), .value(value), .acc(acc), .flags(flags));
endmodule
