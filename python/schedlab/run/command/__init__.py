"""Commands that are measured: started, confined, their phases, the numbers in their output."""
