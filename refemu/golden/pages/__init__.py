"""Pages of docs/ that commands show, to which texts/ links, and what else is known of the words in them."""
