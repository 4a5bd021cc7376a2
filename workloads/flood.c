/* flood [SECONDS [CPU]]: calls getppid(2) as fast as possible for SECONDS (default 2), bound to CPU
   if given; prints the number of calls. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    double end = now() + (argc > 1 ? atof(argv[1]) : 2);
    if (argc > 2) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(atoi(argv[2]), &cpus);
        if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
            perror("flood: sched_setaffinity");
            return 1;
        }
    }
    unsigned long calls = 0;
    /* Where the vDSO can't read the clock, it takes a system call: read it rarely. */
    for (; now() < end; calls += 256)
        for (int i = 0; i < 256; i++)
            syscall(SYS_getppid);
    printf("%lu\n", calls);
    return 0;
}
