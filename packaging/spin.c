/* What the test of the packages records: two functions with frame pointers, for half a second of CPU time. */
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void spin_inner(void) { for (int i = 0; i < 100000; i++) sink += i; }
__attribute__((noinline)) void spin_outer(void) { spin_inner(); sink++; }
int main(void) {
    clock_t end = clock() + CLOCKS_PER_SEC / 2;
    while (clock() < end) spin_outer();
}
