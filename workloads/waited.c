/* waited LIBRARY FILE COMMAND...: runs a command with LIBRARY (waits.so) preloaded into its
   dynamically linked programs, so that FILE gets a line with the CPU time of each process that is
   waited for: see waits.c. The last line is this program's own, with 0 as the waiter. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 4 || setenv("WAITS", argv[2], 1))
        return 2;
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", argv[1], 1);
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 125;
    FILE *file = fopen(argv[2], "a");
    if (!file)
        return 125;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long long us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    fprintf(file, "0 %d %lld waited\n", getpid(), us);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
