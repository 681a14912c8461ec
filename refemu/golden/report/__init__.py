"""Reports of regressions: a folder of sets and of what devices answered, judged and shown as JSON, JUnit XML, HTML."""
