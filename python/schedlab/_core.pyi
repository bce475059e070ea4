"""What the compiled part offers; a test keeps this file and the module the same."""

__version__: str
