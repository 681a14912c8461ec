// One row and all sixteen columns of the array, which leave in T_0 to T_15. [harmonia section IV-C, Fig. 14a]
`timescale 1ns/1ps

module bfp_pe_array_clocked (
  input  wire          clk,
  input  wire          rst,
  input  wire [1:0]    mode,
  input  wire          clear,
  input  wire          last,
  input  wire          a_valid,
  input  wire [15:0]   col_valid,
  input  wire [31:0]   a_sign,
  input  wire [255:0]  a_mag,
  input  wire [4:0]    a_exp,
  input  wire [15:0]   b_valid,
  input  wire [4095:0] b,
  input  wire [511:0]  b_sign,
  input  wire [79:0]   b_exp,
  input  wire [255:0]  w_scale,
  output wire [31:0]   acc,
  output wire [2:0]    flags,
  output wire          valid,
  output wire [3:0]    col,
  output wire          busy,
  output wire [15:0]   arrived,
  output wire [63:0]   sub_pes
);
  bfp_array_core #(.ROWS(1), .COLUMNS(16), .OVERLAP(0)) core (
    .clk(clk), .rst(rst), .mode(mode), .clear(clear), .last(last), .a_valid(a_valid), .col_valid(col_valid),
    .a_sign(a_sign), .a_mag(a_mag), .a_exp(a_exp), .b_valid(b_valid), .b(b), .b_sign(b_sign), .b_exp(b_exp),
    .w_scale(w_scale), .acc(acc), .flags(flags), .valid(valid), .col(col), .busy(busy), .arrived(arrived),
    .sub_pes(sub_pes));
endmodule
