// MXFP4 encoder: 32 float32 values to an E8M0 scale and 32 E2M1 codes, rule "floor" [ocp MX 1.0 section 6.3].
// Combinational. Lane 0 stands in the least significant bits. Decisions: D-mx-1 to D-mx-4, D-mx-6.
`timescale 1ns/1ps

module mx_encoder (
  input  wire [1023:0] x,
  output wire [7:0]    scale,
  output wire [127:0]  codes,
  output wire          clipped
);
  wire [7:0]  field;       // exponent field of the largest magnitude
  wire        not_finite;  // some value is NaN or infinite
  wire [7:0]  shared;
  wire [31:0] beyond;      // lanes beyond the largest element

  mx_largest largest (.x(x), .field(field), .not_finite(not_finite));

  // a power of two below the largest element's, 2**2; zeros and subnormal values have the smallest scale (D-mx-2)
  assign shared  = (field > 8'd2) ? field - 8'd2 : 8'd0;
  assign scale   = not_finite ? 8'hFF : shared;  // D-mx-3
  assign clipped = |beyond & ~not_finite;

  genvar lane;
  generate
    for (lane = 0; lane < 32; lane = lane + 1) begin : lanes
      wire [3:0] code;
      mx_element element (
        .x(x[32*lane +: 32]), .shared(shared), .code(code), .beyond(beyond[lane])
      );
      assign codes[4*lane +: 4] = not_finite ? 4'd0 : code;
    end
  endgenerate
endmodule

// The largest exponent field of a block: the scale needs no more of the largest value.
module mx_largest (
  input  wire [1023:0] x,
  output reg  [7:0]    field,
  output reg           not_finite
);
  integer lane;
  reg [7:0] each;
  always @* begin
    field = 8'd0;
    not_finite = 1'b0;
    for (lane = 0; lane < 32; lane = lane + 1) begin
      each = x[32*lane + 23 +: 8];
      if (each > field) field = each;
      if (each == 8'hFF) not_finite = 1'b1;
    end
  end
endmodule

// One element: x / 2**(shared - 127) to the nearest E2M1 code, ties to even, saturating (D-mx-4).
module mx_element (
  input  wire [31:0] x,
  input  wire [7:0]  shared,
  output wire [3:0]  code,
  output wire        beyond
);
  wire [7:0]        field  = x[30:23];
  wire              normal = |field;
  wire [23:0]       m      = {normal, x[22:0]};
  wire signed [9:0] power  = $signed({2'b00, normal ? field : 8'd1}) - $signed({2'b00, shared});  // of m / 2**23
  wire              upper  = normal & (power > 0);  // from 2 on: steps of 1, from 4 on of 2; below of a half
  wire signed [9:0] far    = 10'sd22 - power;
  wire [4:0]        shift  = upper ? 5'd22 : (far > 10'sd25) ? 5'd25 : far[4:0];
  wire [3:0]        base   = upper ? {1'b0, power[1:0], 1'b0} : 4'd0;

  wire [24:0] wide   = {1'b0, m};
  wire [24:0] whole  = wide >> shift;
  wire [24:0] rest   = wide & ~(25'h1FFFFFF << shift);
  wire [24:0] half   = 25'd1 << (shift - 5'd1);
  wire        up     = (rest > half) | ((rest == half) & whole[0]);
  wire [3:0]  size   = base + whole[3:0] + {3'd0, up};

  assign beyond = size > 4'd7;
  assign code   = {x[31], beyond ? 3'd7 : size[2:0]};  // a negative value that rounds to zero keeps its sign (D-mx-6)
endmodule
