/*
 * kernel-measure: runs a workload under inherited, sampling events, one per CPU, as a recorder without privileges would, and prints what came
 * out as one line of JSON. Runs in the guest of linux/build/compare.sh; see linux/inherited-events.md.
 *
 *   kernel-measure [-n EVENTS] [-g] [-u] [-a] [-e NAME] [-F HZ | -c PERIOD | -i] [-t] [-l LABEL] -- WORKLOAD
 *
 *   -n  number of events of the same kind, from 0 (default 1)
 *   -g  in one group                            -u  user mode only
 *   -e  cycles (default), instructions, task-clock or page-faults
 *   -i  count only                              -t  with each command's share of the samples' weight
 *   -a  on whole CPUs, whatever runs there
 *
 * A WORKLOAD is a program and its arguments, or one of these, which this program is itself:
 *   @children NUMBER MIN_US MAX_US      one after the other, of pseudo-random length in cycles (1 ns each); the parent only waits
 *   @alternate NUMBER A_US B_US         children of two kinds in strict alternation, which call themselves kind-a and kind-b
 *   @mixed NUMBER A_US B_US             the same, but kind-b is in the kernel almost always
 *   @threads NUMBER MIN_US MAX_US       two at a time
 *   @exits NUMBER                       children that end at once
 *   @spin US                            one process
 *   @faults NUMBER                      threads, one after the other, that touch 64 pages each: how a recorder can tell what the kernel does
 *   @pingpong NUMBER                    two processes that wake each other through pipes: one fork, many switches
 *   @unlike NUMBER                      two threads that take turns, with a pause between them: one spins, one is in the kernel almost always
 *   @bursts NUMBER BUSY_US IDLE_US      one process that spins and sleeps by turns
 *   @forks NUMBER EVENTS RATE           children that end at once; prints what a fork takes and what an end
 *   @switches NUMBER EVENTS RATE        two processes that wake each other; prints what a switch takes
 *   @ticks, @overflows NUMBER EVENTS RATE   one process that watches the clock; prints what an interrupt takes
 *
 * The emulated counters don't see what the kernel does while it has the PMU disabled; on one CPU that never idles, the guest's clock does: an instruction
 * takes it a nanosecond.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CPUS = 4, MAX_EVENTS = 6, RING_PAGES = 2048, MAX_TASKS = 32768, COMM = 16, ENTRY_PASSES = 50000, MAX_COSTS = 10000 };

struct options {
    int events, group, user, system, count_only, shares;
    uint64_t hz, period;
    const char *event, *label;
};

struct reading {
    uint64_t value, enabled, running;
};

struct task {
    char comm[COMM];
    uint64_t weight;
};

static struct task tasks[MAX_TASKS];

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(125);
    }
}

/* ---- workloads ---- */

static uint64_t random_state = 1;

static uint64_t between(uint64_t low, uint64_t high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (random_state >> 33) % (high - low + 1);
}

/* Two instructions a pass: a virtual nanosecond and a cycle each. For the emulator's sake it enters the kernel each 100 us, where all counters are brought up to
 * date; without, that may happen as late as a period after one has overflowed, if it isn't the cycle counter itself. */
static void spin(uint64_t us) {
    for (uint64_t left = us * 500; left > 0;) {
        uint64_t passes = left < ENTRY_PASSES ? left : ENTRY_PASSES;
        left -= passes;
        __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(passes)::"cc");
        if (left > 0) getppid();
    }
}

