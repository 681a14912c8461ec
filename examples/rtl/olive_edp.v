// Dot product unit of a tensor core: 16 products of int4 by flint4 pairs, and c. [olive section 4.1, Fig. 6a]
`timescale 1ns/1ps

module olive_edp (
  input  wire        [63:0] a_pairs,  // int4
  input  wire        [63:0] b_pairs,  // flint4
  input  wire        [3:0]  bias_a,
  input  wire        [3:0]  bias_b,
  input  wire signed [31:0] c,
  output wire signed [31:0] d,
  output wire               overflow,
  output wire               illegal
);
  wire [63:0] a_exponent, a_int, b_exponent, b_int;
  wire [7:0] bad_a, bad_b;
  genvar g;
  generate
    for (g = 0; g < 8; g = g + 1) begin : decoders
      ovp_decoder #(.FLINT(0)) of_a (.pair(a_pairs[8*g +: 8]), .bias(bias_a),
        .exponent(a_exponent[8*g +: 8]), .base_int(a_int[8*g +: 8]), .illegal(bad_a[g]));
      ovp_decoder #(.FLINT(1)) of_b (.pair(b_pairs[8*g +: 8]), .bias(bias_b),
        .exponent(b_exponent[8*g +: 8]), .base_int(b_int[8*g +: 8]), .illegal(bad_b[g]));
    end
  endgenerate

  // One exact sum, reduced once (D-olive-34), behind a shifter for every product (D-olive-35). Outliers
  // meet in eight lanes at most, the others hold victims: 8 * 9 * 2^30, and c.
  reg signed [37:0] total;
  reg signed [7:0] product;
  reg [4:0] shift;
  integer i;
  always @* begin
    total = {{6{c[31]}}, c};
    product = 0;
    shift = 0;
    for (i = 0; i < 16; i = i + 1) begin
      product = $signed(a_int[4*i +: 4]) * $signed(b_int[4*i +: 4]);
      shift = {1'b0, a_exponent[4*i +: 4]} + {1'b0, b_exponent[4*i +: 4]};
      total = total + ({{30{product[7]}}, product} <<< shift);
    end
  end
  assign d = total[31:0];  // wraps (D-olive-33)
  assign overflow = total[37:31] != {7{total[31]}};
  assign illegal = |bad_a || |bad_b;
endmodule
