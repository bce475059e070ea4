"""For all tests: they send Ctrl-C to programs they start, so it must not be ignored."""

import signal

# A shell that starts the tests in the background sets SIGINT to "ignore", and programs inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
