"""Testbenches for devices in Verilog and cocotb."""
