"""Foreign measurements become result folders of kind "import": one file per format."""
