/* locked PERIOD_NS SECONDS: alternates between two functions, each for half of a period of the
 * monotonic clock. A sampler with the same period sees only one of them. */
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static __attribute__((noinline)) void first_half(void)
{
	for (int i = 0; i < 20000; i++)
		sink += i;
}

static __attribute__((noinline)) void second_half(void)
{
	for (int i = 0; i < 20000; i++)
		sink ^= i;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	long long period = atoll(argv[1]);
	long long end = now_ns() + atoll(argv[2]) * 1000000000LL;

	for (long long now = now_ns(); now < end; now = now_ns()) {
		if (now % period < period / 2)
			first_half();
		else
			second_half();
	}
	return 0;
}
