"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""
