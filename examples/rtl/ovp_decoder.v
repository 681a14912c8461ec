// Outlier-victim pair decoder, int4 or flint4 beside E2M1 outliers: two codes to two exponent-integer pairs.
// [olive section 4.2, Fig. 6b, Fig. 7]
`timescale 1ns/1ps

module ovp_decoder #(
  parameter FLINT = 0  // of normal values: 1 flint4, 0 int4
) (
  input  wire [7:0] pair,      // left element in the low half (D-olive-1)
  input  wire [3:0] bias,
  output wire [7:0] exponent,  // lane 0, the left element, in the low half
  output wire [7:0] base_int,
  output wire       illegal    // an identifier beside magnitude 0 (D-olive-18)
);
  localparam [3:0] IDENTIFIER = 4'b1000;
  wire [3:0] left = pair[3:0], right = pair[7:4];

  ovp_lane #(.FLINT(FLINT)) lane0 (
    .code(left), .partner(right), .bias(bias), .exponent(exponent[3:0]), .base_int(base_int[3:0]));
  ovp_lane #(.FLINT(FLINT)) lane1 (
    .code(right), .partner(left), .bias(bias), .exponent(exponent[7:4]), .base_int(base_int[7:4]));

  assign illegal = (left == IDENTIFIER || right == IDENTIFIER) && left[2:0] == 0 && right[2:0] == 0;
endmodule

module ovp_lane #(
  parameter FLINT = 0
) (
  input  wire [3:0] code,
  input  wire [3:0] partner,
  input  wire [3:0] bias,
  output reg  [3:0] exponent,
  output reg  [3:0] base_int
);
  localparam [3:0] IDENTIFIER = 4'b1000;
  wire [3:0] magnitude = code[2:0] == 0 ? 4'd0 : {3'b001, code[0]};  // hidden one and mantissa

  always @* begin
    if (code == IDENTIFIER) begin  // a victim: its value is 0, and so is its exponent (D-olive-19)
      exponent = 4'd0;
      base_int = 4'd0;
    end else if (partner == IDENTIFIER) begin  // an outlier; the exponent wraps (D-olive-20)
      exponent = bias + {2'b00, code[2:1]};
      base_int = code[3] ? -magnitude : magnitude;
    end else if (FLINT != 0) begin  // the magnitudes 0 1 2 3 16 8 4 6 (D-olive-16)
      case (code[2:0])
        3'b100: {exponent, base_int} = {4'd4, 4'd1};
        3'b101: {exponent, base_int} = {4'd2, 4'd2};
        3'b110: {exponent, base_int} = {4'd0, 4'd4};
        3'b111: {exponent, base_int} = {4'd0, 4'd6};
        default: {exponent, base_int} = {4'd0, 1'b0, code[2:0]};
      endcase
      if (code[3]) base_int = -base_int;
    end else begin
      exponent = 4'd0;
      base_int = code;
    end
  end
endmodule
