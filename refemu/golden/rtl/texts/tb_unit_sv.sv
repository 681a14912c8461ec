// Checks $unit against the golden set $set with the classes of refemu_${unit}_pkg; +VEC=<directory of the set>.
// +ALL prints every row that differs; +COVERAGE=<file> writes the counters of coverage as JSON.
`timescale 1ns/1ps
module tb_${unit}_sv;
  import refemu_${unit}_pkg::*;
  logic [STIMULUS_BITS-1:0] stim[0:ROWS];
  logic [$$bits(outputs_t)-1:0] gold[0:ROWS];
  logic [$$bits(outputs_t)-1:0] care[0:ROWS];
  logic [23:0] about[0:ROWS];  // decision, kind and flags of a row
  inputs_t  stimulus = '0;
  outputs_t got;
  string    vec, path;
$clock
  $unit device (
    $connected
  );

  function automatic void must_exist(string name);
    int file;
    file = $$fopen(name, "r");
    if (file == 0) $$fatal(1, "FAIL cannot open %s", name);
    $$fclose(file);
  endfunction

  function automatic void must_be_whole(string name, bit sentinel);
    if (!sentinel) $$fatal(1, "FAIL no sentinel in %s: truncated or wrong file", name);
  endfunction

  // The set in +VEC has its own name and digest, whatever set the package was made for.
  function automatic void must_be_of_this_package();
    int file;
    string name, digest;
    path = {vec, "/include/${unit}_vec.svh"};
    must_exist(path);
    file = $$fopen(path, "r");
    if ($$fscanf(file, "// %s sha256 %s", name, digest) != 2) $$fatal(1, "FAIL no name and digest in %s", path);
    $$fclose(file);
    if (digest != SHA256) $$fatal(1, "FAIL the package is of %s, sha256 %s, and %s holds %s, sha256 %s: export again",
                                 SET, SHA256, vec, name, digest);
  endfunction

  function automatic transaction of_row(int row);
    transaction item = new;
    item.row = longint'(row);
    item.stimulus = inputs_t'(stim[row][$$bits(inputs_t)-1:0]);
    item.first = $first;
    item.want = outputs_t'(gold[row]);
    item.care = outputs_t'($care);
    item.flags = about[row][7:0];
    item.kind = int'(about[row][15:8]);
    item.decision = int'(about[row][23:16]);
    return item;
  endfunction

  scoreboard board = new;
  coverage   counts = new;
  transaction item;
  int file;

  initial begin
    if (!$$value$$plusargs("VEC=%s", vec)) $$fatal(1, "FAIL give +VEC=<directory of the set>");
    must_be_of_this_package();
    path = {vec, "/hex/stim.mem"}; must_exist(path); $$readmemh(path, stim); must_be_whole(path, &stim[ROWS] === 1);
    path = {vec, "/hex/gold.mem"}; must_exist(path); $$readmemh(path, gold); must_be_whole(path, &gold[ROWS] === 1);
$read_care
    path = "${unit}_rows.mem"; must_exist(path); $$readmemh(path, about); must_be_whole(path, &about[ROWS] === 1);
    board.verbose = $$test$$plusargs("ALL") != 0;
    for (int row = 0; row < int'(ROWS); row++) begin
      item = of_row(row);
$reset      stimulus = item.stimulus;
      board.push(item);
$edge
      void'(board.check(got));
      counts.sample(item, got);
      if (board.differing != 0 && !board.verbose) $$fatal(1, "FAIL stopped; +ALL prints every row that differs");
    end
    if ($$value$$plusargs("COVERAGE=%s", path)) begin
      file = $$fopen(path, "w");
      if (file == 0) $$fatal(1, "FAIL cannot write %s", path);
      $$fdisplay(file, "%s", counts.json());
      $$fclose(file);
    end
    $$display("%s", board.verdict());
    if (!board.passed()) $$fatal(1, "FAIL");
    $$finish;
  end
endmodule