static void *spin_thread(void *us) {
    spin((uint64_t)us);
    return NULL;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Reads zeros: at most one instruction of a hundred is in user mode. */
static void stay_in_kernel(int zeros, uint64_t until_ns) {
    static char buffer[1 << 16];
    while (now_ns() < until_ns) check(read(zeros, buffer, sizeof buffer) == sizeof buffer, "/dev/zero");
}

/* With zeros of -1 it spins. */
static void child(uint64_t us, const char *name, int zeros) {
    int pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        if (name) prctl(PR_SET_NAME, name);
        if (zeros < 0) spin(us);
        else stay_in_kernel(zeros, now_ns() + us * 1000);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static int open_zeros(void) {
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    check(zeros >= 0, "/dev/zero");
    return zeros;
}

static int open_event(struct perf_event_attr *attr, int pid, int cpu, int leader);

static void pingpong(uint64_t number) {
    int there[2], back[2];
    char byte = 0;
    check(pipe(there) == 0 && pipe(back) == 0, "pipe");
    int pid = fork();
    check(pid >= 0, "fork");
    for (uint64_t i = 0; i < number; i++) {
        if (pid == 0) {
            if (read(there[0], &byte, 1) != 1) _exit(1);
            spin(50);
            if (write(back[1], &byte, 1) != 1) _exit(1);
        } else {
            spin(50);
            check(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "pipe");
        }
    }
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
}

static void threads(uint64_t number, uint64_t low, uint64_t high) {
    for (uint64_t i = 0; i < number; i += 2) {
        pthread_t two[2];
        for (int t = 0; t < 2; t++) check(pthread_create(&two[t], NULL, spin_thread, (void *)between(low, high)) == 0, "thread");
        for (int t = 0; t < 2; t++) pthread_join(two[t], NULL);
    }
}

static void *touch_pages(void *unused) {
    volatile char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED, "mmap");
    for (int page = 0; page < 64; page++) pages[page * 4096] = 1;
    munmap((void *)pages, 64 * 4096);
    return unused;
}

static void faults(uint64_t number) {
    for (uint64_t i = 0; i < number; i++) {
        pthread_t one;
        check(pthread_create(&one, NULL, touch_pages, NULL) == 0, "thread");
        pthread_join(one, NULL);
    }
}

struct turns {
    uint64_t number, offset_ns;
    int zeros; /* -1: spins */
};

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Works for 4 ms of each 10 ms, from its offset on, and sleeps for the rest. */
static void *take_turns(void *of) {
    const struct turns *turns = of;
    uint64_t begin = now_ns() / 10000000 * 10000000 + 10000000 + turns->offset_ns;
    for (uint64_t i = 0; i < turns->number; i++, begin += 10000000) {
        struct timespec at = {.tv_sec = begin / 1000000000, .tv_nsec = begin % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        if (turns->zeros >= 0) stay_in_kernel(turns->zeros, begin + 4000000);
        else while (now_ns() < begin + 4000000) spin(20);
    }
    return NULL;
}

static void unlike(uint64_t number) {
    pthread_t two[2];
    struct turns turns[2] = {{number, 0, -1}, {number, 5000000, open_zeros()}};
    for (int t = 0; t < 2; t++) check(pthread_create(&two[t], NULL, take_turns, &turns[t]) == 0, "thread");
    for (int t = 0; t < 2; t++) pthread_join(two[t], NULL);
}

static void bursts(uint64_t number, uint64_t busy, uint64_t idle) {
    for (uint64_t i = 0; i < number; i++) {
        spin(busy);
        usleep(idle);
    }
}

/* Prints what one operation took: the mean of the middle 60%, as a few include the kernel's work for others. */
static void print_cost(const char *what, const char *events, const char *rate, uint64_t *taken, int number) {
    int skipped = number / 5;
    uint64_t sum = 0;
    qsort(taken, number, sizeof *taken, compare);
    for (int i = skipped; i < number - skipped; i++) sum += taken[i];
    printf("{\"workload\":\"cost, %s\",\"event\":\"cycles\",\"events\":%s,\"group\":false,\"rate\":\"%s\",\"each\":%.1f}\n", what, events, rate,
           (double)sum / (number - 2 * skipped));
}

/* With one CPU fork returns to the parent first, and the child runs while it waits. */
static void forks(int number, const char *events, const char *rate) {
    static uint64_t forked[MAX_COSTS], ended[MAX_COSTS];
    for (int i = 0; i < number; i++) {
        uint64_t before = now_ns();
        int pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) _exit(0);
        uint64_t after = now_ns();
        waitpid(pid, NULL, 0);
        forked[i] = after - before;
        ended[i] = now_ns() - after;
    }
    print_cost("fork", events, rate, forked, number);
    print_cost("exit", events, rate, ended, number);
}

/* There and back again. The kernel can't swap the two processes' events, as one has another event in its set. */
static void switches(int number, const char *events, const char *rate) {
    static uint64_t taken[MAX_COSTS];
    int there[2], back[2];
    char byte = 0;
    check(pipe(there) == 0 && pipe(back) == 0, "pipe");
    int pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
        open_event(&attr, 0, -1, -1);
    }
    for (int i = 0; i < number; i++) {
        uint64_t before = now_ns();
        if (pid == 0) check(read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1, "pipe");
        else check(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "pipe");
        taken[i] = (now_ns() - before) / 2;
    }
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    print_cost("switch", events, rate, taken, number);
}

