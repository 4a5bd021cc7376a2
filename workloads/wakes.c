/* wakes FILE BYTES: four times a second appends BYTES to a file and rewrites a few bytes of its
   header, as a recorder does at each flush interval. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t bytes = strtoul(argv[2], NULL, 10);
    char *buffer = calloc(1, bytes);
    if (file < 0 || !buffer)
        return 1;
    for (off_t end = 104;; end += bytes) {
        struct timespec quarter = {0, 250000000};
        struct stat state;
        ppoll(NULL, 0, &quarter, NULL);
        if (fstat(file, &state) || pwrite(file, buffer, bytes, end) < 0 || pwrite(file, buffer, 8, 48) < 0)
            return 1;
    }
}
