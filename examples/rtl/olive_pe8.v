// An 8-bit product by four 4-bit elements and an adder: x = <4, h> + <0, l>. [olive section 4.5]
// Halves are those of two's complement (D-olive-36): h has the sign, l is 0 to 15. Sums that leave 32 bits wrap.
`timescale 1ns/1ps

module olive_pe8 (
  input  wire               clk,
  input  wire               rst,
  input  wire               load,
  input  wire signed [31:0] acc_in,
  input  wire        [4:0]  x_exp,
  input  wire signed [7:0]  x_int,
  input  wire        [4:0]  y_exp,
  input  wire signed [7:0]  y_int,
  output reg         [39:0] partial,
  output reg         [27:0] shift,
  output reg  signed [31:0] acc,
  output reg                overflow
);
  wire [5:0] exponent = {1'b0, x_exp} + {1'b0, y_exp};
  wire signed [4:0] high_x = {x_int[7], x_int[7:4]}, low_x = {1'b0, x_int[3:0]};
  wire signed [4:0] high_y = {y_int[7], y_int[7:4]}, low_y = {1'b0, y_int[3:0]};
  wire [6:0] places0 = {1'b0, exponent} + 7'd8, places1 = {1'b0, exponent} + 7'd4, places3 = {1'b0, exponent};
  wire signed [9:0]  product0, product1, product2, product3;
  wire signed [79:0] term0, term1, term2, term3;

  olive_pe4 pe0 (.x(high_x), .y(high_y), .places(places0), .product(product0), .term(term0));
  olive_pe4 pe1 (.x(high_x), .y(low_y), .places(places1), .product(product1), .term(term1));
  olive_pe4 pe2 (.x(low_x), .y(high_y), .places(places1), .product(product2), .term(term2));
  olive_pe4 pe3 (.x(low_x), .y(low_y), .places(places3), .product(product3), .term(term3));

  wire signed [79:0] total = {{48{acc[31]}}, acc} + term0 + term1 + term2 + term3;  // the extra adder

  always @(posedge clk)
    if (rst) {partial, shift, acc, overflow} <= 0;
    else begin
      partial <= load ? 40'd0 : {product3, product2, product1, product0};
      shift <= load ? 28'd0 : {places3, places1, places1, places0};
      acc <= load ? acc_in : total[31:0];
      overflow <= !load && total[79:31] != {49{total[31]}};
    end
endmodule
