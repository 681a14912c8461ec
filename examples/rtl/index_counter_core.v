// Index Distribution Counter: occurrences of each index, sixteen positions a cycle. [kllm section IV-B, Table I]
// Indices are compared to one-hot columns, each column is summed, registers add up the cycles.
`timescale 1ns/1ps

module index_counter_core #(
  parameter BITS = 8,           // of an index
  parameter AMOUNT_BITS = 1,    // of "+n", what a position counts
  parameter COUNTER_BITS = 13
) (
  input  wire                                clk,
  input  wire                                rst,
  input  wire                                clear,   // registers start from 0 in this cycle
  input  wire [16*BITS-1:0]                  q,
  input  wire [15:0]                         valid,   // an excluded position counts nowhere (D-kllm-13)
  input  wire [16*AMOUNT_BITS-1:0]           amount,
  output reg  [COUNTER_BITS*(1<<BITS)-1:0]   count
);
  localparam SUM_BITS = AMOUNT_BITS + 4;  // of sixteen amounts

  genvar i;
  generate
    for (i = 0; i < (1 << BITS); i = i + 1) begin : column
      localparam [BITS-1:0] INDEX = i;
      reg [SUM_BITS-1:0] sum;
      integer lane;
      always @* begin
        sum = 0;
        for (lane = 0; lane < 16; lane = lane + 1)
          if (valid[lane] && q[BITS*lane +: BITS] == INDEX)
            sum = sum + {{SUM_BITS-AMOUNT_BITS{1'b0}}, amount[AMOUNT_BITS*lane +: AMOUNT_BITS]};
      end
      wire [COUNTER_BITS-1:0] start = clear ? {COUNTER_BITS{1'b0}} : count[COUNTER_BITS*i +: COUNTER_BITS];
      always @(posedge clk)
        if (rst) count[COUNTER_BITS*i +: COUNTER_BITS] <= 0;
        else count[COUNTER_BITS*i +: COUNTER_BITS] <= start + {{COUNTER_BITS-SUM_BITS{1'b0}}, sum};
    end
  endgenerate
endmodule
