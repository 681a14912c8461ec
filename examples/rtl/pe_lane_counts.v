// Counting half of KLLM's PE lane: Concat registers, Index Distribution Counters, and the bank that merges them.
// [kllm section III-B, section IV-A, section IV-B, Fig. 6, Table I]
`timescale 1ns/1ps

module pe_lane_counts #(
  parameter CONCAT = 8,
  parameter COUNTERS = 2,
  parameter INPUTS = 2,        // positions that a counter takes in an edge, at most 16
  parameter MACS = 3,          // columns of a tile
  parameter A_BITS = 1,
  parameter B_BITS = 1,
  parameter INTEGER = 0,       // A is an integer that is added at B's index
  parameter BY_COUNTER = 0,    // each counter has a column of its own; otherwise all work on one
  parameter SERIAL = 0,        // counters are merged one by one; otherwise by a tree
  parameter COUNTER_BITS = 5,
  parameter TURN_BITS = 2,
  parameter COLUMN_BITS = 2,
  parameter POSITIONS = 8,     // of a column in a slab
  parameter ENTRIES = 4        // of a counter
) (
  input  wire                                 clk,
  input  wire                                 rst,
  input  wire                                 load,
  input  wire                                 last,     // this slab is the last one of its column
  input  wire                                 tile_end, // and the column is the last one of its tile
  input  wire [TURN_BITS-1:0]                 turns,
  input  wire [POSITIONS*A_BITS-1:0]          a,
  input  wire [CONCAT*B_BITS-1:0]             b,
  input  wire [CONCAT-1:0]                    valid,
  input  wire                                 swap,     // the MACs take the bank in this edge
  output wire                                 ready,
  output reg                                  full,
  output reg  [COLUMN_BITS-1:0]               columns,
  output reg  [MACS*ENTRIES*COUNTER_BITS-1:0] counted
);
  localparam Q_BITS = INTEGER ? B_BITS : A_BITS + B_BITS;
  localparam AMOUNT_BITS = INTEGER ? A_BITS : 1;
  localparam MERGE_EDGES = SERIAL && !BY_COUNTER ? COUNTERS : 1;
  localparam MERGE_BITS = $clog2(MERGE_EDGES + 1);
  localparam [MERGE_BITS-1:0] MERGE = MERGE_EDGES[MERGE_BITS-1:0];
  localparam ROW = ENTRIES * COUNTER_BITS;

  reg [CONCAT*Q_BITS-1:0]         q;
  wire [POSITIONS*AMOUNT_BITS-1:0] amount;    // 1 without integers
  reg [CONCAT-1:0]                q_valid;
  reg [TURN_BITS-1:0]             turns_held, left_turns;
  reg                             last_held, end_held;
  reg                             fresh;      // counters start from 0 in their next turn
  reg [MERGE_BITS-1:0]            merging;    // edges left
  reg                             merge_end;

  wire merges = merging != 0 && (!full || swap);
  wire merged = merges && merging == 1;
  wire counts = left_turns != 0 && (merging == 0 || merged);
  wire counted_out = counts && left_turns == 1;
  assign ready = left_turns == 0 || (left_turns == 1 && (merging == 0 || (merging == 1 && !full)));

  // a turn: each counter takes the next positions of its part of the slab
  wire [31:0] turn = counts ? {{32-TURN_BITS{1'b0}}, turns_held - left_turns} : 32'd0;
  wire [COUNTERS*ROW-1:0] count;
  genvar c, i;
  generate
    for (c = 0; c < COUNTERS; c = c + 1) begin : counter
      wire [31:0] first = BY_COUNTER ? c * POSITIONS + turn * INPUTS : (turn * COUNTERS + c) * INPUTS;
      wire [31:0] position = BY_COUNTER ? turn * INPUTS : first;
      wire [16*Q_BITS-1:0] index;
      wire [15:0] taken;
      wire [16*AMOUNT_BITS-1:0] more;
      for (i = 0; i < 16; i = i + 1) begin : lane
        if (i < INPUTS) begin : used
          assign index[Q_BITS*i +: Q_BITS] = q[Q_BITS*(first + i) +: Q_BITS];
          assign taken[i] = counts && q_valid[first + i];
          assign more[AMOUNT_BITS*i +: AMOUNT_BITS] = amount[AMOUNT_BITS*(position + i) +: AMOUNT_BITS];
        end else begin : absent
          assign index[Q_BITS*i +: Q_BITS] = 0;
          assign taken[i] = 1'b0;
          assign more[AMOUNT_BITS*i +: AMOUNT_BITS] = 0;
        end
      end
      index_counter_core #(.BITS(Q_BITS), .AMOUNT_BITS(AMOUNT_BITS), .COUNTER_BITS(COUNTER_BITS)) core (
        .clk(clk), .rst(rst), .clear(fresh && counts), .q(index), .valid(taken), .amount(more),
        .count(count[ROW*c +: ROW]));
    end
  endgenerate

  // a merge: what the bank holds after it
  reg [MACS*ROW-1:0]     bank;
  reg [COLUMN_BITS-1:0]  column;
  reg [COUNTER_BITS-1:0] sum;
  wire [31:0] merge_turn = COUNTERS - {{32-MERGE_BITS{1'b0}}, merging};
  integer k, e;
  always @* begin
    bank = swap ? {MACS*ROW{1'b0}} : counted;
    column = swap ? {COLUMN_BITS{1'b0}} : columns;
    sum = 0;
    if (merges && BY_COUNTER) begin
      for (k = 0; k < MACS; k = k + 1)
        bank[ROW*k +: ROW] = count[ROW*(k % COUNTERS) +: ROW];
      column = MACS[COLUMN_BITS-1:0];
    end else if (merges) begin
      for (e = 0; e < ENTRIES; e = e + 1) begin
        sum = bank[ROW*column + COUNTER_BITS*e +: COUNTER_BITS];
        for (k = 0; k < COUNTERS; k = k + 1)
          if (!SERIAL || k == merge_turn) sum = sum + count[ROW*k + COUNTER_BITS*e +: COUNTER_BITS];
        bank[ROW*column + COUNTER_BITS*e +: COUNTER_BITS] = sum;
      end
      if (merged) column = column + 1'b1;
    end
  end

  // the Concat registers
  generate
    for (i = 0; i < CONCAT; i = i + 1) begin : concat
      wire [Q_BITS-1:0] index;
      if (INTEGER) begin : alone
        assign index = b[B_BITS*i +: B_BITS];
      end else begin : joined
        assign index = {a[A_BITS*(i % POSITIONS) +: A_BITS], b[B_BITS*i +: B_BITS]};
      end
      always @(posedge clk)
        if (rst) q[Q_BITS*i +: Q_BITS] <= 0;
        else if (load && ready) q[Q_BITS*i +: Q_BITS] <= index;
    end
    if (INTEGER) begin : amounts
      reg [POSITIONS*A_BITS-1:0] held;
      always @(posedge clk)
        if (rst) held <= 0;
        else if (load && ready) held <= a;
      assign amount = held;
    end else begin : ones
      assign amount = {POSITIONS{1'b1}};
    end
  endgenerate

  always @(posedge clk)
    if (rst) begin
      {q_valid, turns_held, left_turns, last_held, end_held, merging, merge_end, full, columns, counted} <= 0;
      fresh <= 1'b1;
    end else begin
      counted <= bank;
      columns <= column;
      full <= (full && !swap) || (merged && (merge_end || column == MACS[COLUMN_BITS-1:0]));
      if (merges) merging <= merging - 1'b1;
      if (counts) begin
        fresh <= counted_out && last_held;
        left_turns <= left_turns - 1'b1;
        if (counted_out && last_held) begin
          merging <= MERGE;
          merge_end <= end_held;
        end
      end
      if (load && ready) begin
        q_valid <= valid;
        {turns_held, left_turns} <= {turns, turns};
        {last_held, end_held} <= {last, tile_end};
      end
    end
endmodule
