"""Results of studies for people and tools: tables, figures, documents. No result depends on anything here."""
