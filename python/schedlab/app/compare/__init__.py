"""What is compared: schedulers, CPU policies, modes, own work; and two results with each other."""
