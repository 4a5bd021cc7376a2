/* left FILE COMMAND...: runs a command until its output is on disk, beside a thread on each CPU
   that runs only when the CPU is otherwise idle. Writes two times in ns to FILE: that of all CPUs,
   and the part that these threads got. The rest is everything that used the CPUs, interrupts
   included, which CPU time accounting doesn't show. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A step between two readings of the clock that takes this long or longer means that something else
   ran. */
#define STEP_NS 1000

struct counter {
    int cpu;
    _Atomic long long ns;
};

static atomic_int waiting, is_over;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *count(void *of) {
    struct counter *counter = of;
    struct sched_param none = {0};
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(counter->cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0 || sched_setscheduler(0, SCHED_IDLE, &none) != 0) {
        perror("left");
        exit(125);
    }
    atomic_fetch_sub(&waiting, 1);
    long long before = now(), sum = 0;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        long long after = now();
        if (after - before < STEP_NS)
            atomic_store_explicit(&counter->ns, sum += after - before, memory_order_relaxed);
        before = after;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return 125;
    int cpus = CPU_COUNT(&all);
    struct counter *counters = calloc(cpus, sizeof *counters);
    pthread_t *threads = calloc(cpus, sizeof *threads);
    atomic_store(&waiting, cpus);
    for (int at = 0, cpu = 0; at < cpus; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            counters[at].cpu = cpu;
            if (pthread_create(&threads[at], NULL, count, &counters[at]) != 0)
                return 125;
            at++;
        }
    while (atomic_load(&waiting) > 0)
        usleep(1000);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    long long before = 0, after = 0, began = now();
    for (int at = 0; at < cpus; at++)
        before += counters[at].ns;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status = 0;
    if (file < 0 || child < 0 || waitpid(child, &status, 0) != child || syncfs(file) != 0)
        return 125;
    long long ended = now();
    for (int at = 0; at < cpus; at++)
        after += counters[at].ns;
    atomic_store(&is_over, 1);
    for (int at = 0; at < cpus; at++)
        pthread_join(threads[at], NULL);
    dprintf(file, "%lld %lld\n", (ended - began) * cpus, after - before);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
