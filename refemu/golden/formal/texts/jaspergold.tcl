# UNTESTED: refemu has no license of this tool. $set: jg -batch ${unit}_jaspergold.tcl
analyze -sv12 $unit.v ${unit}_ref.sv ${unit}_props.sv
elaborate -top ${unit}_check
$jasper
prove -all
report
