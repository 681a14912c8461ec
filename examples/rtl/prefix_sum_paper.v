// Page counts of eight heads. [leankv section 5.2]
`timescale 1ns/1ps

module prefix_sum (
  input  wire [255:0] counts,
  input  wire [31:0]  base,
  output wire [255:0] inclusive
);
  prefix_sum_core #(.N(8)) core (.counts(counts), .base(base), .inclusive(inclusive));
endmodule
