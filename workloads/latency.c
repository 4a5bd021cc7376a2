/* latency COUNT: calls `work` COUNT times, which sleeps 1 to 20 ms in a fixed mixed order; then
   prints the duration of each call in nanoseconds, by its own clock.
   latency COUNT quick: calls `quick` COUNT times, which does next to nothing, and prints
   nanoseconds per call. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sum;

static long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000L + at.tv_nsec;
}

__attribute__((noinline)) int work(int ms, const char *name)
{
	struct timespec until = {0, ms * 1000000L};

	nanosleep(&until, NULL);
	sum += name[0];
	return -ms;
}

__attribute__((noinline)) unsigned long quick(unsigned long number)
{
	sum += number;
	return sum;
}

__attribute__((noinline)) static void caller(int ms)
{
	long began = now();

	work(ms, ms % 2 ? "odd" : "even");
	printf("%ld\n", now() - began);
	sum++;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 100, began = now();

	if (argc > 2) {
		for (long i = 0; i < count; i++)
			quick(i);
		printf("%.1f\n", (double)(now() - began) / count);
		return 0;
	}
	/* 7 and 20 have no common divisor, so each of the 20 durations is equally frequent. */
	for (long i = 0; i < count; i++)
		caller(1 + 7 * i % 20);
	return 0;
}
