// A column of eight FP32 results becomes FP16, rounded to nearest, ties to even. [harmonia section IV-A (4), Fig. 12]
`timescale 1ns/1ps

module fp2half_core #(
  parameter SATURATE = 0  // from 65520 on: 1 the largest number, 0 infinity (D-harmonia-13)
) (
  input  wire [255:0] x,
  output wire [127:0] y,
  output wire [7:0]   overflow
);
  genvar i;
  generate
    for (i = 0; i < 8; i = i + 1) begin : lane
      half_of_single #(.SATURATE(SATURATE)) convert (.x(x[32*i +: 32]), .y(y[16*i +: 16]), .overflow(overflow[i]));
    end
  endgenerate
endmodule

module half_of_single #(
  parameter SATURATE = 0
) (
  input  wire [31:0] x,
  output wire [15:0] y,
  output wire        overflow
);
  // From the 23 fraction bits 13 go; below 2^-14, of field 113, one more for each binade; below 2^-25 nothing is left.
  wire [7:0] field = x[30:23];
  wire [7:0] below = field >= 8'd113 ? 8'd0 : field < 8'd101 ? 8'd13 : 8'd113 - field;
  wire [4:0] shift = 5'd12 + below[4:0];  // to the bit that rounds
  wire [23:0] significand = {field != 0, x[22:0]};
  wire [23:0] kept = significand >> shift;
  wire sticky = (significand & ~({24{1'b1}} << shift)) != 0;
  wire up = kept[0] && (sticky || kept[1]);
  wire [7:0] binade = field > 8'd112 ? field - 8'd113 : 8'd0;  // the leading one counts as one more
  wire [17:0] word = {binade, 10'd0} + {6'd0, kept[12:1]} + {17'd0, up};  // a carry goes on into the exponent

  wire nan = x[30:0] > 31'h7f800000;
  wire beyond = field == 8'hff || word >= 18'h07c00;
  assign overflow = field != 8'hff && beyond;  // of finite values
  assign y = nan ? 16'h7e00 : !beyond ? {x[31], word[14:0]} : {x[31], SATURATE != 0 ? 15'h7bff : 15'h7c00};
endmodule
