"""What a campaign measured: samples, results, tables, pictures, and the page."""
