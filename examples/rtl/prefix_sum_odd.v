// Page counts of thirteen heads. [leankv section 5.2]
`timescale 1ns/1ps

module prefix_sum (
  input  wire [415:0] counts,
  input  wire [31:0]  base,
  output wire [415:0] inclusive
);
  prefix_sum_core #(.N(13)) core (.counts(counts), .base(base), .inclusive(inclusive));
endmodule
