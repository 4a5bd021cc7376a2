/* mix SECONDS PERCENT THREADS: each thread works PERCENT of every 10 ms, in three functions with
   about 60, 30 and 10% of that. Order and durations come from a fixed seed, so that no sampling
   period falls into step with them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUND_NS 10000000LL

static double seconds, percent;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

#define WORK(name)                                     \
    __attribute__((noinline)) void name(unsigned left) { \
        while (left > 0) {                             \
            left--;                                    \
            __asm__ volatile("" : "+r"(left));         \
        }                                              \
    }
WORK(sixty)
WORK(thirty)
WORK(ten)

static unsigned draw(unsigned long long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 32;
}

static void *work(void *seed) {
    unsigned long long state = 88172645463325252ULL + (unsigned long)seed;
    long long start = now_ns(), end = start + (long long)(seconds * 1e9);
    for (long long round = start; now_ns() < end; round += ROUND_NS) {
        while (now_ns() < round + (long long)(ROUND_NS * percent / 100)) {
            unsigned which = draw(&state) % 10, passes = 20000 + draw(&state) % 80000;
            if (which < 6)
                sixty(passes);
            else if (which < 9)
                thirty(passes);
            else
                ten(passes);
        }
        if (percent < 100) {
            struct timespec next = {(round + ROUND_NS) / 1000000000, (round + ROUND_NS) % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: mix SECONDS PERCENT THREADS\n");
        return 2;
    }
    seconds = atof(argv[1]);
    percent = atof(argv[2]);
    long threads = atol(argv[3]);
    pthread_t ids[64];
    if (threads < 1 || threads > 64)
        return 2;
    for (long at = 0; at < threads; at++)
        if (pthread_create(&ids[at], NULL, work, (void *)at))
            return 1;
    for (long at = 0; at < threads; at++)
        pthread_join(ids[at], NULL);
    return 0;
}
