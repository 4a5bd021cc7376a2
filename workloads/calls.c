/* calls THREADS CHILDREN CALLS: THREADS threads at once, then CHILDREN processes one after the
   other, make CALLS getppid(2) each. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long calls;

static void *call(void *unused) {
    for (long i = 0; i < calls; i++)
        syscall(SYS_getppid);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    long threads = atol(argv[1]), children = atol(argv[2]);
    calls = atol(argv[3]);
    pthread_t *thread = calloc(threads, sizeof *thread);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, call, NULL))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (long i = 0; i < children; i++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            call(NULL);
            _exit(0);
        }
        if (waitpid(child, NULL, 0) != child)
            return 1;
    }
    return 0;
}
