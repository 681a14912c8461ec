// Orizuru of 16 inputs with three pops, integer keys, every register by comparison. [kllm Table I, Fig. 7]
`timescale 1ns/1ps

module orizuru (
  input  wire [255:0] x,
  output wire [11:0]  max_index,
  output wire [11:0]  min_index,
  output wire [15:0]  outlier_mask,
  output wire [15:0]  root_max,
  output wire [15:0]  root_min,
  output wire         root_max_valid,
  output wire         root_min_valid
);
  orizuru_core #(.N(16), .K(3), .TOTAL_ORDER(1), .REUSE(0)) core (
    .x(x), .max_index(max_index), .min_index(min_index), .outlier_mask(outlier_mask), .root_max(root_max),
    .root_min(root_min), .root_max_valid(root_max_valid), .root_min_valid(root_min_valid));
endmodule
