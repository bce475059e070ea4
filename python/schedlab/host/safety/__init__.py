"""Changes that are always taken back: the journal, the guardian, consent, what we own."""
