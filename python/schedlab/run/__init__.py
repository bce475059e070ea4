"""Step 2: run a plan on the kernel or in the simulator, behind gates."""
