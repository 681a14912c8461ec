// $unit: $meaning
// $paper. Fill in the device; `make` checks it against the golden set.
`timescale 1ns/1ps
module $unit (
$declared
);
endmodule
