"""Golden sets as a suite of JSON tests in the manner of Wycheproof, with runners that need nothing of refemu."""
