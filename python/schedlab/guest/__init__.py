"""A virtual machine as a place to run: the real kernel, with counted instructions as its clock.

An experiment goes in, a result folder comes out, and nothing of the host enters but its bytes.
"""
