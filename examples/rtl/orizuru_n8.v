// Orizuru of eight inputs with two pops, as drawn: IEEE order, lowest level of the min tree reused. [kllm Fig. 7]
`timescale 1ns/1ps

module orizuru (
  input  wire [127:0] x,
  output wire [5:0]   max_index,
  output wire [5:0]   min_index,
  output wire [7:0]   outlier_mask,
  output wire [15:0]  root_max,
  output wire [15:0]  root_min,
  output wire         root_max_valid,
  output wire         root_min_valid
);
  orizuru_core #(.N(8), .K(2), .TOTAL_ORDER(0), .REUSE(1)) core (
    .x(x), .max_index(max_index), .min_index(min_index), .outlier_mask(outlier_mask), .root_max(root_max),
    .root_min(root_min), .root_max_valid(root_max_valid), .root_min_valid(root_min_valid));
endmodule
