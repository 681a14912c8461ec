// Orizuru of eight inputs with two pops, one event per clock edge: a load, a level of a tree, a pop, or a repair.
// [kllm section IV-C, Fig. 7, Eq. (4)]. Nodes are numbered as a heap: root 1, children 2h and 2h + 1, leaf i is 8 + i.
`timescale 1ns/1ps

module orizuru_clocked (
  input  wire         clk,
  input  wire         rst,
  input  wire         start,
  input  wire [127:0] x,
  output reg  [5:0]   max_index,
  output reg  [5:0]   min_index,
  output reg  [7:0]   outlier_mask,
  output wire [15:0]  root_max,
  output wire [15:0]  root_min,
  output wire         root_max_valid,
  output wire         root_min_valid,
  output wire         busy,
  output reg          valid
);
  localparam [1:0] IDLE = 2'd0, BUILD = 2'd1, POP = 2'd2, REPAIR = 2'd3;

  reg [1:0]   stage;
  reg         min;            // the tree that the event is about
  reg         last;           // its second pop
  reg [2:0]   first;          // register of the level that is set next
  reg [3:0]   node;           // register that is repaired next
  reg [127:0] held;
  reg [7:0]   p, q;           // bit h of node h: the right child is the better one
  reg [7:0]   p_mask, q_mask; // elements left

  // the leaf that a node passes on
  function [2:0] leaf(input [7:0] bits, input [3:0] from);
    reg [3:0] at;
    integer step;
    begin
      at = from;
      for (step = 0; step < 3; step = step + 1)
        if (!at[3]) at = {at[2:0], bits[at[2:0]]};
      leaf = at[2:0];
    end
  endfunction

  function signed [15:0] key(input [15:0] word);  // an integer in the order of the values
    key = word[15] ? -{1'b0, word[14:0]} : word;
  endfunction

  // {both sides available, bit}: a tie stays left, one side alone wins
  function [1:0] better(input [127:0] words, input tree, input [7:0] bits, input [7:0] mask, input [3:0] parent);
    reg [2:0] l, r;
    reg signed [15:0] a, b;
    begin
      l = leaf(bits, {parent[2:0], 1'b0});
      r = leaf(bits, {parent[2:0], 1'b1});
      a = key(words[16*l +: 16]);
      b = key(words[16*r +: 16]);
      better = mask[l] && mask[r] ? {1'b1, tree ? b < a : b > a} : {1'b0, mask[r]};
    end
  endfunction

  wire [7:0] bits = min ? q : p;
  wire [7:0] mask = min ? q_mask : p_mask;
  wire [2:0] top  = leaf(bits, 4'd1);
  reg  [7:0] built, repaired;
  reg  [1:0] side;

  integer h;
  always @* begin
    built = bits;
    for (h = 1; h < 8; h = h + 1)
      if (h >= {29'd0, first} && h < {28'd0, first, 1'b0}) begin
        side = better(held, min, bits, mask, h[3:0]);
        built[h] = min && first == 3'd4 && side[1] ? !p[h] : side[0];  // reversed from the max tree (D-kllm-21)
      end
    repaired = bits;
    side = better(held, min, bits, mask, node);
    repaired[node[2:0]] = side[0];
  end

  always @(posedge clk)
    if (rst) begin
      {stage, min, last, first, node, held, p, q, valid} <= 0;
      {max_index, min_index, outlier_mask} <= 0;
      {p_mask, q_mask} <= 16'hffff;
    end else begin
      valid <= 1'b0;
      case (stage)
        IDLE: if (start) begin  // not looked at while an operation is under way (D-arith-19)
          held <= x;
          {p, q, min, last} <= 0;
          {max_index, min_index, outlier_mask} <= 0;
          {p_mask, q_mask} <= 16'hffff;
          first <= 3'd4;
          stage <= BUILD;
        end
        BUILD: begin
          if (min) q <= built; else p <= built;
          first <= first == 3'd1 ? 3'd4 : first >> 1;
          if (first == 3'd1) min <= !min;
          if (first == 3'd1 && min) stage <= POP;
        end
        POP: begin
          if (min) q_mask[top] <= 1'b0; else p_mask[top] <= 1'b0;
          if (min) min_index[3*last +: 3] <= top; else max_index[3*last +: 3] <= top;
          outlier_mask[top] <= 1'b1;
          node <= {2'b01, top[2:1]};
          stage <= REPAIR;
        end
        REPAIR: begin
          if (min) q <= repaired; else p <= repaired;
          node <= node >> 1;
          if (node == 4'd1) begin  // also after the last pop (D-kllm-23)
            last <= !last;
            if (last) min <= 1'b1;
            stage <= last && min ? IDLE : POP;
            valid <= last && min;  // for one edge (D-arith-21)
          end
        end
      endcase
    end

  // as the registers stand (D-arith-20)
  assign root_max = held[16*leaf(p, 4'd1) +: 16];
  assign root_min = held[16*leaf(q, 4'd1) +: 16];
  assign root_max_valid = p_mask[leaf(p, 4'd1)];
  assign root_min_valid = q_mask[leaf(q, 4'd1)];
  assign busy = stage != IDLE;
endmodule
