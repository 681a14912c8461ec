// Output-stationary array of 4 x 2 elements, int4 or flint4 pairs, or of 2 x 1 elements, int8 pairs; wrapping sums.
// [olive section 4.3, section 4.5, Fig. 8]. An 8-bit product takes four 4-bit elements (olive_pe4.v) and an extra adder.
// An input says of either operand which type its 4-bit pairs have (D-olive-63). Registers and adder of an 8-bit element are those of its top left 4-bit one (D-olive-62).
`timescale 1ns/1ps

module olive_systolic_core (
  input  wire         clk,
  input  wire         rst,
  input  wire         wide,
  input  wire         drain,
  input  wire [63:0]  west,
  input  wire [3:0]   west_valid,
  input  wire [31:0]  north,
  input  wire [1:0]   north_valid,
  input  wire [3:0]   bias_a,
  input  wire [3:0]   bias_b,
  input  wire         flint_a,
  input  wire         flint_b,
  output reg  [63:0]  south,
  output reg  [1:0]   south_overflow,
  output reg          illegal
);
  localparam R = 4, C = 2;

  reg mode;
  wire fresh = wide != mode;  // everything under way is dropped (D-olive-49)

  // what enters at the borders: {valid, exponent, integer}
  wire [14*R-1:0] from_west;
  wire [14*C-1:0] from_north;
  wire [R-1:0] bad_west;
  wire [C-1:0] bad_north;
  genvar g;
  generate
    for (g = 0; g < R; g = g + 1) begin : array_row
      systolic_line w (.clk(clk), .rst(rst), .fresh(fresh), .drain(drain), .wide(wide),
        .take(west_valid[g] && (!wide || g < R / 2)), .pair(west[16*g +: 16]), .bias(bias_a), .flint(flint_a),
        .enters(from_west[14*g +: 14]), .bad(bad_west[g]));
    end
    for (g = 0; g < C; g = g + 1) begin : array_column
      systolic_line n (.clk(clk), .rst(rst), .fresh(fresh), .drain(drain), .wide(wide),
        .take(north_valid[g] && (!wide || g < C / 2)), .pair(north[16*g +: 16]), .bias(bias_b), .flint(flint_b),
        .enters(from_north[14*g +: 14]), .bad(bad_north[g]));
    end
  endgenerate

  // registers of the elements, row by row, and what they take at the next edge
  reg [14*R*C-1:0] a, b, next_a, next_b;
  reg [32*R*C-1:0] acc, next_acc;
  reg [R*C-1:0]    over, next_over;
  reg [32*C-1:0]   bottom;
  reg [C-1:0]      bottom_over;

  // what the elements multiply: operands of their own, or halves of those of the top left one (D-olive-36)
  wire [80*R*C-1:0] terms;
  generate
    for (g = 0; g < R * C; g = g + 1) begin : element
      localparam ROW = g / C, COLUMN = g % C, TOP = C * (ROW - ROW % 2) + COLUMN - COLUMN % 2;
      wire [13:0] x = wide ? next_a[14*TOP +: 14] : next_a[14*g +: 14];
      wire [13:0] y = wide ? next_b[14*TOP +: 14] : next_b[14*g +: 14];
      wire [4:0] half_x = ROW % 2 == 0 ? {x[7], x[7:4]} : {1'b0, x[3:0]};
      wire [4:0] half_y = COLUMN % 2 == 0 ? {y[7], y[7:4]} : {1'b0, y[3:0]};
      wire [3:0] apart = (ROW % 2 == 0 ? 4'd4 : 4'd0) + (COLUMN % 2 == 0 ? 4'd4 : 4'd0);
      wire signed [9:0] product;
      wire signed [79:0] term;
      olive_pe4 pe (.x(wide ? half_x : x[4:0]), .y(wide ? half_y : y[4:0]),
        .places({2'b00, x[12:8]} + {2'b00, y[12:8]} + (wide ? {3'b000, apart} : 7'd0)),
        .product(product), .term(term));
      assign terms[80*g +: 80] = x[13] && y[13] ? term : 80'd0;
    end
  endgenerate

  integer i, j, at, far;
  always @* begin  // operands move
    far = wide ? 2 : 1;  // from one element to the next
    {next_a, next_b} = 0;
    for (i = 0; i < R; i = i + 1)
      for (j = 0; j < C; j = j + 1) begin
        at = C * i + j;
        if (!drain && (!wide || (i % 2 == 0 && j % 2 == 0))) begin  // a drain drops operands (D-olive-50)
          next_a[14*at +: 14] = j < far ? from_west[14*(i/far) +: 14] : fresh ? 14'd0 : a[14*(at - far) +: 14];
          next_b[14*at +: 14] = i < far ? from_north[14*(j/far) +: 14] : fresh ? 14'd0 : b[14*(at - C*far) +: 14];
        end
      end
  end

  reg signed [31:0] sum;
  reg signed [79:0] exact;
  integer m, n, to, step;
  always @* begin  // sums grow, or move south
    step = wide ? 2 : 1;
    {next_acc, next_over, bottom, bottom_over, sum, exact} = 0;
    for (m = 0; m < R; m = m + 1)
      for (n = 0; n < C; n = n + 1) begin
        to = C * m + n;
        sum = fresh ? 32'sd0 : acc[32*to +: 32];
        if (!wide || (m % 2 == 0 && n % 2 == 0)) begin
          if (drain) begin
            if (m >= step && !fresh) begin
              next_acc[32*to +: 32] = acc[32*(to - C*step) +: 32];
              next_over[to] = over[to - C*step];
            end
            if (m == R - step && !fresh) begin
              bottom[32*(n/step) +: 32] = acc[32*to +: 32];
              bottom_over[n/step] = over[to];
            end
          end else begin
            exact = {{48{sum[31]}}, sum} + terms[80*to +: 80];
            if (wide)  // the extra adder of four elements
              exact = exact + terms[80*(to + 1) +: 80] + terms[80*(to + C) +: 80] + terms[80*(to + C + 1) +: 80];
            next_acc[32*to +: 32] = exact[31:0];  // D-olive-33: wraps
            next_over[to] = (over[to] && !fresh) || exact[79:31] != {49{exact[31]}};
          end
        end
      end
  end

  always @(posedge clk)
    if (rst) {mode, illegal, a, b, acc, over, south, south_overflow} <= 0;
    else begin
      mode <= wide;
      if (!drain && (|bad_west || |bad_north)) illegal <= 1'b1;
      {a, b, acc, over} <= {next_a, next_b, next_acc, next_over};
      {south, south_overflow} <= {bottom, bottom_over};  // 0 without a drain (D-olive-51)
    end
endmodule

// A border line: the left element of a pair enters at once, the right one in the next edge (D-olive-38).
module systolic_line (
  input  wire        clk,
  input  wire        rst,
  input  wire        fresh,
  input  wire        drain,
  input  wire        wide,
  input  wire        take,
  input  wire [15:0] pair,
  input  wire [3:0]  bias,
  input  wire        flint,
  output wire [13:0] enters,
  output wire        bad
);
  reg  [13:0] held;
  wire [13:0] now = fresh ? 14'd0 : held;
  wire takes = take && !drain && !now[13];  // a pair that comes while an element is held is not read (D-olive-48)

  wire [7:0] mark = wide ? 8'h80 : 8'h08;
  wire [7:0] left = wide ? pair[7:0] : {4'd0, pair[3:0]};
  wire [7:0] right = wide ? pair[15:8] : {4'd0, pair[7:4]};
  wire [7:0] low = mark - 8'd1;

  function [12:0] element(input [7:0] code, input [7:0] partner, input eight, input four_flint, input [3:0] add);
    reg [7:0] value;
    reg [4:0] exponent;
    reg [7:0] identifier;
    begin
      identifier = eight ? 8'h80 : 8'h08;
      exponent = 5'd0;
      if (code == identifier) value = 8'd0;
      else if (partner == identifier) begin
        exponent = {1'b0, add} + (eight ? {1'b0, code[6:3]} : {3'd0, code[2:1]});
        if (!eight) exponent[4] = 1'b0;  // the exponent of a 4-bit outlier has 4 bits (D-olive-20)
        value = eight ? {4'd0, code[6:0] != 0, code[2:0]} : {6'd0, code[2:0] != 0, code[0]};
        if (eight ? code[7] : code[3]) value = -value;
      end else if (four_flint && !eight) begin  // D-olive-16
        case (code[2:0])
          3'b100: {exponent, value} = {5'd4, 8'd1};
          3'b101: {exponent, value} = {5'd2, 8'd2};
          3'b110: value = 8'd4;
          3'b111: value = 8'd6;
          default: value = {5'd0, code[2:0]};
        endcase
        if (code[3]) value = -value;
      end else value = eight ? code : {{4{code[3]}}, code[3:0]};
      element = {exponent, value};
    end
  endfunction

  assign enters = takes ? {1'b1, element(left, right, wide, flint, bias)} : now;
  assign bad = takes && ((left == mark && (right & low) == 0) || (right == mark && (left & low) == 0));

  always @(posedge clk)
    if (rst || drain) held <= 14'd0;
    else held <= takes ? {1'b1, element(right, left, wide, flint, bias)} : 14'd0;
endmodule
