// Checks $unit against the golden set $set; run with +VEC=<directory of the set>.
// Every row is compared with !==, so an x or z is a difference; sentinels show that the files were read completely.
// Only a line that begins with PASS is a pass: a device that ends the simulation leaves exit code 0 without it.
// +LATENCY=<n>: rising edges from a row's inputs to its answer. +VALID: valid/ready on both sides, with bubbles and
// back-pressure drawn from +SEED=<n>. +RESET=<n>: number of resets in mid-work. +TIMEOUT=<cycles> without an answer.
// +ALL continues after the first difference and prints every row that differs; +DUT=<file> continues and writes the
// answers for `refemu diff`; +REGS=<file> compares registers; +WAIVE=<file> leaves bits out; +REPEAT=<n> is for timing.
`timescale 1ns/1ps
module tb_$unit;
  `include "${unit}_vec.svh"
  localparam HAS_CLOCK = $event;  // 1 if the unit has registers: a row is an edge, a case begins with a reset
  localparam FIRST_BIT = STIM_BITS - 1;  // in a unit with registers, 1 if the row begins a case
  localparam LEAST = $event;  // edges from inputs to an answer
  localparam QUIET = 64;  // cycles without a row, during which no answer may come
  reg [STIM_BITS-1:0] stim [0:N];
  reg [GOLD_BITS-1:0] gold [0:N];
  reg [GOLD_BITS-1:0] care [0:N];
  reg [$regbits-1:0] held [0:N];
  reg [$regbits-1:0] held_care [0:N];
  reg [GOLD_BITS+$regbits-1:0] judged [0:N];  // bits that no waiver leaves out
  integer entered [0:N];  // number of the edge at which a row entered
  reg [STIM_BITS-1:0] word;
  reg [GOLD_BITS-1:0] want, mask, kept;
  reg [GOLD_BITS+$regbits-1:0] counts, remains;
  reg [$regbits-1:0] held_mask;
  wire [GOLD_BITS-1:0] got;
  wire [GOLD_BITS-1:0] compared;
  wire [$regbits-1:0] registers, register_bits;
  wire $present_range present;
  wire $named_range named;
  reg [8*512-1:0] vec, path, name, digest, of, by;
  reg all, regs = 0, waives = 0, handshake = 0, running = 0;
  reg clk = 0, rst = 0, offers = 0, takes = 1;
  wire may_enter, answers, may_stall;
  // Counters are set here, not in the initial block: after the loop there Verilator 5.48 takes them for constants.
  integer sent = 0, done = 0, row, file, dut, times, failures = 0, equal = 0, written = 0, edges = 0;
  integer judged_rows = 0, masked = 0, place;
  integer latency = LEAST, resets = 0, restarts = 0, limit = 1000, idle = 0, back = 0, seed = 1;
  reg fresh = 0, entering, accepted, pending = 0, waiting = 0, wrong, wrong_register;
  reg [31:0] chance = 1;
  reg [3:0] enter_rate = 4, take_rate = 4;  // of 8
  reg [63:0] total = 0;
