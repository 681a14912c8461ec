// Two indices side by side in a register of eight bits, the first one above the second (D-kllm-6).
// [kllm section III-B, section IV-A]
`timescale 1ns/1ps

module concat_core #(
  parameter B_BITS = 4  // of the second index, 1 to 4: no bits are left unused between the two
) (
  input  wire       clk,
  input  wire       rst,
  input  wire [3:0] a,
  input  wire [3:0] b,
  output reg  [7:0] q
);
  always @(posedge clk)
    if (rst) q <= 8'd0;
    else q <= ({4'd0, a} << B_BITS) | {4'd0, b};
endmodule
