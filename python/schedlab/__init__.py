"""schedlab: a laboratory for Linux schedulers. Measure, model, decide, apply and take back."""

__version__ = "0.1.0"
