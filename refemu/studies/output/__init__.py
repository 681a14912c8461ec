"""Output of a study: tables, plots and the JSON document."""
