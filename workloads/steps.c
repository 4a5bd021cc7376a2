/* steps ROUNDS PERCENT: each round of some milliseconds spends 40, 25, 18, 12 and 5% of its time in
   five functions; PERCENT lengthens the loop of the first, parse. Durations come from a fixed seed,
   so that no sampling period falls into step with them; the total work is the same in every run. */
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned sink;

#define STEP(name)                                       \
    __attribute__((noinline)) void name(unsigned left) { \
        while (left > 0) {                               \
            left--;                                      \
            __asm__ volatile("" : "+r"(left));           \
        }                                                \
        sink++;                                          \
    }
STEP(parse)
STEP(lookup)
STEP(sort)
STEP(format)
STEP(copy)

static unsigned draw(unsigned long long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 32;
}

/* Not inlined, and with code after each call, so that no call is a tail call: samples have call
   chains. */
__attribute__((noinline)) static void once(unsigned long long *state, unsigned percent) {
    unsigned passes = 60000 + draw(state) % 40000;
    parse((unsigned)((unsigned long long)passes * 40 * (100 + percent) / 100));
    lookup(passes * 25);
    sort(passes * 18);
    format(passes * 12);
    copy(passes * 5);
    sink++;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: steps ROUNDS PERCENT\n");
        return 2;
    }
    unsigned long long state = 88172645463325252ULL;
    for (long round = atol(argv[1]); round > 0; round--)
        once(&state, (unsigned)atoi(argv[2]));
    return 0;
}
