// The aligner with valid/ready on both sides and room for two answers; a full one takes a row as an
// answer leaves. An answer that is offered stays until it is taken.
// +BUG=<n> chooses a bug as the simulation starts, 0 none.
`timescale 1ns/1ps

module bfp_aligner_elastic (
  input  wire         clk,
  input  wire         rst,
  input  wire         in_valid,
  output wire         in_ready,
  output wire         out_valid,
  input  wire         out_ready,
  input  wire [127:0] x,
  input  wire [39:0]  emax,
  input  wire [3:0]   m,
  output wire [7:0]   sign,
  output wire [87:0]  mantissa,
  output wire [7:0]   illegal
);
  localparam DROPS = 1, REPEATS = 2, KEEPS = 3, ORDER = 4, TOO_MANY = 5, DEAD = 6, CHANGES = 7, WITHDRAWS = 8,
             REFUSES = 9, LATE = 10;
`ifdef SYNTHESIS
  localparam bug = 0;
`else
  integer bug;
  initial if (!$value$plusargs("BUG=%d", bug)) bug = 0;
`endif

  reg [103:0] first, second;  // first is offered
  reg [1:0] held = 0;
  reg [12:0] count = 0;  // rows that entered, then cycles of LATE, so that a bug has its moment; no reset of it
  reg again;
  wire [103:0] now;
  bfp_aligner aligner (.x(x), .emax(emax), .m(m), .sign(now[7:0]), .mantissa(now[95:8]), .illegal(now[103:96]));

  wire late = bug == LATE && count > 100 && count < 8000;
  wire dead = (bug == DEAD && count > 100) || late;
  assign in_ready = (held < 2 || (out_ready && !dead) || bug == DROPS) && !(bug == REFUSES && count > 100);
  assign out_valid = held != 0 && !dead && !(bug == WITHDRAWS && again);
  wire enters = in_valid && in_ready;
  wire leaves = out_valid && out_ready;
  wire stays = leaves && bug == REPEATS && again;  // it waited before
  wire [1:0] left = held - {1'b0, leaves && !stays};
  always @(posedge clk)
    if (rst) begin
      if (bug != KEEPS) held <= 0;
      again <= 0;
    end else begin
      again <= out_valid && !out_ready;
      if (enters || late) count <= count + 1;
      held <= bug == TOO_MANY && enters && count == 100 ? 2 : left == 2 && enters ? 2 : left + {1'b0, enters};
      if (leaves && !stays) first <= second;
      if (enters && left == 0) first <= now;
      if (enters && left == 1) second <= now;
      if (enters && left == 1 && bug == ORDER && leaves) begin first <= now; second <= second; end
      if (bug == CHANGES && again) first <= second;
    end
  assign {illegal, mantissa, sign} = first;
endmodule
