"""Step 2: carry out a plan on the kernel or in the simulator, behind gates."""
