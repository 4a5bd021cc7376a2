// timer CPU: prints medians in nanoseconds, measured while nothing samples. 'timer': the gap that a
// timer interrupt leaves in a loop that reads the time-stamp counter. 'exit': one exit to the
// hypervisor and back (cpuid; x86 only). 'call': a system call that does nothing.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 1000 };

static double ticks_per_ns;

static inline unsigned long long ticks(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    unsigned long long now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#endif
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
    return (x > y) - (x < y);
}

static void print_median(const char *name, unsigned long long *all) {
    qsort(all, TIMES, sizeof *all, by_size);
    printf("%s %.1f\n", name, all[TIMES / 2] / ticks_per_ns);
}

// Returns the longest gap between arming a timer and well after it expired.
static unsigned long long gap(int timer) {
    struct itimerspec in = {.it_value = {0, 100000}};
    timerfd_settime(timer, 0, &in, NULL);
    unsigned long long begin = ticks(), before = begin, longest = 0;
    while (before - begin < 130000 * ticks_per_ns) {
        unsigned long long now = ticks();
        if (now - before > longest)
            longest = now - before;
        before = now;
    }
    return longest;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: timer CPU\n");
        return 2;
    }
    cpu_set_t on;
    CPU_ZERO(&on);
    CPU_SET(atoi(argv[1]), &on);
    struct sched_param first = {.sched_priority = 1};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (timer < 0 || sched_setaffinity(0, sizeof on, &on) || sched_setscheduler(0, SCHED_FIFO, &first)) {
        perror("timer");
        return 1;
    }
    long long began_ns = now_ns();
    unsigned long long began = ticks();
    while (now_ns() - began_ns < 20000000)
        ;
    ticks_per_ns = (double)(ticks() - began) / (double)(now_ns() - began_ns);

    static unsigned long long all[TIMES];
    for (int i = 0; i < TIMES; i++)
        all[i] = gap(timer);
    print_median("timer", all);
#ifdef __x86_64__
    for (int i = 0; i < TIMES; i++) {
        unsigned a = 0, b, c = 0, d;
        unsigned long long before = ticks();
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
        all[i] = ticks() - before;
    }
    print_median("exit", all);
#endif
    for (int i = 0; i < TIMES; i++) {
        unsigned long long before = ticks();
        syscall(SYS_getppid);
        all[i] = ticks() - before;
    }
    print_median("call", all);
    return 0;
}
