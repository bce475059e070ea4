"""Step 5: the verdict as text, HTML and workbook."""
