// Two rows and two columns of the array, a tile after the other. [harmonia section IV-C, Fig. 14a]
`timescale 1ns/1ps

module bfp_pe_array_clocked (
  input  wire         clk,
  input  wire         rst,
  input  wire [1:0]   mode,
  input  wire         clear,
  input  wire         last,
  input  wire [1:0]   a_valid,
  input  wire [1:0]   col_valid,
  input  wire [63:0]  a_sign,
  input  wire [511:0] a_mag,
  input  wire [9:0]   a_exp,
  input  wire [1:0]   b_valid,
  input  wire [511:0] b,
  input  wire [63:0]  b_sign,
  input  wire [9:0]   b_exp,
  input  wire [31:0]  w_scale,
  output wire [63:0]  acc,
  output wire [5:0]   flags,
  output wire [1:0]   valid,
  output wire         col,
  output wire         busy,
  output wire [1:0]   arrived,
  output wire [7:0]   sub_pes
);
  bfp_array_core #(.ROWS(2), .COLUMNS(2), .OVERLAP(0)) core (
    .clk(clk), .rst(rst), .mode(mode), .clear(clear), .last(last), .a_valid(a_valid), .col_valid(col_valid),
    .a_sign(a_sign), .a_mag(a_mag), .a_exp(a_exp), .b_valid(b_valid), .b(b), .b_sign(b_sign), .b_exp(b_exp),
    .w_scale(w_scale), .acc(acc), .flags(flags), .valid(valid), .col(col), .busy(busy), .arrived(arrived),
    .sub_pes(sub_pes));
endmodule
