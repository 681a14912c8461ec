// Circular list of free pages: ids leave where it starts and come back where it ends. [leankv section 5.2, Fig. 5]
// Start and number of free pages are kept, which tells an empty list from a full one (D-leankv-37). That as many pages
// are free as leave, and that only owned ones come back, is up to the caller (D-leankv-53).
`timescale 1ns/1ps

module free_page_list_core #(
  parameter PAGES = 32,
  parameter W = $clog2(PAGES + 1),
  parameter LONG = W + 1
) (
  input  wire                clk,
  input  wire                rst,
  input  wire                op,     // 0 allocate, 1 recycle
  input  wire [31:0]         count,
  input  wire [32*PAGES-1:0] ids,
  output reg  [32*PAGES-1:0] taken,  // ids that leave, then -1
  output wire [31:0]         list_start,
  output wire [31:0]         list_end,
  output wire [31:0]         free
);
  reg [W-1:0] start, left;
  reg [W*PAGES-1:0] ring;
  integer i;

  function [W-1:0] place(input [W-1:0] base, input [LONG-1:0] offset);  // base + offset, round the ring
    reg [LONG-1:0] sum;
    begin
      sum = {1'b0, base} + offset;
      place = W'(sum >= PAGES ? sum - LONG'(PAGES) : sum);
    end
  endfunction

  wire [W-1:0] amount = count[W-1:0];
  wire [W-1:0] stop = place(start, {1'b0, left});
  always @(posedge clk)
    if (rst) begin
      start <= 0;
      left <= PAGES;
      taken <= {32*PAGES{1'b1}};
      for (i = 0; i < PAGES; i = i + 1) ring[W*i +: W] <= W'(i);
    end else begin
      for (i = 0; i < PAGES; i = i + 1) begin
        taken[32*i +: 32] <= op || i >= amount ? 32'hffffffff : {{32-W{1'b0}}, ring[W*place(start, LONG'(i)) +: W]};
        if (op && i < amount) ring[W*place(stop, LONG'(i)) +: W] <= ids[32*i +: W];
      end
      start <= op ? start : place(start, {1'b0, amount});
      left <= op ? left + amount : left - amount;
    end

  assign list_start = {{32-W{1'b0}}, start};
  assign list_end = {{32-W{1'b0}}, place(stop, PAGES - 1)};
  assign free = {{32-W{1'b0}}, left};
endmodule