static void interrupts(const char *what, int number, const char *events, const char *rate) {
    static uint64_t taken[MAX_COSTS];
    uint64_t before = now_ns();
    for (int i = 0; i < number;) {
        uint64_t now = now_ns();
        if (now - before > 400) taken[i++] = now - before; /* a pass takes 60 ns */
        before = now;
    }
    print_cost(what, events, rate, taken, number);
}

static int workload(const char *name, char **arguments) {
    uint64_t number[3] = {0};
    for (int i = 0; i < 3 && arguments[i]; i++) number[i] = strtoull(arguments[i], NULL, 10);
    if (!strcmp(name, "@children")) {
        for (uint64_t i = 0; i < number[0]; i++) child(between(number[1], number[2]), NULL, -1);
    } else if (!strcmp(name, "@alternate") || !strcmp(name, "@mixed")) {
        int zeros = !strcmp(name, "@mixed") ? open_zeros() : -1;
        for (uint64_t i = 0; i < number[0]; i++) child(number[1 + i % 2], i % 2 ? "kind-b" : "kind-a", i % 2 ? zeros : -1);
    } else if (!strcmp(name, "@threads")) {
        threads(number[0], number[1], number[2]);
    } else if (!strcmp(name, "@exits")) {
        for (uint64_t i = 0; i < number[0]; i++) child(0, NULL, -1);
    } else if (!strcmp(name, "@spin")) {
        spin(number[0]);
    } else if (!strcmp(name, "@faults")) {
        faults(number[0]);
    } else if (!strcmp(name, "@pingpong")) {
        pingpong(number[0]);
    } else if (!strcmp(name, "@unlike")) {
        unlike(number[0]);
    } else if (!strcmp(name, "@bursts")) {
        bursts(number[0], number[1], number[2]);
    } else if (number[0] > 0 && number[0] <= MAX_COSTS && arguments[1] && arguments[2]) {
        if (!strcmp(name, "@forks")) forks(number[0], arguments[1], arguments[2]);
        else if (!strcmp(name, "@switches")) switches(number[0], arguments[1], arguments[2]);
        else interrupts(!strcmp(name, "@ticks") ? "tick" : "overflow", number[0], arguments[1], arguments[2]);
    } else {
        fprintf(stderr, "there is no workload %s\n", name);
        return 125;
    }
    return 0;
}

/* ---- measuring ---- */

static int open_event(struct perf_event_attr *attr, int pid, int cpu, int leader) {
    attr->size = sizeof *attr;
    int fd = syscall(SYS_perf_event_open, attr, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC);
    check(fd >= 0, "perf_event_open");
    return fd;
}

static void name_event(const struct options *options, struct perf_event_attr *attr) {
    attr->type = PERF_TYPE_HARDWARE;
    if (!strcmp(options->event, "cycles")) {
        attr->config = PERF_COUNT_HW_CPU_CYCLES;
    } else if (!strcmp(options->event, "instructions")) {
        attr->config = PERF_COUNT_HW_INSTRUCTIONS;
    } else {
        attr->type = PERF_TYPE_SOFTWARE;
        attr->config = !strcmp(options->event, "page-faults") ? PERF_COUNT_SW_PAGE_FAULTS : PERF_COUNT_SW_TASK_CLOCK;
    }
}

