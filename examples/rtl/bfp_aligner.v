// Shared aligner: eight fp16 words are shifted to given exponents and truncated. [harmonia section IV-C, Fig. 14c]
// Truncation (D-harmonia-2), subnormals kept (D-harmonia-4), field 31 illegal (D-harmonia-5), signs of zeros kept
// (D-harmonia-6).
`timescale 1ns/1ps

module bfp_aligner (
  input  wire [127:0] x,
  input  wire [39:0]  emax,
  input  wire [3:0]   m,         // mantissa bits, 1 to 11
  output wire [7:0]   sign,
  output wire [87:0]  mantissa,  // in the low m bits of each lane
  output wire [7:0]   illegal
);
  genvar i;
  generate
    for (i = 0; i < 8; i = i + 1) begin : lane
      wire [4:0] field = x[16*i + 10 +: 5];
      wire [4:0] shared = emax[5*i +: 5];
      wire [10:0] significand = {field != 5'd0, x[16*i +: 10]};
      wire [4:0] weight = field == 5'd0 ? 5'd1 : field;  // a field of 0 weighs as one of 1
      wire [4:0] target = shared == 5'd0 ? 5'd1 : shared;
      wire [5:0] shift = (6'd11 - {2'b00, m}) + {1'b0, target} - {1'b0, weight};  // at most 10 + 30

      assign illegal[i] = field > shared || field == 5'd31;
      assign sign[i] = x[16*i + 15] && !illegal[i];
      assign mantissa[11*i +: 11] = illegal[i] ? 11'd0 : significand >> shift;
    end
  endgenerate
endmodule
