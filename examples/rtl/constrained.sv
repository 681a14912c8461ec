  // Stimulus by constraints, in place of $urandom: legal pairs, half of them with an outlier that leaves its port.
  class constrained;
    rand bit [7:0] pair;
    rand bit [3:0] bias;
    rand bit outlier;
    constraint legal { !(pair[3:0] == 4'h8 && pair[6:4] == 0); !(pair[7:4] == 4'h8 && pair[2:0] == 0); }
    constraint marked { outlier == (pair[3:0] == 4'h8 || pair[7:4] == 4'h8); }
    constraint wraps { outlier -> bias > 12; }
  endclass
  constrained stimulus = new;

  task draw;
    int found;
    // without z3 on PATH a simulation in Verilator goes on with 0 here, and with values that no constraint has seen
    found = stimulus.randomize() with { outlier == number[0]; };
    if (found != 1) $fatal(1, "FAIL transaction %0d: randomize() found no stimulus; Verilator needs z3 on PATH", number);
    in.pair = stimulus.pair;
    in.bias = stimulus.bias;
  endtask
