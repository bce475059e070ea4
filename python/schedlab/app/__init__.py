"""Commands without a terminal: admit, create, run, resume, extend. The Python API."""
