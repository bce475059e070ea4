"""Facts of this machine, and its settings: changed with a journal and always restored."""
