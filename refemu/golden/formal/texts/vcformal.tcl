# UNTESTED: refemu has no license of this tool. $set: vcf -batch -f ${unit}_vcformal.tcl
set_fml_appmode FPV
read_file -top ${unit}_check -format sverilog -sva -vcs "$unit.v ${unit}_ref.sv ${unit}_props.sv"
$vcformal
check_fv -block
report_fv
