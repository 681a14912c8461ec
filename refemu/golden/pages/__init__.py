"""Pages of docs/ that commands print, linked from texts/, and the words that they explain."""
