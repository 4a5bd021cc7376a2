/* usdt COUNT: passes the USDT probe tare:turn COUNT times, from two lines of the program, with the
   number of the turn and a string; and tare:watched only while its semaphore is set. Prints how
   often it passed each. Built without sys/sdt.h it has no probes and exits with 77. */
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<sys/sdt.h>)
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short tare_turn_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short tare_watched_semaphore __attribute__((section(".probes")));

__attribute__((noinline)) static void turn(long number, const char *text)
{
	DTRACE_PROBE2(tare, turn, number, text);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 100, watched = 0;

	for (long i = 0; i < count; i++) {
		if (i % 2)
			turn(i, "odd");
		else
			DTRACE_PROBE2(tare, turn, i, "even");
		if (*(volatile unsigned short *)&tare_watched_semaphore) {
			DTRACE_PROBE1(tare, watched, -1);
			watched++;
		}
	}
	printf("%ld %ld\n", count, watched);
	return 0;
}
#else
int main(void)
{
	return 77;
}
#endif
