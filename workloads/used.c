/* used FILE COMMAND...: runs a command and writes to FILE the CPU time in microseconds and the page
   faults of the command and of itself. Run by a recorder, it separates the command's usage from the
   recorder's. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 125;
    FILE *file = fopen(argv[1], "w");
    if (!file)
        return 125;
    long long us = 0, faults = 0;
    int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (int i = 0; i < 2; i++) {
        struct rusage usage;
        getrusage(whose[i], &usage);
        us += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        faults += usage.ru_minflt + usage.ru_majflt;
    }
    fprintf(file, "%lld %lld\n", us, faults);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
