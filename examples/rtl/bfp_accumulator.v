// Shared accumulator of a PE: nibbles meet, FP16, weight factor, FP32 sum over groups. [harmonia section IV-B, Fig. 13]
`timescale 1ns/1ps

module bfp_accumulator (
  input  wire               clk,
  input  wire               rst,
  input  wire        [1:0]  mode,     // 0 M8W4, 1 M8M4, 2 M8M8
  input  wire               clear,    // this group starts an output: accumulator +0, flags 0
  input  wire signed [17:0] psum,     // of a sub-PE; M8M8: of the high nibbles
  input  wire signed [17:0] low,      // M8M8: of the low nibbles
  input  wire        [4:0]  a_exp,
  input  wire        [4:0]  b_exp,
  input  wire        [15:0] w_scale,
  output reg  signed [21:0] p,        // exact sum of the group
  output reg         [31:0] value,    // what was added
  output reg         [31:0] acc,
  output reg         [2:0]  flags     // sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN
);
  localparam [1:0] M8W4 = 2'd0, M8M8 = 2'd2;
  localparam [15:0] ONE = 16'h3c00;
  wire signed [6:0] power;
  wire [15:0] half;
  wire overflow, underflow;
  wire [31:0] scaled, total;

  // Nibbles meet as integers, before any conversion (D-harmonia-11).
  wire signed [21:0] wide_high = {{4{psum[17]}}, psum};
  wire signed [21:0] wide_low = {{4{low[17]}}, low};
  wire signed [21:0] joined = mode == M8M8 ? (wide_high <<< 4) + wide_low : wide_high;

  bfp_exponent exponent (.mode(mode), .a_exp(a_exp), .b_exp(b_exp), .power(power));
  fp16_from_scaled convert (.p(joined), .power(power), .half(half), .overflow(overflow), .underflow(underflow));
  fp16_product scale (.a(half), .b(mode == M8W4 ? w_scale : ONE), .y(scaled));
  fp32_add add (.a(clear ? 32'd0 : acc), .b(scaled), .y(total));

  wire invalid = total[30:0] > 31'h7f800000;
  always @(posedge clk)
    if (rst) {p, value, acc, flags} <= 0;
    else begin
      p <= joined;
      value <= scaled;
      acc <= total;
      flags <= (clear ? 3'd0 : flags) | {invalid, underflow, overflow};
    end
endmodule
