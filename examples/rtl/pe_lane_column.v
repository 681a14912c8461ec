// PE lane whose counters work on one column, 1-bit by 1-bit indices, three MACs. [kllm Fig. 6, Table I]
`timescale 1ns/1ps

module pe_lane (
  input  wire        clk,
  input  wire        rst,
  input  wire        load,
  input  wire        last,
  input  wire        tile_end,
  input  wire [1:0]  turns,
  input  wire [7:0]  a,
  input  wire [7:0]  b,
  input  wire [7:0]  valid,
  input  wire        go,
  input  wire [15:0] outliers,
  input  wire        opens,
  input  wire        closes,
  input  wire        shifts,
  input  wire        biases,
  input  wire [15:0] a_scale,
  input  wire [15:0] shift,
  input  wire [47:0] b_scale,
  input  wire [47:0] row_sum,
  input  wire [47:0] bias,
  input  wire [15:0] entry,
  input  wire [2:0]  sparse,
  input  wire [47:0] x,
  input  wire [47:0] w,
  input  wire [2:0]  x_coded,
  input  wire [2:0]  w_coded,
  output wire        ready,
  output wire        full,
  output wire [2:0]  phase,
  output wire [1:0]  address,
  output wire        y_valid,
  output wire [47:0] y,
  output wire [2:0]  overflow
);
  pe_lane_core core (
    .clk(clk), .rst(rst), .load(load), .last(last), .tile_end(tile_end), .turns(turns), .a(a), .b(b), .valid(valid),
    .go(go), .outliers(outliers), .opens(opens), .closes(closes), .shifts(shifts), .biases(biases), .a_scale(a_scale),
    .shift(shift), .b_scale(b_scale), .row_sum(row_sum), .bias(bias), .entry(entry), .sparse(sparse), .x(x), .w(w),
    .x_coded(x_coded), .w_coded(w_coded), .ready(ready), .full(full), .phase(phase), .address(address),
    .y_valid(y_valid), .y(y), .overflow(overflow));
endmodule
