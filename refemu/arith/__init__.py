"""What hardware arithmetic is: bit fields, rounding, fp16, ordered sums, tables, random words. Knows no format."""
