// An OliVe pair decoder as a stream: tables instead of logic, two stages, each with valid and ready.
`default_nettype none
module AXIS_DECODER #(parameter integer C_LANES = 2) (
  input  wire        aclk, aresetn,
  input  wire [11:0] s_axis_tdata,  // bias, right code, left code
  input  wire        s_axis_tvalid,
  output wire        s_axis_tready,
  output wire [15:0] m_axis_tdata,  // exponent and integer of each lane, the left one low
  output wire        m_axis_tuser,  // an illegal pair
  output wire        m_axis_tvalid,
  input  wire        m_axis_tready
);
  reg [11:0] first_q;
  reg        first_valid_q, second_valid_q, user_q;
  reg [15:0] second_q;
  wire       second_ready = ~second_valid_q | m_axis_tready;
  assign s_axis_tready = ~first_valid_q | second_ready;
  assign {m_axis_tdata, m_axis_tuser, m_axis_tvalid} = {second_q, user_q, second_valid_q};

  function [5:0] abfloat(input [2:0] code);  // places and magnitude
    case (code)
      3'd0: abfloat = 6'o00;
      3'd1: abfloat = 6'o03;
      3'd2: abfloat = 6'o12;
      3'd3: abfloat = 6'o13;
      3'd4: abfloat = 6'o22;
      3'd5: abfloat = 6'o23;
      3'd6: abfloat = 6'o32;
      3'd7: abfloat = 6'o33;
    endcase
  endfunction

  wire [15:0] lanes;
  genvar g;
  generate
    for (g = 0; g < C_LANES; g = g + 1) begin : G_LANE
      wire [3:0] mine = first_q[4*g +: 4], other = first_q[4*(C_LANES-1-g) +: 4];
      wire [5:0] outlier = abfloat(mine[2:0]);
      wire [3:0] signed_outlier = ({4{mine[3]}} ^ {1'b0, outlier[2:0]}) + {3'd0, mine[3]};
      assign lanes[8*g +: 8] = mine == 4'h8 ? 8'd0 :
                               other == 4'h8 ? {first_q[11:8] + {1'b0, outlier[5:3]}, signed_outlier} : {4'd0, mine};
    end
  endgenerate

  always @(posedge aclk or negedge aresetn)
    if (!aresetn) {first_valid_q, second_valid_q} <= 2'b00;
    else begin
      if (s_axis_tready) first_valid_q <= s_axis_tvalid;
      if (second_ready) second_valid_q <= first_valid_q;
    end
  always @(posedge aclk) begin
    if (s_axis_tready & s_axis_tvalid) first_q <= s_axis_tdata;
    if (second_ready & first_valid_q) {user_q, second_q} <= {~|(first_q[7:0] & 8'h77) & (first_q[7] | first_q[3]), lanes};
  end
endmodule
`default_nettype wire
