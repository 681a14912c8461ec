// A 4-bit element: factors of four bits and a sign, and its own shifter. [olive section 4.4, section 4.5]
`timescale 1ns/1ps

module olive_pe4 (
  input  wire signed [4:0]  x,
  input  wire signed [4:0]  y,
  input  wire        [6:0]  places,
  output wire signed [9:0]  product,
  output wire signed [79:0] term
);
  assign product = x * y;
  assign term = {{70{product[9]}}, product} <<< places;
endmodule
