// Fused multiply-add of IEEE 754 in FP16, as cores of RISC-V have it: five rounding directions, flags. One rounding.
// A product is an integer times 2^-48, an addend one times 2^-24, so the sum of both is exact in 82 bits.
`timescale 1ns/1ps

module fp16_mac (
  input  wire [15:0] a,
  input  wire [15:0] b,
  input  wire [15:0] acc,
  input  wire [2:0]  rm,     // 0 RNE, 1 RTZ, 2 RDN, 3 RUP, 4 RMM (D-arith-22)
  output wire [15:0] y,
  output wire [4:0]  fflags  // NV, DZ, OF, UF, NX (D-arith-23)
);
  localparam [2:0] RDN = 3'd2;
  wire nan_a = a[14:0] > 15'h7c00, nan_b = b[14:0] > 15'h7c00, nan_acc = acc[14:0] > 15'h7c00;
  wire infinite_a = a[14:0] == 15'h7c00, infinite_b = b[14:0] == 15'h7c00, infinite_acc = acc[14:0] == 15'h7c00;
  wire signalling = (nan_a && !a[9]) || (nan_b && !b[9]) || (nan_acc && !acc[9]);
  wire times_zero = (infinite_a && b[14:0] == 0) || (infinite_b && a[14:0] == 0);  // NV beside a NaN too (D-arith-25)
  wire infinite = infinite_a || infinite_b;
  wire sign = a[15] ^ b[15];
  wire opposed = infinite && infinite_acc && sign != acc[15];
  wire nan = nan_a || nan_b || nan_acc || times_zero || opposed;
  wire invalid = signalling || times_zero || (opposed && !nan_a && !nan_b);

  function [11:0] significand(input [14:0] word);
    significand = {1'b0, word[14:10] != 0, word[9:0]};
  endfunction
  function [5:0] places(input [14:0] word);  // above the lowest one
    places = word[14:10] == 0 ? 6'd0 : {1'b0, word[14:10] - 5'd1};
  endfunction

  wire [23:0] multiplied = {12'd0, significand(a[14:0])} * {12'd0, significand(b[14:0])};
  wire [81:0] product = {58'd0, multiplied} << (places(a[14:0]) + places(b[14:0]));
  wire [81:0] addend = {70'd0, significand(acc[14:0])} << (6'd24 + places(acc[14:0]));
  wire subtract = sign ^ acc[15];
  wire less = product < addend;
  wire [81:0] magnitude = !subtract ? product + addend : less ? addend - product : product - addend;
  wire cancels = magnitude == 0;
  wire negative = cancels ? (subtract ? rm == RDN : sign) : less ? acc[15] : sign;

  wire [15:0] rounded;
  wire [2:0] raised;
  fp16_directed round (.negative(negative), .magnitude(magnitude), .rm(rm), .half(rounded), .flags(raised));
  assign y = nan ? 16'h7e00 : infinite ? {sign, 15'h7c00} : infinite_acc ? acc : rounded;
  assign fflags = {invalid, 1'b0, nan || infinite || infinite_acc ? 3'd0 : raised};
endmodule

// magnitude * 2^-48 rounded in a direction; flags OF, UF, NX, with tininess after rounding (D-arith-24).
module fp16_directed (
  input  wire        negative,
  input  wire [81:0] magnitude,
  input  wire [2:0]  rm,
  output wire [15:0] half,
  output wire [2:0]  flags
);
  localparam [2:0] RNE = 3'd0, RTZ = 3'd1, RDN = 3'd2, RUP = 3'd3;
  reg [6:0] top;
  integer i;
  always @* begin
    top = 0;
    for (i = 0; i < 82; i = i + 1)
      if (magnitude[i]) top = i[6:0];
  end

  function away(input [2:0] direction, input minus, input odd, input half_way, input rest);
    case (direction)
      RNE: away = half_way && (rest || odd);
      RTZ: away = 1'b0;
      RDN: away = minus && (half_way || rest);
      RUP: away = !minus && (half_way || rest);
      default: away = half_way;
    endcase
  endfunction

  // The last place that is kept is that of 2^-24 at least: 24 places from below. One more rounds, the rest is sticky.
  wire [6:0] last = top < 7'd34 ? 7'd24 : top - 7'd10;
  wire [81:0] shifted = magnitude >> (last - 7'd1);
  wire sticky = (magnitude & ~({82{1'b1}} << (last - 7'd1))) != 0;
  wire up = away(rm, negative, shifted[1], shifted[0], sticky);
  wire [7:0] field = {1'b0, last - 7'd24};
  wire [17:0] word = {field, 10'd0} + {6'd0, shifted[12:1]} + {17'd0, up};  // a carry goes on into the exponent
  wire inexact = shifted[0] || sticky;
  wire over = word >= 18'h07c00;
  wire to_largest = rm == RTZ || (rm == RDN && !negative) || (rm == RUP && negative);

  // With an exponent of any size, 11 ones below 2^-14 may round up to it, and are not tiny then.
  wire up_there = away(rm, negative, magnitude[23], magnitude[22], magnitude[21:0] != 0);
  wire tiny = top < 7'd34 && !(top == 7'd33 && magnitude[33:23] == 11'h7ff && up_there);
  assign half = {negative, !over ? word[14:0] : to_largest ? 15'h7bff : 15'h7c00};
  assign flags = {over, inexact && tiny && !over, inexact || over};
endmodule
