// Multiply-accumulate of KLLM's lanes: the product is rounded, then the sum (D-kllm-3). [kllm section IV-A, Table I]
`timescale 1ns/1ps

module fp16_mac (
  input  wire [15:0] a,
  input  wire [15:0] b,
  input  wire [15:0] acc,
  output wire [15:0] y,
  output wire        overflow  // of finite operands; an infinity among them hides it (D-arith-18)
);
  wire [15:0] product;
  fp16_multiply multiply (.a(a), .b(b), .y(product));
  fp16_sum add (.a(acc), .b(product), .y(y));
  assign overflow = a[14:10] != 5'd31 && b[14:10] != 5'd31 && acc[14:10] != 5'd31 && y[14:10] == 5'd31;
endmodule
