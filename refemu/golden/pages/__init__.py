"""Pages of docs/ that commands show: docs/decisions.md and docs/alternatives.md, to which texts/ links."""