static struct perf_event_attr inherited(const struct options *options) {
    struct perf_event_attr attr = {.disabled = !options->system, .inherit = 1, .enable_on_exec = !options->system};
    name_event(options, &attr);
    attr.exclude_kernel = options->user;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    if (!options->count_only) {
        attr.freq = options->hz != 0;
        attr.sample_period = options->hz ? options->hz : options->period;
        attr.comm = options->shares;
        /* With PERF_SAMPLE_PERIOD, a software event with a fixed period samples every occurrence. */
        int fixed_software = attr.type == PERF_TYPE_SOFTWARE && !attr.freq;
        attr.sample_type = PERF_SAMPLE_TID | (fixed_software ? 0 : PERF_SAMPLE_PERIOD);
    }
    return attr;
}

/* The whole guest: with -icount, the instruction counter of any CPU counts those of all CPUs. */
static int whole_guest(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .pinned = 1};
    return open_event(&attr, -1, 0, -1);
}

static struct perf_event_mmap_page *map(int fd) {
    void *ring = mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(ring != MAP_FAILED, "mmap");
    return ring;
}

static struct task *task(uint32_t tid) {
    check(tid < MAX_TASKS, "a thread's number");
    return &tasks[tid];
}

struct sums {
    uint64_t samples, weight, low, lost;
};

/* Goes through a ring; `low_below` of 0 stands for the first pass, in which names and weights are taken. */
static void go_through(const struct options *options, const struct perf_event_mmap_page *ring, uint64_t low_below, struct sums *sums) {
    static uint64_t words[8192];
    const unsigned char *data = (const unsigned char *)ring + 4096;
    const uint64_t size = RING_PAGES * 4096ull;
    for (uint64_t at = 0; at < ring->data_head;) {
        struct perf_event_header header;
        memcpy(&header, data + at % size, sizeof header); /* 8 bytes at a multiple of 8 */
        for (uint64_t i = 0; i < header.size; i += 8) memcpy(&words[i / 8], data + (at + i) % size, 8);
        const uint32_t *ids = (const uint32_t *)&words[1]; /* pid, tid */
        uint64_t period = header.size > 16 ? words[2] : options->period;
        if (header.type == PERF_RECORD_SAMPLE && low_below) {
            sums->low += period < low_below;
        } else if (header.type == PERF_RECORD_SAMPLE) {
            sums->samples++;
            sums->weight += period;
            task(ids[1])->weight += period;
        } else if (header.type == PERF_RECORD_LOST && !low_below) {
            sums->lost += words[2];
        } else if (header.type == PERF_RECORD_COMM && !low_below) {
            snprintf(task(ids[1])->comm, COMM, "%.15s", (const char *)&words[2]);
        }
        at += header.size;
    }
}

/* The share of the samples' weight that each name has. */
static void print_shares(uint64_t weight) {
    printf(",\"shares\":{");
    const char *separator = "";
    for (int t = 0; t < MAX_TASKS; t++) {
        struct task sum = tasks[t];
        if (!*sum.comm) continue;
        for (int other = t + 1; other < MAX_TASKS; other++) {
            if (strcmp(tasks[other].comm, sum.comm)) continue;
            sum.weight += tasks[other].weight;
            *tasks[other].comm = 0;
        }
        printf("%s\"%s\":%.4f", separator, sum.comm, weight ? (double)sum.weight / weight : 0);
        separator = ",";
    }
    printf("}");
}

static void report(const struct options *options, const struct reading *all, const struct sums *sums, uint64_t instructions, uint64_t elapsed_ns) {
    double wanted = options->hz ? all->running / 1e9 * options->hz : options->period ? (double)all->value / options->period : 0;
    printf("{\"workload\":\"%s\",\"event\":\"%s%s\",\"events\":%d,\"group\":%s,", options->label, options->event, options->user ? ":u" : "",
           options->events, options->group ? "true" : "false");
    if (options->hz) printf("\"rate\":\"%lu Hz\",", options->hz);
    else if (options->period) printf("\"rate\":\"-c %lu\",", options->period);
    else printf("\"rate\":\"count\",");
    printf("\"count\":%lu,\"running_ns\":%lu,\"instructions\":%lu,\"elapsed_ns\":%lu", all->value, all->running, instructions, elapsed_ns);
    if (!options->count_only && options->events) {
        printf(",\"samples\":%lu,\"wanted\":%.1f,\"coverage\":%.4f,\"low\":%lu,\"lost\":%lu", sums->samples, wanted,
               (double)sums->weight / all->value, sums->low, sums->lost);
    }
    if (options->shares) print_shares(sums->weight);
    printf("}\n");
}

