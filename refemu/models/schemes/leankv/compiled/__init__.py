"""Kernels of the simulation of serving. [leankv §4]"""
