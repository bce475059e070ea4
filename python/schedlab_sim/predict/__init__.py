"""Devices that are fitted, and predictions for devices that are not there."""
