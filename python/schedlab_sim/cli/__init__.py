"""The commands of the simulators, as entry points of `schedlab.commands`."""
