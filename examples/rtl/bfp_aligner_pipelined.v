// The aligner in a pipeline of three stages: the answer to a row stands after three rising edges. A row enters each cycle.
// +BUG=<n> chooses a bug as the simulation starts, 0 none.
`timescale 1ns/1ps

module bfp_aligner_pipelined (
  input  wire         clk,
  input  wire         rst,
  input  wire [127:0] x,
  input  wire [39:0]  emax,
  input  wire [3:0]   m,
  output wire [7:0]   sign,
  output wire [87:0]  mantissa,
  output wire [7:0]   illegal
);
  localparam LATE = 1, EARLY = 2, UNLIKE = 3, FROZEN = 4, SWAPPED = 5;
`ifdef SYNTHESIS
  localparam bug = 0;
`else
  integer bug;
  initial if (!$value$plusargs("BUG=%d", bug)) bug = 0;
`endif

  reg [171:0] entered;
  reg [103:0] aligned, answer, later, kept;
  reg [6:0] count;
  wire [103:0] now;
  bfp_aligner aligner (.x(entered[127:0]), .emax(entered[167:128]), .m(entered[171:168]),
                       .sign(now[7:0]), .mantissa(now[95:8]), .illegal(now[103:96]));
  always @(posedge clk)
    if (rst) begin
      {entered, aligned, answer, later, kept, count} <= 0;
    end else begin
      count <= count + 1;
      entered <= {m, emax, x};
      aligned <= now;
      kept <= aligned;
      // the order of two rows is swapped once in 128 cycles
      answer <= bug == FROZEN && count == 99 ? answer : bug == SWAPPED && count == 98 ? now
              : bug == SWAPPED && count == 99 ? kept : aligned;
      later <= answer;
    end
  assign {illegal, mantissa} = bug == LATE ? later[103:8] : bug == EARLY ? aligned[103:8] : answer[103:8];
  assign sign = bug == LATE ? later[7:0] : bug == EARLY || bug == UNLIKE ? aligned[7:0] : answer[7:0];
endmodule
