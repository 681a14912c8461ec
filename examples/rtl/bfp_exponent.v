// The scale of a group's integer sum. [harmonia section IV-B]
`timescale 1ns/1ps

// Of the power of two that a partial sum counts: each BFP operand gives max(E, 1) - 14 - mantissa bits, INT4 gives 0.
module bfp_exponent (
  input  wire [1:0]        mode,
  input  wire [4:0]        a_exp,
  input  wire [4:0]        b_exp,
  output reg  signed [6:0] power
);
  localparam [1:0] M8W4 = 2'd0, M8M4 = 2'd1;
  wire signed [6:0] a = a_exp == 5'd0 ? 7'sd1 : $signed({2'b00, a_exp});
  wire signed [6:0] b = b_exp == 5'd0 ? 7'sd1 : $signed({2'b00, b_exp});
  always @*
    case (mode)
      M8W4: power = a - 7'sd22;
      M8M4: power = a + b - 7'sd40;
      default: power = a + b - 7'sd44;
    endcase
endmodule
