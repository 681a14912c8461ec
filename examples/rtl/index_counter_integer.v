// Sixteen 4-bit indices a cycle, each counting a 4-bit integer, "+n". [kllm section III-B2]
`timescale 1ns/1ps

module index_counter (
  input  wire         clk,
  input  wire         rst,
  input  wire         clear,
  input  wire [63:0]  q,
  input  wire [15:0]  valid,
  input  wire [63:0]  amount,
  output wire [255:0] count
);
  index_counter_core #(.BITS(4), .AMOUNT_BITS(4), .COUNTER_BITS(16)) core (
    .clk(clk), .rst(rst), .clear(clear), .q(q), .valid(valid), .amount(amount), .count(count));
endmodule
