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

// What the 4-bit ports of the sub-PEs read: INT4 as sign and magnitude, 4-bit mantissas, or both nibbles of 8 bits.
module bfp_operand (
  input  wire [1:0]   mode,
  input  wire [255:0] b,
  input  wire [31:0]  b_sign,
  output wire [31:0]  sign,
  output wire [127:0] high,
  output wire [127:0] low
);
  localparam [1:0] M8W4 = 2'd0, M8M8 = 2'd2;
  genvar i;
  generate
    for (i = 0; i < 32; i = i + 1) begin : lane
      wire [3:0] code = b[8*i +: 4];
      assign sign[i] = mode == M8W4 ? code[3] : b_sign[i];
      assign high[4*i +: 4] = mode == M8M8 ? b[8*i + 4 +: 4] : mode == M8W4 && code[3] ? -code : code;
      assign low[4*i +: 4] = code;
    end
  endgenerate
endmodule

// Exact sum of 32 products of an 8-bit and a 4-bit magnitude with signs: at most 32 * 255 * 15 < 2^17.
module bfp_sub_pe (
  input  wire [31:0]        a_sign,
  input  wire [255:0]       a_mag,
  input  wire [31:0]        b_sign,
  input  wire [127:0]       b_mag,
  output reg  signed [17:0] psum
);
  integer i;
  reg [11:0] product;
  always @* begin
    psum = 0;
    for (i = 0; i < 32; i = i + 1) begin
      product = {4'd0, a_mag[8*i +: 8]} * {8'd0, b_mag[4*i +: 4]};
      psum = a_sign[i] ^ b_sign[i] ? psum - {6'd0, product} : psum + {6'd0, product};
    end
  end
endmodule
