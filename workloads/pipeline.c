/* pipeline TIMES MILLISECONDS: three processes connected by pipes, TIMES times: source sleeps and
   writes a byte, relay passes it on, sink reads it. Each process has the name of its part. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int first[2], second[2];
static struct timespec rest;

__attribute__((noinline)) static void produce(void) {
    nanosleep(&rest, 0);
    if (write(first[1], "x", 1) != 1)
        exit(1);
}

__attribute__((noinline)) static void pass_on(void) {
    char byte;
    if (read(first[0], &byte, 1) != 1 || write(second[1], &byte, 1) != 1)
        exit(1);
}

__attribute__((noinline)) static void consume(void) {
    char byte;
    if (read(second[0], &byte, 1) != 1)
        exit(1);
}

static int as(char *name, void (*act)(void), int times) {
    prctl(PR_SET_NAME, name);
    while (times--)
        act();
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3 || pipe(first) || pipe(second))
        return 2;
    int times = atoi(argv[1]), status;
    rest.tv_nsec = atol(argv[2]) * 1000000;
    if (!fork())
        return as("source", produce, times);
    if (!fork())
        return as("relay", pass_on, times);
    as("sink", consume, times);
    while (wait(&status) > 0)
        if (status)
            return 1;
    return 0;
}
