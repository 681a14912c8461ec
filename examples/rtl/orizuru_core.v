// Orizuru: the K largest and the K smallest of N fp16 values, by two trees over the same leaves.
// [kllm section IV-C, Fig. 7, Eq. (4)]. Nodes are numbered as a heap: root 1, children 2h and 2h + 1, leaf i is N + i.
// N is a power of two. The pops are unrolled: stage 0 builds a tree, stage p repairs the path above the leaf that
// pop p took, also after the last pop (D-kllm-23).
`timescale 1ns/1ps

module orizuru_core #(
  parameter N = 16,
  parameter K = 3,
  parameter TOTAL_ORDER = 1,  // 1: -0 < +0 and NaN beyond infinity (D-kllm-27)
  parameter REUSE = 0,        // 1: lowest level of the min tree = that of the max tree, reversed (D-kllm-21)
  parameter W = $clog2(N)
) (
  input  wire [16*N-1:0] x,
  output wire [W*K-1:0]  max_index,
  output wire [W*K-1:0]  min_index,
  output wire [N-1:0]    outlier_mask,
  output wire [15:0]     root_max,
  output wire [15:0]     root_min,
  output wire            root_max_valid,
  output wire            root_min_valid
);
  reg [16*N-1:0] key;
  wire [N-1:0] max_bits, min_bits, max_alive, min_alive;
  wire [W-1:0] max_root, min_root;

  integer i;
  always @*  // integers in the order of the values
    for (i = 0; i < N; i = i + 1)
      key[16*i +: 16] = !x[16*i + 15] ? x[16*i +: 16] :
                        TOTAL_ORDER != 0 ? ~{1'b0, x[16*i +: 15]} : -{1'b0, x[16*i +: 15]};

  orizuru_tree #(.N(N), .K(K), .MIN(0), .REUSE(0)) max_tree (
    .key(key), .other({N{1'b0}}), .first(max_bits), .popped(max_index), .root(max_root), .alive(max_alive));
  orizuru_tree #(.N(N), .K(K), .MIN(1), .REUSE(REUSE)) min_tree (
    .key(key), .other(max_bits), .first(min_bits), .popped(min_index), .root(min_root), .alive(min_alive));

  assign outlier_mask = ~max_alive | ~min_alive;  // one element may be popped by both trees (D-kllm-26)
  assign root_max = x[16*max_root +: 16];
  assign root_min = x[16*min_root +: 16];
  assign root_max_valid = max_alive[max_root];
  assign root_min_valid = min_alive[min_root];
endmodule

// One tree: built in stage 0, then popped and repaired K times.
module orizuru_tree #(
  parameter N = 16,
  parameter K = 3,
  parameter MIN = 0,
  parameter REUSE = 0,
  parameter W = $clog2(N)
) (
  input  wire [16*N-1:0] key,
  input  wire [N-1:0]    other,   // registers of the other tree as built
  output wire [N-1:0]    first,   // registers as built
  output wire [W*K-1:0]  popped,
  output wire [W-1:0]    root,    // leaf at the root after the last repair
  output wire [N-1:0]    alive    // leaves that are left
);
  genvar p;
  generate
    for (p = 0; p <= K; p = p + 1) begin : stage
      wire [N-1:0] bits, left;
      wire [W-1:0] winner;
      if (p == 0) begin : build
        assign left = {N{1'b1}};
        orizuru_stage #(.N(N), .MIN(MIN), .REUSE(REUSE), .BUILD(1)) nodes (
          .key(key), .alive(left), .was(other), .leaf({W{1'b0}}), .bits(bits), .winner(winner));
      end else begin : repair
        assign left = stage[p-1].left & ~({{N-1{1'b0}}, 1'b1} << stage[p-1].winner);
        assign popped[W*(p-1) +: W] = stage[p-1].winner;
        orizuru_stage #(.N(N), .MIN(MIN), .REUSE(0), .BUILD(0)) nodes (
          .key(key), .alive(left), .was(stage[p-1].bits), .leaf(stage[p-1].winner), .bits(bits), .winner(winner));
      end
    end
  endgenerate
  assign first = stage[0].bits;
  assign root = stage[K].winner;
  assign alive = stage[K].left;
endmodule

// All nodes of a tree: comparators set the bits of the nodes that are due, multiplexers pass the better leaf upwards.
module orizuru_stage #(
  parameter N = 16,
  parameter MIN = 0,
  parameter REUSE = 0,
  parameter BUILD = 1,
  parameter W = $clog2(N)
) (
  input  wire [16*N-1:0] key,
  input  wire [N-1:0]    alive,
  input  wire [N-1:0]    was,
  input  wire [W-1:0]    leaf,    // whose ancestors are due, if this is no build
  output wire [N-1:0]    bits,
  output wire [W-1:0]    winner
);
  genvar h;
  generate
    for (h = 1; h < 2*N; h = h + 1) begin : node
      wire signed [15:0] k;
      wire a;
      wire [W-1:0] at;
      if (h >= N) begin : outer
        assign k = key[16*(h-N) +: 16];
        assign a = alive[h-N];
        assign at = W'(h - N);
      end else begin : inner
        localparam DEPTH = $clog2(h + 1) - 1;
        wire [W:0] above = {1'b1, leaf} >> (W - DEPTH);
        wire due = BUILD != 0 || above == h;
        wire both = node[2*h].a && node[2*h+1].a;
        wire better = MIN != 0 ? node[2*h+1].k < node[2*h].k : node[2*h+1].k > node[2*h].k;  // a tie stays left
        wire compared = both ? better : node[2*h+1].a;  // a popped side loses whatever its value (D-kllm-22)
        wire reversed = REUSE != 0 && 2*h >= N;
        wire right = reversed ? !was[h] : due ? compared : was[h];
        assign bits[h] = right;
        assign k = right ? node[2*h+1].k : node[2*h].k;
        assign a = right ? node[2*h+1].a : node[2*h].a;
        assign at = right ? node[2*h+1].at : node[2*h].at;
      end
    end
  endgenerate
  assign bits[0] = 1'b0;
  assign winner = node[1].at;
endmodule
