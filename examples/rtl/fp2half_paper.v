// Values beyond the range become infinite. [harmonia section IV-A (4), Fig. 12]
`timescale 1ns/1ps

module fp2half (
  input  wire [255:0] x,
  output wire [127:0] y,
  output wire [7:0]   overflow
);
  fp2half_core #(.SATURATE(0)) core (.x(x), .y(y), .overflow(overflow));
endmodule
