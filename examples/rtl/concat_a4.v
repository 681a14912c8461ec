// Indices of four bits each. [kllm section IV-A]
`timescale 1ns/1ps

module concat (
  input  wire       clk,
  input  wire       rst,
  input  wire [3:0] a,
  input  wire [3:0] b,
  output wire [7:0] q
);
  concat_core #(.B_BITS(4)) core (.clk(clk), .rst(rst), .a(a), .b(b), .q(q));
endmodule
