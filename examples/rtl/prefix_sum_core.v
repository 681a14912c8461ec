// Running sums of N counts and a base, by the network of Hillis and Steele (D-leankv-39). [leankv section 5.2]
`timescale 1ns/1ps

module prefix_sum_core #(
  parameter N = 8
) (
  input  wire [32*N-1:0] counts,
  input  wire [31:0]     base,
  output wire [32*N-1:0] inclusive
);
  localparam LEVELS = $clog2(N);
  wire [32*N-1:0] sums [0:LEVELS];  // in front of each level, and behind the last
  assign sums[0] = {counts[32*N-1:32], counts[31:0] + base};

  genvar level, i;
  generate
    for (level = 0; level < LEVELS; level = level + 1) begin : network
      for (i = 0; i < N; i = i + 1) begin : element
        if (i < (1 << level))
          assign sums[level + 1][32*i +: 32] = sums[level][32*i +: 32];
        else
          assign sums[level + 1][32*i +: 32] = sums[level][32*i +: 32] + sums[level][32*(i - (1 << level)) +: 32];
      end
    end
  endgenerate
  assign inclusive = sums[LEVELS];
endmodule
