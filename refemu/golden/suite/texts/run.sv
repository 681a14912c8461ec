// iverilog -g2012 -DIN=12 -DOUT=17 -o run run.sv device.v && vvp run +FILE=ovp_decoder-int4.json
// IN, OUT: "bits" of the suite's file. device(clk, rst, in, out): a rising edge a test; rst comes before a test with first 1.
module run;
  reg [`IN-1:0] in;
  reg [`OUT-1:0] want, care;
  wire [`OUT-1:0] got;
  reg clk = 0, rst = 0;
  reg [8*256-1:0] path, rest;
  reg [7:0] result;
  integer file, id, first, found, tests = 0, valid = 0, open = 0;
  device device(.clk(clk), .rst(rst), .in(in), .out(got));
  initial begin
    if (!$value$plusargs("FILE=%s", path)) $fatal(1, "give +FILE=<the suite's JSON file>");
    file = $fopen(path, "r");
    if (file == 0) $fatal(1, "cannot open %0s", path);
    while (!$feof(file)) begin
      found = $fscanf(file, "{\"tcId\": %d, \"first\": %d, \"in\": \"%h\", \"out\": \"%h\", \"care\": \"%h\", \"result\": \"%c",
                      id, first, in, want, care, result);
      if (found == 6) begin
        if (first) begin rst = 1; #1 clk = 1; #1 clk = 0; rst = 0; end
        #1 clk = 1; #1 clk = 0; #1 tests = tests + 1;
        if (((got ^ want) & care) !== 0) begin
          if (result == "v") valid = valid + 1; else open = open + 1;
          $display("test %0d: in %h got %h want %h care %h", id, in, got, want, care);
        end
      end
      found = $fgets(rest, file);
    end
    $display("%0d tests, %0d valid and %0d acceptable ones differ", tests, valid, open);
    if (tests == 0 || valid != 0) $fatal(1, "FAIL"); else $display("PASS");
    $finish;
  end
endmodule
