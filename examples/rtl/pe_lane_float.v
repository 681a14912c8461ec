// Half precision of the PE lane: one rounding to nearest, ties to even, subnormals kept; the only NaN is 7e00.
`timescale 1ns/1ps

// magnitude * 2^power as fp16, with a sign. The quantum is that of the leading one, at least 2^-24.
module fp16_round (
  input  wire               negative,
  input  wire [41:0]        magnitude,
  input  wire signed [7:0]  power,  // -48 to 10
  output wire [15:0]        half
);
  reg signed [7:0] top;
  reg signed [7:0] quantum;
  integer i;
  always @* begin
    top = 0;
    for (i = 0; i < 42; i = i + 1)
      if (magnitude[i]) top = i[7:0];
    quantum = top + power - 8'sd10;
    if (quantum < -8'sd24) quantum = -8'sd24;
  end

  wire [7:0]  shift = quantum - power + 8'sd10;  // of a number ten places up
  wire [52:0] raised = {magnitude, 11'd0};       // and one more place, for the bit that rounds
  wire [52:0] kept = raised >> shift;
  wire        sticky = (raised & ~({53{1'b1}} << shift)) != 0;
  wire        up = kept[0] && (sticky || kept[1]);
  wire [7:0]  binade = quantum + 8'sd24;
  wire [17:0] word = ({10'd0, binade} << 10) + {1'b0, kept[17:1]} + {17'd0, up};  // a carry goes on into the exponent
  assign half = {negative, magnitude == 0 ? 15'd0 : word >= 18'h07c00 ? 15'h7c00 : word[14:0]};
endmodule

module fp16_multiply (
  input  wire [15:0] a,
  input  wire [15:0] b,
  output wire [15:0] y
);
  wire nan = a[14:0] > 15'h7c00 || b[14:0] > 15'h7c00 ||
             (a[14:0] == 15'h7c00 && b[14:0] == 0) || (b[14:0] == 15'h7c00 && a[14:0] == 0);
  wire infinite = a[14:0] == 15'h7c00 || b[14:0] == 15'h7c00;
  wire negative = a[15] ^ b[15];
  wire [21:0] product = {11'd0, a[14:10] != 0, a[9:0]} * {11'd0, b[14:10] != 0, b[9:0]};
  wire [7:0] weight_a = a[14:10] == 0 ? 8'd1 : {3'd0, a[14:10]};
  wire [7:0] weight_b = b[14:10] == 0 ? 8'd1 : {3'd0, b[14:10]};
  wire [7:0] power = weight_a + weight_b - 8'd50;
  wire [15:0] rounded;
  fp16_round round (.negative(negative), .magnitude({20'd0, product}), .power(power), .half(rounded));
  assign y = nan ? 16'h7e00 : infinite ? {negative, 15'h7c00} : rounded;
endmodule

// The sum in units of 2^-24 is exact: 42 bits and a sign.
module fp16_sum (
  input  wire [15:0] a,
  input  wire [15:0] b,
  output wire [15:0] y
);
  function [40:0] units(input [14:0] word);
    units = word[14:10] == 0 ? {31'd0, word[9:0]} : {30'd0, 1'b1, word[9:0]} << (word[14:10] - 5'd1);
  endfunction

  wire [40:0] size_a = units(a[14:0]);
  wire [40:0] size_b = units(b[14:0]);
  wire subtract = a[15] ^ b[15];
  wire less = size_a < size_b;
  wire [41:0] magnitude = !subtract ? {1'b0, size_a} + {1'b0, size_b} : less ? size_b - size_a : size_a - size_b;
  wire negative = magnitude == 0 ? a[15] && b[15] : less ? b[15] : a[15];  // x - x is +0
  wire infinite_a = a[14:0] == 15'h7c00;
  wire infinite_b = b[14:0] == 15'h7c00;
  wire nan = a[14:0] > 15'h7c00 || b[14:0] > 15'h7c00 || (infinite_a && infinite_b && subtract);
  wire [15:0] rounded;
  fp16_round round (.negative(negative), .magnitude(magnitude), .power(-8'sd24), .half(rounded));
  assign y = nan ? 16'h7e00 : infinite_a ? a : infinite_b ? b : rounded;
endmodule
