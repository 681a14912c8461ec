// A list of 32 pages. [leankv section 5.2, Fig. 5]
`timescale 1ns/1ps

module free_page_list (
  input  wire          clk,
  input  wire          rst,
  input  wire          op,
  input  wire [31:0]   count,
  input  wire [1023:0] ids,
  output wire [1023:0] taken,
  output wire [31:0]   list_start,
  output wire [31:0]   list_end,
  output wire [31:0]   free
);
  free_page_list_core #(.PAGES(32)) core (
    .clk(clk), .rst(rst), .op(op), .count(count), .ids(ids), .taken(taken), .list_start(list_start),
    .list_end(list_end), .free(free));
endmodule
