/* peak FILE COMMAND...: writes the peak memory of a command, in KiB, to a file. The peak of a child
 * starts at its parent's, so the parent must be small. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;

	if (argc < 3)
		return 2;
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(98);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child) {
		perror("peak");
		return 97;
	}
	FILE *file = fopen(argv[1], "w");
	if (!file || fprintf(file, "%ld\n", usage.ru_maxrss) < 0 || fclose(file)) {
		perror(argv[1]);
		return 96;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
