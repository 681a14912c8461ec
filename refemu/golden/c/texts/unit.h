/* $unit, $paper: $meaning.
   One row: every pointer is at the lanes of a port in this row, lane 0 first; types come from the header of the set. */
#ifndef ${upper}_H
#define ${upper}_H
#include "${unit}_vec.h"

void $unit($declared);
#endif
