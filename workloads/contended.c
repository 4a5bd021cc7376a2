/* contended futex|kernel WAITS MILLISECONDS: a thread waits WAITS times for a lock that another
   thread holds for MILLISECONDS, and prints the sum of its waits in nanoseconds, by its own clock.
   futex: a mutex of the C library, whose holder sleeps. kernel: the lock of an open file's
   position, whose holder reads for that long, again and again until the thread has waited. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int turn; /* 1: the lock is held, or about to be */
static int file, waits;
static long hold_ns;
static size_t bytes;
static char *memory;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void pause_for(long ns) {
    struct timespec time = {ns / 1000000000L, ns % 1000000000L};
    nanosleep(&time, NULL);
}

static void await(int wanted) {
    while (atomic_load(&turn) != wanted)
        pause_for(200000);
}

static void *hold_mutex(void *unused) {
    for (int i = 0; i < waits; i++) {
        pthread_mutex_lock(&mutex);
        atomic_store(&turn, 1);
        pause_for(hold_ns);
        pthread_mutex_unlock(&mutex);
        await(0);
    }
    return unused;
}

__attribute__((noinline)) static long take_mutex(void) {
    long start = now();
    pthread_mutex_lock(&mutex);
    long waited = now() - start;
    pthread_mutex_unlock(&mutex);
    return waited;
}

static void *hold_file(void *unused) {
    for (int i = 0; i < waits; i++) {
        atomic_store(&turn, 1);
        /* On a busy machine the other thread may come too late for the first time. */
        while (atomic_load(&turn) == 1)
            if (lseek(file, 0, SEEK_SET) != 0 || read(file, memory, bytes) < 0)
                exit(1);
    }
    return unused;
}

/* Tries until it has waited: it may come between two reads. */
__attribute__((noinline)) static long take_file(void) {
    long all = 0, waited = 0;
    for (int tries = 0; tries < 500 && waited < hold_ns / 10; tries++) {
        pause_for(2000000); /* by now the other thread reads */
        long start = now();
        lseek(file, 0, SEEK_CUR);
        waited = now() - start;
        all += waited;
    }
    return all;
}

/* Makes a file that takes MILLISECONDS to read, but of at most 64 MiB; in memory if possible. */
static void make_file(void) {
    file = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        file = fileno(tmpfile());
    const size_t most = 64 << 20, step = 4 << 20;
    memory = malloc(most);
    memset(memory, 1, most);
    for (long took = 0; took < hold_ns && bytes < most; bytes += step) {
        if (write(file, memory, step) != (ssize_t)step)
            exit(1);
        lseek(file, 0, SEEK_SET);
        long start = now();
        if (read(file, memory, bytes + step) < 0)
            exit(1);
        took = now() - start;
    }
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    int is_kernel = !strcmp(words[1], "kernel");
    waits = atoi(words[2]);
    hold_ns = atol(words[3]) * 1000000L;
    if (is_kernel)
        make_file();
    pthread_t holder;
    pthread_create(&holder, NULL, is_kernel ? hold_file : hold_mutex, NULL);
    long all = 0;
    for (int i = 0; i < waits; i++) {
        await(1);
        all += is_kernel ? take_file() : take_mutex();
        atomic_store(&turn, 0);
    }
    pthread_join(holder, NULL);
    printf("%ld\n", all);
}