static int start(char **argv, int *go) {
    int waits[2];
    check(pipe2(waits, O_CLOEXEC) == 0, "pipe");
    int pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        char byte;
        if (read(waits[0], &byte, 1) != 1) _exit(125);
        execvp(**argv == '@' ? "kernel-measure" : *argv, argv);
        _exit(127);
    }
    *go = waits[1];
    return pid;
}

static int measure(const struct options *options, char **argv) {
    int go, fds[MAX_CPUS][MAX_EVENTS], status, rings = 0, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct perf_event_mmap_page *ring[2 * MAX_CPUS];
    int pid = start(argv, &go);
    check(cpus <= MAX_CPUS && options->events <= MAX_EVENTS, "limits");
    for (int cpu = 0; cpu < cpus; cpu++) {
        for (int e = 0; e < options->events; e++) {
            struct perf_event_attr attr = inherited(options);
            int member = options->group && e > 0;
            if (member) attr.disabled = attr.enable_on_exec = 0;
            fds[cpu][e] = open_event(&attr, options->system ? -1 : pid, cpu, member ? fds[cpu][0] : -1);
            if (options->count_only) continue;
            if (e == 0) ring[rings++] = map(fds[cpu][e]);
            else check(ioctl(fds[cpu][e], PERF_EVENT_IOC_SET_OUTPUT, fds[cpu][0]) == 0, "set output");
        }
    }
    int whole = whole_guest();
    uint64_t before, after, begin = now_ns(), end;
    check(read(whole, &before, 8) == 8 && write(go, "", 1) == 1 && waitpid(pid, &status, 0) == pid && read(whole, &after, 8) == 8, "the run");
    end = now_ns();
    struct reading all = {0};
    for (int cpu = 0; cpu < cpus; cpu++) {
        for (int e = 0; e < options->events; e++) {
            struct reading one;
            ioctl(fds[cpu][e], PERF_EVENT_IOC_DISABLE, 0);
            check(read(fds[cpu][e], &one, sizeof one) == sizeof one, "read");
            all.value += one.value, all.running += one.running;
        }
    }
    struct sums sums = {0};
    for (int r = 0; r < rings; r++) go_through(options, ring[r], 0, &sums);
    double wanted = options->hz ? all.running / 1e9 * options->hz : 0;
    uint64_t low_below = wanted > 0 ? all.value / wanted / 10 : options->period / 10;
    for (int r = 0; r < rings; r++) go_through(options, ring[r], low_below ? low_below : 1, &sums);
    report(options, &all, &sums, after - before, end - begin);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

int main(int argc, char **argv) {
    struct options options = {.events = 1, .event = "cycles", .label = "?"};
    const char *slash = strrchr(*argv, '/'), *name = slash ? slash + 1 : *argv;
    if (*name == '@') return workload(name, argv + 1);
    for (int option; (option = getopt(argc, argv, "+n:guae:F:c:itl:")) != -1;) {
        switch (option) {
        case 'n': options.events = atoi(optarg); break;
        case 'g': options.group = 1; break;
        case 'u': options.user = 1; break;
        case 'a': options.system = 1; break;
        case 'e': options.event = optarg; break;
        case 'F': options.hz = strtoull(optarg, NULL, 10); break;
        case 'c': options.period = strtoull(optarg, NULL, 10); break;
        case 'i': options.count_only = 1; break;
        case 't': options.shares = 1; break;
        case 'l': options.label = optarg; break;
        default: return 125;
        }
    }
    check(optind < argc && (options.hz || options.period || options.count_only), "a workload and a rate");
    return measure(&options, argv + optind);
}
