"""The scheme with the small pages and windows of the Makefile's vectors."""

PAGES = "k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4"
SMALL = f"leankv:{PAGES},t_low=0.02,t_high=0.1"
