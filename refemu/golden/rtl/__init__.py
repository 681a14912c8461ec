"""Benches for devices in Verilog and cocotb."""
