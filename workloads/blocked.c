/* blocked WAY MILLISECONDS TIMES [FILE]: waits TIMES times for about MILLISECONDS in one way:
   sleep, pipe, mutex, futex, queue (two threads on one CPU) or read (64 KiB of FILE, bypassing the
   page cache, however long that takes). Prints three durations in nanoseconds: the waits by its own
   clock (queue: by the kernel's schedstat), the summed lifetime of its threads, and the CPU time
   that the waits took to begin and end (not for queue). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long each_ns, waited_ns, lived_ns, ran_ns;
static int times, ends[2], disk;
static sem_t begin;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int word, seen;
static atomic_bool over;

static long clock_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static long now(void) { return clock_ns(CLOCK_MONOTONIC); }

/* Adds a wait to waited_ns, and the CPU time that this thread spent in it to ran_ns. */
static void measure(void (*wait_for)(void)) {
    long ran = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    long from = now();
    wait_for();
    waited_ns += now() - from;
    ran_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran;
}

static void rest(void) {
    struct timespec time = {each_ns / 1000000000, each_ns % 1000000000};
    nanosleep(&time, 0);
}

__attribute__((noinline)) static void wait_for_sleep(void) { rest(); }

__attribute__((noinline)) static void wait_for_pipe(void) {
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        abort();
}

__attribute__((noinline)) static void wait_for_mutex(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) static void wait_for_futex(void) {
    while (atomic_load(&word) == 0)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    atomic_store(&word, 0);
}

/* The other thread: ends each wait of the first. */
static void *helper(void *what) {
    long born = now();
    for (int i = 0; i < times; i++) {
        if (!strcmp(what, "mutex"))
            pthread_mutex_lock(&mutex);
        sem_post(&begin);
        rest();
        if (!strcmp(what, "mutex"))
            pthread_mutex_unlock(&mutex);
        else if (!strcmp(what, "pipe") && write(ends[1], "x", 1) != 1)
            abort();
        else if (!strcmp(what, "futex")) {
            atomic_store(&word, 1);
            syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
        }
        /* Start the next wait only after the first thread saw this one end. */
        while (atomic_load(&seen) == i)
            usleep(100);
    }
    lived_ns = now() - born;
    return 0;
}

static void with_helper(char *what, void (*wait_for)(void)) {
    pthread_t thread;
    if (pipe(ends) || pthread_create(&thread, 0, helper, what))
        abort();
    for (int i = 0; i < times; i++) {
        sem_wait(&begin);
        measure(wait_for);
        atomic_fetch_add(&seen, 1);
    }
    pthread_join(thread, 0);
}

static void *spin(void *unused) {
    long born = now();
    while (!atomic_load(&over))
        ;
    lived_ns = now() - born;
    return unused;
}

/* Time on the run queue, from the kernel's schedstat. */
static long queued(void) {
    char text[64] = "";
    long ran, wait = 0;
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0 || sscanf(text, "%ld %ld", &ran, &wait) != 2)
        exit(3);
    close(file);
    return wait;
}

static void on_run_queue(void) {
    cpu_set_t cpus, one;
    pthread_t thread;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus)) {
            CPU_SET(cpu, &one);
            break;
        }
    sched_setaffinity(0, sizeof one, &one);
    long before = queued(), end = now() + each_ns * times;
    if (pthread_create(&thread, 0, spin, 0))
        abort();
    while (now() < end)
        ;
    waited_ns = queued() - before;
    atomic_store(&over, 1);
    pthread_join(thread, 0);
}

static void wait_for_disk(void) {
    static char block[1 << 16] __attribute__((aligned(4096)));
    if (read(disk, block, sizeof block) <= 0)
        exit(3);
}

static void from_disk(char *path) {
    disk = open(path, O_RDONLY | O_DIRECT);
    if (disk < 0)
        exit(3);
    for (int i = 0; i < times; i++)
        measure(wait_for_disk);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    char *what = argv[1];
    each_ns = atof(argv[2]) * 1e6;
    times = atoi(argv[3]);
    sem_init(&begin, 0, 0);
    long from = now();
    if (!strcmp(what, "sleep")) {
        for (int i = 0; i < times; i++)
            measure(wait_for_sleep);
    } else if (!strcmp(what, "pipe"))
        with_helper(what, wait_for_pipe);
    else if (!strcmp(what, "mutex"))
        with_helper(what, wait_for_mutex);
    else if (!strcmp(what, "futex"))
        with_helper(what, wait_for_futex);
    else if (!strcmp(what, "queue"))
        on_run_queue();
    else if (!strcmp(what, "read") && argc > 4) {
        from_disk(argv[4]);
    } else
        return 2;
    printf("%ld %ld %ld\n", waited_ns, now() - from + lived_ns, ran_ns);
    return 0;
}
