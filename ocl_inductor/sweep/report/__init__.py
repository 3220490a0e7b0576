"""What a sweep's results say: the HTML report, tables, comparisons."""
