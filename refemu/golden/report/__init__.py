"""Reports of regressions: results of a folder of sets and answers, as JSON, JUnit XML and HTML."""
