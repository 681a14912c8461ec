// One 16-input unit of Orizuru: both trees settle in a clock edge. [kllm section IV-C, Fig. 7, Table I] (D-kllm-70)
// Nodes are numbered as a heap: root 1, children 2h and 2h + 1, input i is 16 + i.
`timescale 1ns/1ps

module orizuru16_core #(
  parameter REUSE = 1  // 1: lowest level of the min tree = that of the max tree, reversed (D-kllm-21)
) (
  input  wire         clk,
  input  wire         rst,
  input  wire [255:0] top,
  input  wire [15:0]  top_valid,
  input  wire [255:0] low,
  input  wire [15:0]  low_valid,
  output reg  [3:0]   max_index,
  output reg  [15:0]  root_max,
  output reg          root_max_valid,
  output reg  [3:0]   min_index,
  output reg  [15:0]  root_min,
  output reg          root_min_valid
);
  wire [7:0] lowest_max, lowest_min;
  wire [3:0] max_at, min_at;

  orizuru16_tree #(.MIN(0), .REUSE(0)) p (
    .words(top), .valid(top_valid), .other(8'd0), .lowest(lowest_max), .winner(max_at));
  orizuru16_tree #(.MIN(1), .REUSE(REUSE)) q (
    .words(low), .valid(low_valid), .other(lowest_max), .lowest(lowest_min), .winner(min_at));

  always @(posedge clk)
    if (rst) {max_index, root_max, root_max_valid, min_index, root_min, root_min_valid} <= 0;
    else begin
      {max_index, root_max, root_max_valid} <= {max_at, top[16*max_at +: 16], top_valid[max_at]};
      {min_index, root_min, root_min_valid} <= {min_at, low[16*min_at +: 16], low_valid[min_at]};
    end
endmodule

// Fifteen comparators, seven of them in the min tree where REUSE saves those above the inputs.
module orizuru16_tree #(
  parameter MIN = 0,
  parameter REUSE = 0
) (
  input  wire [255:0] words,
  input  wire [15:0]  valid,
  input  wire [7:0]   other,   // lowest level of the other tree
  output wire [7:0]   lowest,
  output wire [3:0]   winner   // input at the root
);
  genvar h;
  generate
    for (h = 1; h < 32; h = h + 1) begin : node
      wire signed [15:0] key;  // integers in the order of the values; zeros of both signs are equal (D-kllm-27)
      wire there;
      wire [3:0] at;
      if (h >= 16) begin : leaf
        wire [15:0] word = words[16*(h-16) +: 16];
        assign key = word[15] ? -{1'b0, word[14:0]} : {1'b0, word[14:0]};
        assign there = valid[h-16];
        localparam [31:0] PLACE = h;
        assign at = PLACE[3:0];
      end else begin : inner
        wire better;
        if (REUSE != 0 && h >= 8) begin : shared
          assign better = !other[h-8];
        end else begin : compared
          assign better = MIN != 0 ? node[2*h+1].key < node[2*h].key : node[2*h+1].key > node[2*h].key;
        end
        // an unavailable side loses whatever its value (D-kllm-22)
        wire right = node[2*h].there && node[2*h+1].there ? better : node[2*h+1].there;
        assign key = right ? node[2*h+1].key : node[2*h].key;
        assign there = right ? node[2*h+1].there : node[2*h].there;
        assign at = right ? node[2*h+1].at : node[2*h].at;
        if (h >= 8) begin : bottom
          assign lowest[h-8] = right;
        end
      end
    end
  endgenerate
  assign winner = node[1].at;
endmodule
