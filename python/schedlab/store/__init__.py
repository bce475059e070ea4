"""Step 3: result folders, importers and exporters."""
