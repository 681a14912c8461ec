// Sixteen 8-bit indices a cycle, the concatenations of 4-bit weights and activations, each counting 1. [kllm section IV-B]
`timescale 1ns/1ps

module index_counter (
  input  wire          clk,
  input  wire          rst,
  input  wire          clear,
  input  wire [127:0]  q,
  input  wire [15:0]   valid,
  output wire [3327:0] count
);
  index_counter_core #(.BITS(8), .AMOUNT_BITS(1), .COUNTER_BITS(13)) core (
    .clk(clk), .rst(rst), .clear(clear), .q(q), .valid(valid), .amount(16'hffff), .count(count));
endmodule
