"""References of units for formal tools: SystemVerilog, C and SMT-LIB from one set of terms."""
