/* $unit, $paper: $meaning. Yours to fill in. */
#include "$unit.h"

void $unit($declared)
{
$unused
}
