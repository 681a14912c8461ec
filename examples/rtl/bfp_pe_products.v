// Products of the PE: operands of its sub-PEs and their exact sums. [harmonia Fig. 13]
`timescale 1ns/1ps

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
