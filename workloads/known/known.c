// known SECONDS: works at depths of 1 to 60 calls, on two threads, under a timer's signal handler,
// through a procedure linkage table, in the vdso and behind a tail call. `known --chains` prints
// every possible call chain, innermost function first, the functions of the handler, and those in
// which threads start, for known-chains.awk.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define APART __attribute__((noinline, noipa))
#ifndef PASSES
#define PASSES 20000 // of a leaf's loop
#endif
#ifndef ROOM
#define ROOM 0 // bytes more in each frame
#endif

extern long ext(long);
static volatile long sink;

// f<N> calls f<N+1> down to the wanted depth, where its own leaf works. Frames differ in size, and
// registers that calls must preserve are in use.
#define LEAF(N) \
	APART static long leaf##N(long n, long seed) { \
		volatile long first = seed; /* with nothing on the stack it would have no frame */ \
		for (long i = 0; i < n; i++) \
			seed = seed * 6364136223846793005L + (seed >> 7) + i; \
		return seed + first; \
	}
#define LEVEL(N, NEXT) \
	LEAF(N) \
	APART static long f##N(long depth, long a, long b) { \
		volatile char room[(N * 5) % 48 + 8 + ROOM]; \
		long c = a ^ b, d = a * 3; \
		room[0] = (char)a; \
		long r = depth == N ? leaf##N(PASSES, b) : NEXT(depth, b + 1, a); \
		return r + room[0] + c * d + a; \
	}
APART static long f61(long depth, long a, long b) { return depth + a + b; }
LEVEL(60, f61) LEVEL(59, f60) LEVEL(58, f59) LEVEL(57, f58) LEVEL(56, f57) LEVEL(55, f56)
LEVEL(54, f55) LEVEL(53, f54) LEVEL(52, f53) LEVEL(51, f52) LEVEL(50, f51) LEVEL(49, f50)
LEVEL(48, f49) LEVEL(47, f48) LEVEL(46, f47) LEVEL(45, f46) LEVEL(44, f45) LEVEL(43, f44)
LEVEL(42, f43) LEVEL(41, f42) LEVEL(40, f41) LEVEL(39, f40) LEVEL(38, f39) LEVEL(37, f38)
LEVEL(36, f37) LEVEL(35, f36) LEVEL(34, f35) LEVEL(33, f34) LEVEL(32, f33) LEVEL(31, f32)
LEVEL(30, f31) LEVEL(29, f30) LEVEL(28, f29) LEVEL(27, f28) LEVEL(26, f27) LEVEL(25, f26)
LEVEL(24, f25) LEVEL(23, f24) LEVEL(22, f23) LEVEL(21, f22) LEVEL(20, f21) LEVEL(19, f20)
LEVEL(18, f19) LEVEL(17, f18) LEVEL(16, f17) LEVEL(15, f16) LEVEL(14, f15) LEVEL(13, f14)
LEVEL(12, f13) LEVEL(11, f12) LEVEL(10, f11) LEVEL(9, f10) LEVEL(8, f9) LEVEL(7, f8)
LEVEL(6, f7) LEVEL(5, f6) LEVEL(4, f5) LEVEL(3, f4) LEVEL(2, f3) LEVEL(1, f2)

APART static long tail_leaf(long seed) { return leaf1(PASSES, seed) + 1; }
APART static long tail(long seed) {
	sink = seed;
	return tail_leaf(seed + 1); // a jump: it leaves no frame
}

// known-fp leaves the calls out: neither the stub nor the function in the other library sets up a
// frame pointer.
APART static long through_plt(long seed) {
#ifdef FRAME_POINTERS
	return seed + 1;
#endif
	for (int i = 0; i < PASSES; i++)
		seed += ext(seed);
	return seed;
}

// known-fp leaves the calls out: neither the vdso nor the C library, which calls it, has frame
// pointers.
APART static long through_vdso(long seed) {
#ifdef FRAME_POINTERS
	return seed + 1;
#endif
	struct timespec now;
	for (int i = 0; i < PASSES / 40; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		seed += now.tv_nsec;
	}
	return seed;
}

// By frame pointers, the handler's callers may be missing: it works less in known-fp.
#ifdef FRAME_POINTERS
#define PASSES_IN_HANDLER 20000
#else
#define PASSES_IN_HANDLER 400000
#endif
LEAF(_in_handler)
APART static void handler(int signal) { sink = leaf_in_handler(PASSES_IN_HANDLER, signal) + 1; }

APART static long work(double seconds) {
	struct timespec begin, now;
	long seed = 1, round = 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		seed += f1(round++ % 60 + 1, seed, round);
		seed += tail(seed);
		seed += through_plt(seed);
		seed += through_vdso(seed);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return seed;
}

APART static void *thread_main(void *seconds) {
	sink = work(*(double *)seconds);
	return NULL;
}

static void chains(const char *root) {
	printf("chain %s\nchain work %s\n", root, root);
	printf("chain leaf1 tail_leaf work %s\nchain tail_leaf work %s\nchain tail work %s\n", root, root, root);
	printf("chain through_plt work %s\nchain ext through_plt work %s\n", root, root);
	printf("chain ext@plt through_plt work %s\n", root);
	printf("chain through_vdso work %s\n", root);
	for (int depth = 1; depth <= 60; depth++)
		for (int leaf = 0; leaf < 2; leaf++) {
			printf(leaf ? "chain leaf%d" : "chain", depth);
			for (int at = depth; at > 0; at--)
				printf(" f%d", at);
			printf(" work %s\n", root);
		}
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "--chains")) {
		chains("main");
		chains("thread_main");
		puts("inner leaf_in_handler handler\ninner handler");
#ifndef __i386__ // there the function that starts threads has no name
		puts("end _start\nend clone3\nend __clone3\nend clone\nend __clone");
#endif
		return 0;
	}
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 4000}, {0, 4000}}, never = {{0, 0}, {0, 0}};
	pthread_t thread;
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	pthread_create(&thread, NULL, thread_main, &seconds);
	sink = work(seconds);
	pthread_join(thread, NULL);
	setitimer(ITIMER_PROF, &never, NULL);
	return 0;
}
