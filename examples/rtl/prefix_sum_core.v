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
  genvar level, i;
  generate
    for (level = 0; level <= LEVELS; level = level + 1) begin : network
      wire [32*N-1:0] sums;  // behind the level
      if (level == 0) begin : load
        assign sums = {counts[32*N-1:32], counts[31:0] + base};
      end else begin : add
        for (i = 0; i < N; i = i + 1) begin : element
          localparam REACH = 1 << (level - 1);
          if (i < REACH) begin : keep
            assign sums[32*i +: 32] = network[level-1].sums[32*i +: 32];
          end else begin : sum
            assign sums[32*i +: 32] = network[level-1].sums[32*i +: 32] + network[level-1].sums[32*(i - REACH) +: 32];
          end
        end
      end
    end
  endgenerate
  assign inclusive = network[LEVELS].sums;
endmodule
