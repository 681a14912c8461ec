// PE lane of KLLM: indices are concatenated and counted by column, then MACs reduce the counts of the tile before.
// [kllm section III-B, section III-D, section IV-A, section IV-B, Fig. 6, Table I]
`timescale 1ns/1ps

module pe_lane_core #(
  parameter CONCAT = 8,
  parameter COUNTERS = 2,
  parameter INPUTS = 2,
  parameter MACS = 3,
  parameter A_BITS = 1,
  parameter B_BITS = 1,
  parameter INTEGER = 0,
  parameter BY_COUNTER = 0,
  parameter SERIAL = 0,
  parameter COUNTER_BITS = 5,
  parameter ADDRESS_BITS = INTEGER ? B_BITS : A_BITS + B_BITS,
  parameter TURN_BITS = $clog2(CONCAT / (COUNTERS * INPUTS) + 1),
  parameter POSITIONS = BY_COUNTER ? CONCAT / COUNTERS : CONCAT
) (
  input  wire                        clk,
  input  wire                        rst,
  input  wire                        load,
  input  wire                        last,
  input  wire                        tile_end,
  input  wire [TURN_BITS-1:0]        turns,
  input  wire [POSITIONS*A_BITS-1:0] a,
  input  wire [CONCAT*B_BITS-1:0]    b,
  input  wire [CONCAT-1:0]           valid,
  input  wire [15:0]                 outliers,
  input  wire                        opens,
  input  wire                        closes,
  input  wire                        shifts,
  input  wire                        biases,
  input  wire [15:0]                 a_scale,
  input  wire [15:0]                 shift,
  input  wire [MACS*16-1:0]          b_scale,
  input  wire [MACS*16-1:0]          row_sum,
  input  wire [MACS*16-1:0]          bias,
  input  wire                        go,
  input  wire [15:0]                 entry,
  input  wire [MACS-1:0]             sparse,
  input  wire [MACS*16-1:0]          x,
  input  wire [MACS*16-1:0]          w,
  input  wire [MACS-1:0]             x_coded,
  input  wire [MACS-1:0]             w_coded,
  output wire                        ready,
  output wire                        full,
  output wire [2:0]                  phase,
  output wire [ADDRESS_BITS-1:0]     address,
  output wire                        y_valid,
  output wire [MACS*16-1:0]          y,
  output wire [MACS-1:0]             overflow
);
  localparam ENTRIES = 1 << ADDRESS_BITS;
  localparam COLUMN_BITS = $clog2(MACS + 1);

  wire                                 swap;
  wire [COLUMN_BITS-1:0]               columns;
  wire [MACS*ENTRIES*COUNTER_BITS-1:0] counted;

  pe_lane_counts #(.CONCAT(CONCAT), .COUNTERS(COUNTERS), .INPUTS(INPUTS), .MACS(MACS), .A_BITS(A_BITS), .B_BITS(B_BITS),
    .INTEGER(INTEGER), .BY_COUNTER(BY_COUNTER), .SERIAL(SERIAL), .COUNTER_BITS(COUNTER_BITS), .TURN_BITS(TURN_BITS),
    .COLUMN_BITS(COLUMN_BITS), .POSITIONS(POSITIONS), .ENTRIES(ENTRIES)) counting (
    .clk(clk), .rst(rst), .load(load), .last(last), .tile_end(tile_end), .turns(turns), .a(a), .b(b), .valid(valid),
    .swap(swap), .ready(ready), .full(full), .columns(columns), .counted(counted));

  pe_lane_mac #(.MACS(MACS), .ENTRIES(ENTRIES), .ADDRESS_BITS(ADDRESS_BITS), .COUNTER_BITS(COUNTER_BITS),
    .COLUMN_BITS(COLUMN_BITS)) macs (
    .clk(clk), .rst(rst), .full(full), .columns(columns), .counted(counted), .swap(swap), .outliers(outliers),
    .opens(opens), .closes(closes), .shifts(shifts), .biases(biases), .a_scale(a_scale), .shift(shift),
    .b_scale(b_scale), .row_sum(row_sum), .bias(bias), .go(go), .entry(entry), .sparse(sparse), .x(x), .w(w),
    .x_coded(x_coded), .w_coded(w_coded), .phase(phase), .address(address), .y_valid(y_valid), .y(y),
    .overflow(overflow));
endmodule
