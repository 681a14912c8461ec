// MACs of KLLM's PE lane, side by side: weighted sums over a tile, sparse products, and what follows them.
// [kllm section III-B, section III-D, section IV-A, Fig. 6]. A MAC rounds the product, then the sum.
`timescale 1ns/1ps

module pe_lane_mac #(
  parameter MACS = 3,
  parameter ENTRIES = 4,
  parameter ADDRESS_BITS = 2,
  parameter COUNTER_BITS = 5,
  parameter COLUMN_BITS = 2
) (
  input  wire                                 clk,
  input  wire                                 rst,
  input  wire                                 full,
  input  wire [COLUMN_BITS-1:0]               columns,
  input  wire [MACS*ENTRIES*COUNTER_BITS-1:0] counted,
  output wire                                 swap,      // the bank comes here in this edge
  input  wire [15:0]                          outliers,
  input  wire                                 opens,
  input  wire                                 closes,
  input  wire                                 shifts,
  input  wire                                 biases,
  input  wire [15:0]                          a_scale,
  input  wire [15:0]                          shift,
  input  wire [MACS*16-1:0]                   b_scale,
  input  wire [MACS*16-1:0]                   row_sum,
  input  wire [MACS*16-1:0]                   bias,
  input  wire                                 go,
  input  wire [15:0]                          entry,
  input  wire [MACS-1:0]                      sparse,
  input  wire [MACS*16-1:0]                   x,
  input  wire [MACS*16-1:0]                   w,
  input  wire [MACS-1:0]                      x_coded,
  input  wire [MACS-1:0]                      w_coded,
  output reg  [2:0]                           phase,
  output reg  [ADDRESS_BITS-1:0]              address,
  output reg                                  y_valid,
  output reg  [MACS*16-1:0]                   y,
  output reg  [MACS-1:0]                      overflow
);
  localparam [2:0] IDLE = 0, REDUCE = 1, SPARSE = 2, SCALE = 3, MERGE = 4, SHIFT = 5, BIAS = 6;
  localparam ROW = ENTRIES * COUNTER_BITS;

  // the tile at work
  reg [MACS*ROW-1:0]    reducing;
  reg [COLUMN_BITS-1:0] n;
  reg [15:0]            left, a_scale_held, shift_held;
  reg                   closes_held, shifts_held, biases_held;
  reg [MACS*16-1:0]     b_scale_held, row_sum_held, bias_held;

  wire reduced = phase == REDUCE && &address;
  reg [2:0] next;
  always @* begin
    next = phase;
    case (phase)
      REDUCE: if (reduced) next = !closes_held ? IDLE : left != 0 ? SPARSE : SCALE;
      SPARSE: if (left == 1) next = SCALE;
      SCALE: next = MERGE;
      MERGE: next = shifts_held ? SHIFT : biases_held ? BIAS : IDLE;
      SHIFT: next = biases_held ? BIAS : IDLE;
      default: next = IDLE;
    endcase
  end
  wire finishes = phase != IDLE && next == IDLE;
  wire answers = finishes && phase >= MERGE;
  assign swap = full && go && (phase == IDLE || finishes);

  wire [MACS*16-1:0] result;
  genvar j;
  generate
    for (j = 0; j < MACS; j = j + 1) begin : lane
      wire active = j < n;
      reg [15:0] acc, outside, joint;
      wire [15:0] output_word = y[16*j +: 16];

      wire [15:0] count, x_scaled, w_scaled;
      fp16_round to_half (.negative(1'b0), .power(8'sd0), .half(count),
        .magnitude({{42-COUNTER_BITS{1'b0}}, reducing[ROW*j + COUNTER_BITS*address +: COUNTER_BITS]}));
      fp16_multiply scale_x (.a(a_scale_held), .b(x[16*j +: 16]), .y(x_scaled));
      fp16_multiply scale_w (.a(b_scale_held[16*j +: 16]), .b(w[16*j +: 16]), .y(w_scaled));

      reg [15:0] left_factor, right_factor, addend;
      always @* begin
        case (phase)
          REDUCE: {left_factor, right_factor, addend} = {count, entry, acc};
          SPARSE: begin
            left_factor = x_coded[j] ? x_scaled : x[16*j +: 16];
            right_factor = w_coded[j] ? w_scaled : w[16*j +: 16];
            addend = outside;
          end
          MERGE: {left_factor, right_factor, addend} = {acc, joint, outside};
          SHIFT: {left_factor, right_factor, addend} = {~shift_held[15], shift_held[14:0], row_sum_held[16*j +: 16], output_word};
          BIAS: {left_factor, right_factor, addend} = {bias_held[16*j +: 16], 16'h3c00, output_word};
          default: {left_factor, right_factor, addend} = {a_scale_held, b_scale_held[16*j +: 16], 16'h0000};
        endcase
      end
      wire [15:0] product, sum;
      fp16_multiply multiply (.a(left_factor), .b(right_factor), .y(product));
      fp16_sum add (.a(product), .b(addend), .y(sum));
      assign result[16*j +: 16] = phase < MERGE ? output_word : active ? sum : 16'h0000;

      always @(posedge clk)
        if (rst) {acc, outside, joint} <= 0;
        else begin
          if (active && phase == REDUCE) acc <= sum;
          if (active && phase == SPARSE && sparse[j]) outside <= sum;
          if (active && phase == SCALE) joint <= product;
          if (swap && opens) {acc, outside} <= 0;
        end
      always @(posedge clk)
        if (rst) overflow[j] <= 1'b0;
        else if (answers) overflow[j] <= active && result[16*j+10 +: 5] == 5'd31;
    end
  endgenerate

  always @(posedge clk)
    if (rst) begin
      {reducing, n, left, a_scale_held, shift_held, closes_held, shifts_held, biases_held} <= 0;
      {b_scale_held, row_sum_held, bias_held, phase, address, y_valid, y} <= 0;
    end else begin
      y <= result;
      y_valid <= answers;
      phase <= swap ? REDUCE : next;
      if (phase == REDUCE) address <= reduced ? {ADDRESS_BITS{1'b0}} : address + 1'b1;
      if (phase == SPARSE) left <= left - 1'b1;
      if (swap) begin
        reducing <= counted;
        n <= columns;
        left <= outliers;
        {a_scale_held, shift_held, closes_held, shifts_held, biases_held} <= {a_scale, shift, closes, shifts, biases};
        {b_scale_held, row_sum_held, bias_held} <= {b_scale, row_sum, bias};
      end
    end
endmodule
