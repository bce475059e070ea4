"""The simulators of schedlab, and what is made of them: emulated devices, models, predictions.

In Python they are `schedlab.sim`. Nothing is imported here: the help of a command asks for it.
"""
