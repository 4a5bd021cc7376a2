// burner CPU PERCENT IN OUT: a profiler of known cost. It reads perf's control commands from
// descriptor IN and answers 'ack' on OUT. While enabled it uses PERCENT of the CPU, in bursts, at a
// priority above all normal programs.
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: burner CPU PERCENT IN OUT\n");
        return 2;
    }
    // In shorter rounds the wake-ups would cost more than the bursts.
    const long long round_ns = 5000000;
    const long long burn_ns = (long long)(round_ns * atof(argv[2]) / 100);
    int in = atoi(argv[3]), out = atoi(argv[4]), enabled = 0;
    cpu_set_t on;
    CPU_ZERO(&on);
    CPU_SET(atoi(argv[1]), &on);
    struct sched_param first = {.sched_priority = 2};
    if (sched_setaffinity(0, sizeof on, &on) || sched_setscheduler(0, SCHED_FIFO, &first)) {
        perror("burner");
        return 1;
    }
    long long next = now_ns();
    for (;;) {
        struct pollfd order = {.fd = in, .events = POLLIN};
        long long left = next - now_ns();
        struct timespec wait = {0, left > 0 ? left : 0};
        if (ppoll(&order, 1, enabled ? &wait : NULL, NULL) > 0) {
            char words[64] = "";
            ssize_t got = read(in, words, sizeof words - 1);
            if (got <= 0 || strstr(words, "stop"))
                return 0;
            enabled = strstr(words, "enable") ? 1 : strstr(words, "disable") ? 0 : enabled;
            next = now_ns() + round_ns / 2;
            if (write(out, "ack\n", 4) != 4)
                return 1;
        } else if (enabled) {
            long long end = now_ns() + burn_ns;
            while (now_ns() < end)
                ;
            next += round_ns;
        }
    }
}
