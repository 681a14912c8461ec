// A 16-input unit of Orizuru: both trees have the same inputs, and the lowest level of the min tree is reused. [kllm Table I]
`timescale 1ns/1ps

module orizuru16 (
  input  wire         clk,
  input  wire         rst,
  input  wire [255:0] top,
  input  wire [15:0]  top_valid,
  input  wire [255:0] low,
  input  wire [15:0]  low_valid,
  output wire [3:0]   max_index,
  output wire [15:0]  root_max,
  output wire         root_max_valid,
  output wire [3:0]   min_index,
  output wire [15:0]  root_min,
  output wire         root_min_valid
);
  orizuru16_core #(.REUSE(1)) core (
    .clk(clk), .rst(rst), .top(top), .top_valid(top_valid), .low(low), .low_valid(low_valid),
    .max_index(max_index), .root_max(root_max), .root_max_valid(root_max_valid),
    .min_index(min_index), .root_min(root_min), .root_min_valid(root_min_valid));
endmodule
