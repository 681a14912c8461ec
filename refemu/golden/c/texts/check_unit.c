/* $unit against the golden set $set:
   cc -std=c99 -I. -I$set/include check_$unit.c $unit.c -o check_$unit && ./check_$unit $set answers.csv
   Exit code 0: every row is equal, 1: not, 2: the set cannot be read. refemu diff $set answers.csv --explain */
#include "golden_set.h"
#include "$unit.h"

int main(int argc, char **argv)
{
    const char *set = golden_argument(argc, argv);
$read
    double begin = golden_seconds();
    for (size_t row = 0; row < ${upper}_ROWS; row++)
        $unit($called);
    double seconds = golden_seconds() - begin;

    const struct golden_output outputs[] = {
$outputs
    };
    return golden_finish(outputs, sizeof outputs / sizeof *outputs, ${upper}_ROWS, seconds, argv[2]);
}