$wires
  refemu_shell device (
    .clk(clk), .rst(rst), .hs_in_valid(offers), .hs_in_ready(may_enter), .hs_out_valid(answers), .hs_out_ready(takes),
    .hs_may_stall(may_stall), .hs_present(present), .hs_named(named), .hs_registers(registers),
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

  // The set in +VEC has its own name and digest, whatever set the testbench was built with.
  task must_be_of_this_bench;
    begin
      $$sformat(path, "%0s/include/${unit}_vec.svh", vec);
      file = $$fopen(path, "r");
      if (file == 0) $$fatal(1, "FAIL cannot open %0s", path);
      if ($$fscanf(file, "// %s sha256 %s", name, digest) != 2)
        $$fatal(1, "FAIL no name and digest in the first line of %0s: regenerate the set", path);
      $$fclose(file);
      if (name !== "$set") $$fatal(1, "FAIL this bench is of $set, the set in %0s is %0s", vec, name);
    end
  endtask

  // Files of `refemu export shell` have the digest of their set.
  task must_be_of_this_set;
    begin
      file = $$fopen(path, "r");
      if (file == 0) $$fatal(1, "FAIL cannot open %0s", path);
      if ($$fscanf(file, "// sha256 %s by %s", of, by) != 2 || of !== digest)
        $$fatal(1, "FAIL %0s is not of the set in %0s: regenerate it", path, vec);
      $$fclose(file);
    end
  endtask

  // Rows with a compared bit, and waived bits of these rows.
  task count_waived;
    for (row = 0; row < N; row = row + 1) begin
      counts = {regs ? register_bits & held_care[row] : {$regbits{1'b0}},
                compared & (HAS_CARE ? care[row] : {GOLD_BITS{1'b1}})};
      remains = counts & judged[row];
      if (remains != 0) judged_rows = judged_rows + 1;
      if (remains != 0 && remains != counts)
        for (place = 0; place < GOLD_BITS + $regbits; place = place + 1)
          if (counts[place] && !remains[place]) masked = masked + 1;
    end
  endtask

  task edge_of_clock;
    begin
      #1 clk = 1; #1 clk = 0;
      edges = edges + 1;
    end
  endtask

  task reset_device;
    begin
      offers = 0; takes = 0;  // no answer in flight may leave
      rst = 1; edge_of_clock; rst = 0;
      fresh = 1; pending = 0; waiting = 0; idle = 0;
    end
  endtask

  // Compare row `done` with its answer.
  task judge;
    begin
      want = gold[done];
      mask = compared & (HAS_CARE ? care[done] : {GOLD_BITS{1'b1}});
      held_mask = regs ? register_bits & held_care[done] : {$regbits{1'b0}};
      if (waives) {held_mask, mask} = {held_mask, mask} & judged[done];
      if (dut != 0 && done == written) begin $$fdisplay(dut, "%h", got); written = written + 1; end
      wrong = ((got ^ want) & mask) !== {GOLD_BITS{1'b0}};
      wrong_register = ((registers ^ held[done]) & held_mask) !== {$regbits{1'b0}};
      if (wrong || wrong_register) begin
        failures = failures + 1;
        if (failures == 1 || all) begin
          $$display("FAIL row %0d: in %h got %h want %h care %h", done, stim[done], got, want, mask);
$ports
          if (got === {GOLD_BITS{1'bz}})
            $$display("  no output is driven: is DEVICE still the stub that refemu export rtl wrote?");
          for (row = done - 8; wrong && row < done + 9; row = row + 1)
            if (row >= 0 && row < N && row != done && ((got ^ gold[row]) & mask) === {GOLD_BITS{1'b0}})
              $$display("  these are the outputs of row %0d", row);
        end
        if (dut == 0 && !all) begin
          running = 0;
          $$fatal(1, "FAIL stopped; +ALL prints every row that differs, +DUT=<file> writes all answers");
        end
      end else equal = equal + 1;
      done = done + 1;
    end
  endtask

  // Xorshift as in the cocotb testbench; the rates of bubbles and back-pressure change every 32 cycles.
  task draw;
    begin
      chance = chance ^ (chance << 13); chance = chance ^ (chance >> 17); chance = chance ^ (chance << 5);
      if (chance[12:8] == 0) begin enter_rate = rate(chance[14:13]); take_rate = rate(chance[16:15]); end
    end
  endtask

  function [3:0] rate(input [1:0] choice);
    rate = choice == 0 ? 8 : choice == 1 ? 6 : choice == 2 ? 4 : 1;
  endfunction

  // End with a message on row `done`, or on the last row if all were answered.
  task broken(input [8*128-1:0] what);
    begin
      running = 0;
      $$fatal(1, "FAIL row %0d: %0s", done < N ? done : N - 1, what);
    end
  endtask

  // One cycle, in which a row may enter and an answer may come.
  task cycle;
    begin
      entering = sent < N && !(HAS_CLOCK && stim[sent][FIRST_BIT] && !fresh);
      takes = 1;
      if (handshake) begin
        draw;
        entering = entering && (pending || {1'b0, chance[2:0]} < enter_rate);
        takes = !may_stall || {1'b0, chance[5:3]} < take_rate;
      end
      offers = entering;
      if (entering) word = stim[sent];
      #1;
      accepted = entering && (!handshake || may_enter === 1'b1);
      if (handshake) begin
        if ((^{may_enter, answers}) === 1'bx) broken("in_ready or out_valid is x");
        if (waiting && (!answers || ((got ^ kept) & compared & (HAS_CARE ? care[done] : {GOLD_BITS{1'b1}})) !== 0))
          broken("its answer was withdrawn or changed while out_ready was 0");
        if (answers && done == sent && !(takes ? accepted : entering))
          broken("an answer came, but no row is in flight");
      end
      if (accepted) begin entered[sent] = edges; sent = sent + 1; fresh = 0; end
      pending = entering && !accepted;
      if (accepted || (handshake && answers && takes)) idle = 0;
      else if (takes && (pending || sent > done)) idle = idle + 1;
      waiting = handshake && answers && !takes && sent > done;
      kept = got;
      if (handshake && answers && takes) begin
        if (edges - entered[done] < latency) broken("its answer comes before LATENCY edges");
        judge;
      end
      edge_of_clock;
      #1;
      if (!handshake && sent > done && edges == entered[done] + latency) judge;
      if (idle > limit && sent > done) broken("no answer, and TIMEOUT cycles have passed");
      if (idle > limit) broken("in_ready stays 0, and TIMEOUT cycles have passed: the row was not taken");
    end
  endtask

  // Require that no answer comes without a row.
  task nothing_comes;
    begin
      offers = 0; takes = 1;
      repeat (handshake ? QUIET : 0) begin
        #1;
        if (answers !== 1'b0) broken(restarts > 0 && done < N ? "an answer came after a reset in mid-work, to a row from before it"
                                                             : "an answer came after that of the last row");
        edge_of_clock;
      end
    end
  endtask

  // Drop the work in flight and send its rows again; with registers, the whole case.
  task restart;
    begin
      restarts = restarts + 1;
      back = done;
      if (HAS_CLOCK) while (back > 0 && !stim[back][FIRST_BIT]) back = back - 1;
      reset_device;
      nothing_comes;
      equal = equal - (done - back);
      sent = back; done = back;
    end
  endtask

  task every_row;
    begin
      sent = 0; done = 0; restarts = 0; fresh = 0; equal = 0;
      if (!HAS_CLOCK && latency == 0 && !handshake) begin
        while (done < N) begin word = stim[done]; #1; judge; end
      end else begin
        if (!HAS_CLOCK) reset_device;
        while (done < N) begin
          if (restarts < resets && sent * (resets + 1) >= N * (restarts + 1)
              && (sent > done || (HAS_CLOCK && sent < N && !stim[sent][FIRST_BIT]))) restart;
          if (HAS_CLOCK && sent == done && stim[sent][FIRST_BIT] && !fresh) reset_device;
          cycle;
        end
        nothing_comes;
      end
      total = total + {32'd0, equal};
    end
  endtask


  initial begin
    word = 0;
    dut = 0;
    all = $$test$$plusargs("ALL");
    if (!$$value$$plusargs("VEC=%s", vec)) $$fatal(1, "FAIL give +VEC=<directory of the set>");
    if (!$$value$$plusargs("LATENCY=%d", latency)) latency = LEAST;
    if (!$$value$$plusargs("RESET=%d", resets)) resets = 0;
    if (!$$value$$plusargs("TIMEOUT=%d", limit)) limit = 1000;
    if (!$$value$$plusargs("SEED=%d", seed)) seed = 1;
    handshake = $$test$$plusargs("VALID");
    chance = seed ^ 32'h9e3779b9;
    if (chance == 0) chance = 1;
    if (latency < LEAST) $$fatal(1, "FAIL LATENCY must be at least %0d, got %0d: this unit has registers", LEAST, latency);
    must_be_of_this_bench;
    $$sformat(path, "%0s/hex/stim.mem", vec); must_exist; $$readmemh(path, stim);
    $$sformat(path, "%0s/hex/gold.mem", vec); must_exist; $$readmemh(path, gold);
    if (HAS_CARE) begin $$sformat(path, "%0s/hex/care.mem", vec); must_exist; $$readmemh(path, care); end
    if (stim[N] !== {STIM_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in stim.mem: truncated or wrong file");
    if (gold[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in gold.mem: truncated or wrong file");
    if (HAS_CARE && care[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in care.mem: truncated or wrong file");
    if ($$value$$plusargs("REGS=%s", path)) begin
      regs = 1;
      must_be_of_this_set; $$readmemh(path, held);
      $$sformat(path, "%0s.care", path); must_be_of_this_set; $$readmemh(path, held_care);
      if (held[N] !== {$regbits{1'b1}} || held_care[N] !== {$regbits{1'b1}})
        $$fatal(1, "FAIL no sentinel in the file of registers: truncated or wrong file");
      if (handshake) $$fatal(1, "FAIL +REGS needs a fixed latency: with a handshake, registers are ahead of the answers");
    end
    if ($$value$$plusargs("WAIVE=%s", path)) begin
      waives = 1;
      must_be_of_this_set; $$readmemh(path, judged);
      if (judged[N][GOLD_BITS-1:0] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in %0s: truncated or wrong file", path);
    end
    if ($$value$$plusargs("DUT=%s", path)) begin
      dut = $$fopen(path, "w");
      if (dut == 0) $$fatal(1, "FAIL cannot write %0s", path);
    end
    #1;
    if (regs && named == 0) $$fatal(1, "FAIL +REGS, but the map names no register: give \"registers\" in map.json, docs/port-map.md");
    if (waives) begin
      count_waived;
      if (judged_rows == 0) $$fatal(1, "FAIL every row is waived: nothing would be compared");
    end
    if (!$$value$$plusargs("REPEAT=%d", times)) times = 1;
    running = 1;
    repeat (times) every_row;
    running = 0;
    if (dut != 0) $$fclose(dut);
    if (failures != 0) $$fatal(1, "FAIL %0d of %0d rows differ", failures, N);
    if (total != N * times) $$fatal(1, "FAIL %0d rows are equal of %0d times %0d", total, times, N);
    if (restarts != resets)
      $$fatal(1, "FAIL %0d of %0d resets came in mid-work: nothing was in flight, or no case has several rows", restarts, resets);
    $$write("PASS %0d rows of %0s, sha256 %0s; ports", waives ? judged_rows : N, name, digest);
$portnames
    $$write("; registers");
    if (!regs) $$write(" none");
$registernames
    if (waives) $$write("; waived by %0s: compared %0d of %0d rows, %0d bits masked", by, judged_rows, N, masked);
    else $$write("; waived none");
    if (handshake) $$write("; valid/ready, seed %0d", seed); else $$write("; latency %0d", latency);
    $$display("; resets in mid-work %0d", restarts);
    $$finish;
  end

  final if (running) $$display("FAIL the simulation ended in row %0d of %0d: the device stopped it", done, N);
endmodule
