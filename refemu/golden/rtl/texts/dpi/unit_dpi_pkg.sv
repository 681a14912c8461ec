// $unit in configuration $config as a function of SystemVerilog, imported from refemu_dpi.c and ${unit}_dpi.c.
// $paper: $meaning. The first port is in the lowest bits, lane 0 lowest.
package ${unit}_dpi_pkg;
  localparam int WORDS_IN = $words_in;
  localparam int WORDS_OUT = $words_out;
  localparam int OK = 0;       // answered
  localparam int REFUSED = 1;  // this transaction is invalid; the state is unchanged
  localparam int DEAD = 2;     // the server has ended

  typedef struct packed {
$in_fields
  } in_t;

  typedef struct packed {
$out_fields
  } out_t;

  import "DPI-C" function chandle refemu_open(input string spec);
  import "DPI-C" function int refemu_reset(input chandle handle);
  import "DPI-C" function int refemu_close(input chandle handle);
  import "DPI-C" function string refemu_error(input chandle handle);
  import "DPI-C" function chandle ${unit}_open();
  import "DPI-C" function int ${unit}_step(input chandle handle, input bit [32*WORDS_IN-1:0] in,
                                           output bit [32*WORDS_OUT-1:0] out);

  // Starts the server of this unit and configuration; null if that fails: error(null) has the reason.
  function automatic chandle start();
    return ${unit}_open();
  endfunction

  // One transaction: OK, REFUSED or DEAD.
  function automatic int predict(input chandle handle, input in_t in, output out_t out);
    bit [32*WORDS_OUT-1:0] words;
    int status;
    words = '0;
    status = ${unit}_step(handle, in, words);
    out = out_t'(words);
    return status;
  endfunction

  // Resets the unit.
  function automatic int reset(input chandle handle);
    return refemu_reset(handle);
  endfunction

  // Ends the server.
  function automatic int stop(input chandle handle);
    return refemu_close(handle);
  endfunction

  // The last error message.
  function automatic string error(input chandle handle);
    return refemu_error(handle);
  endfunction
endpackage
