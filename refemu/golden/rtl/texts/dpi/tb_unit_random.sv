// Compares the device $unit with refemu, live: drawn transactions, and answers of a server of $set.
// +N=<transactions>, default 1000; +SEED=<seed>, default 1; +ALL continues after the first difference.
// Edit `draw` for the stimulus of your design. An invalid transaction reaches neither the unit nor the device.
// Only a line that begins with PASS is a pass: a device that ends the simulation leaves exit code 0 without it.
`timescale 1ns/1ps
module tb_${unit}_random;
  import ${unit}_dpi_pkg::*;
  chandle predictor;
  in_t in;
  out_t want;
  logic all, running = 0;
  logic bad;
  int number = 0, transactions, seed, refused = 0, failures = 0, status;
$wires
$clock
  $module device (
    $connected
  );

  // A value of a port: a corner value in a quarter of the draws, else uniform.
  function automatic bit [63:0] value(input bit [63:0] low, input bit [63:0] span);
    bit [63:0] drawn;
    drawn = {$$urandom, $$urandom};
    case ($$urandom % 8)
      0: drawn = 0;
      1: drawn = span;
      default: ;
    endcase
    return low + (span == '1 ? drawn : drawn % (span + 1));
  endfunction

  task draw;
    in = '0;
$draws
  endtask

  task differs(input string port);
    if (!bad) $$display("FAIL transaction %0d, seed %0d: in %h", number, seed, in);
    $$display("  %s", port);
    bad = 1;
  endtask

  task compare;
    bad = 0;
$compares
    if (bad) begin
      failures++;
      if (!all) begin
        running = 0;
        $$fatal(1, "FAIL stopped; +ALL prints every transaction that differs");
      end
    end
  endtask
$restart
  initial begin
    in = '0;
    all = $$test$$plusargs("ALL") != 0;
    if (!$$value$$plusargs("N=%d", transactions)) transactions = 1000;
    if (!$$value$$plusargs("SEED=%d", seed)) seed = 1;
    void'($$urandom(seed));
    predictor = start();
    if (predictor == null) $$fatal(1, "FAIL %s", error(null));
    running = 1;
$start
    while (number < transactions) begin
$again
      draw;
      status = predict(predictor, in, want);
      if (status == DEAD) $$fatal(1, "FAIL %s", error(predictor));
      if (status == REFUSED) begin
        refused++;
        if (refused > 100 * (number + 10))
          $$fatal(1, "FAIL %0d transactions of %0d were refused, edit draw; the last one: %s", refused,
                 refused + number, error(predictor));
      end else begin
$edge
        compare;
        number++;
      end
    end
    running = 0;
    if (stop(predictor) != OK) $$fatal(1, "FAIL %s", error(predictor));
    if (failures != 0) $$fatal(1, "FAIL %0d of %0d transactions differ, seed %0d", failures, number, seed);
    $$display("PASS %0d transactions of $set, seed %0d, %0d refused, digest $digest", number, seed, refused);
    $$finish;
  end

  final if (running) $$display("FAIL the simulation ended in transaction %0d: the device stopped it", number);
endmodule
