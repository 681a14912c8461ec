// Floating point of the PE: rounded once, to nearest, ties to even (D-harmonia-7, -8, -10).
`timescale 1ns/1ps

// p * 2^power as fp16. The quantum is that of the leading one, at least 2^-24; what is below it is rounded away.
module fp16_from_scaled (
  input  wire signed [21:0] p,
  input  wire signed [6:0]  power,     // -42 to 22
  output wire [15:0]        half,
  output wire               overflow,  // the result is infinite
  output wire               underflow  // below the normal numbers, and not exact
);
  wire [21:0] magnitude = p < 0 ? -p : p;
  reg signed [7:0] top, quantum;
  integer i;
  always @* begin
    top = 0;
    for (i = 0; i < 22; i = i + 1)
      if (magnitude[i]) top = 8'(i);
    quantum = top + power - 8'sd10;
    if (quantum < -8'sd24) quantum = -8'sd24;
  end

  wire [7:0] shift = quantum - power + 8'sd10;  // 0 to 28, of a number ten places up
  wire [32:0] raised = {magnitude, 11'd0};      // and one more place, for the bit that rounds
  wire [32:0] kept = raised >> shift;
  wire sticky = (raised & ~({33{1'b1}} << shift)) != 0;
  wire up = kept[0] && (sticky || kept[1]);
  wire [16:0] field = {9'd0, quantum + 8'sd24};
  wire [16:0] word = (field << 10) + kept[17:1] + {16'd0, up};  // a carry goes on into the exponent
  assign overflow = p != 0 && word >= 17'h07c00;
  assign underflow = p != 0 && word < 17'h00400 && (kept[0] || sticky);
  assign half = p == 0 ? 16'h0000 : {p < 0, overflow ? 15'h7c00 : word[14:0]};
endmodule

// Product of two fp16 words as fp32: 22 bits and exponents from -48 up, so it is exact. `b` is finite.
module fp16_product (
  input  wire [15:0] a,
  input  wire [15:0] b,
  output wire [31:0] y
);
  wire sign = a[15] ^ b[15];
  wire infinite = a[14:10] == 5'd31;
  wire [21:0] product = {11'd0, a[14:10] != 5'd0, a[9:0]} * {11'd0, b[14:10] != 5'd0, b[9:0]};
  wire [7:0] weight_a = a[14:10] == 5'd0 ? 8'd1 : {3'd0, a[14:10]};
  wire [7:0] weight_b = b[14:10] == 5'd0 ? 8'd1 : {3'd0, b[14:10]};
  reg [7:0] top;
  integer i;
  always @* begin
    top = 0;
    for (i = 0; i < 22; i = i + 1)
      if (product[i]) top = 8'(i);
  end
  wire [7:0] exponent = top + weight_a + weight_b + 8'd77;
  wire [23:0] fraction = {2'd0, product} << (8'd23 - top);
  assign y = infinite ? (b[14:0] == 0 ? 32'h7fc00000 : {sign, 31'h7f800000}) :
             product == 0 ? {sign, 31'd0} : {sign, exponent, fraction[22:0]};
endmodule

// IEEE sum of two fp32 words with subnormals; NaN is 7fc00000.
module fp32_add (
  input  wire [31:0] a,
  input  wire [31:0] b,
  output wire [31:0] y
);
  wire swap = b[30:0] > a[30:0];
  wire [31:0] more = swap ? b : a;
  wire [31:0] less = swap ? a : b;
  wire subtract = more[31] ^ less[31];
  wire [7:0] exponent = more[30:23] == 0 ? 8'd1 : more[30:23];
  wire [7:0] distance = exponent - (less[30:23] == 0 ? 8'd1 : less[30:23]);
  wire [26:0] first = {more[30:23] != 0, more[22:0], 3'd0};  // three places more: guard, round, sticky
  wire [26:0] second = {less[30:23] != 0, less[22:0], 3'd0};
  wire lost = (second & ~({27{1'b1}} << distance)) != 0;
  wire [26:0] aligned = (second >> distance) | {26'd0, lost};
  wire [27:0] sum = subtract ? {1'b0, first} - {1'b0, aligned} : {1'b0, first} + {1'b0, aligned};

  reg [7:0] zeros, left;
  integer i;
  always @* begin
    zeros = 8'd27;
    for (i = 0; i < 27; i = i + 1)
      if (sum[i]) zeros = 8'd26 - 8'(i);
    left = zeros < exponent ? zeros : exponent - 8'd1;  // no further than to the subnormals
  end
  wire [26:0] scaled = sum[27] ? {sum[27:2], sum[1] | sum[0]} : sum[26:0] << left;
  wire [8:0] weight = sum[27] ? {1'b0, exponent} : {1'b0, exponent} - {1'b0, left} - 9'd1;  // of the field, less one
  wire up = scaled[2] && (scaled[3] || scaled[1] || scaled[0]);
  wire [31:0] word = {weight, 23'd0} + {8'd0, scaled[26:3]} + {31'd0, up};  // a carry goes on into the exponent

  wire nan = a[30:0] > 31'h7f800000 || b[30:0] > 31'h7f800000 || (more[30:23] == 8'hff && less[30:23] == 8'hff && subtract);
  wire infinite = more[30:23] == 8'hff || word >= 32'h7f800000;
  assign y = nan ? 32'h7fc00000 :
             infinite ? {more[31], 31'h7f800000} :
             sum == 0 ? {more[31] && less[31], 31'd0} : {more[31], word[30:0]};
endmodule
