// throws SECONDS: throws and catches, four calls apart. `throws --chains`: see known.c.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define APART __attribute__((noinline, noipa))

static volatile long sink;

struct Guard {
	long &count;
	APART ~Guard() { count++; } // the landing pads between throw and catch run this
};

extern "C" {
APART long thrower(long n) {
	for (long i = 0; i < 10000; i++)
		n = n * 31 + i;
	if (n != 0)
		throw n;
	return n;
}
APART long c3(long n) { long count = n; Guard guard{count}; return thrower(n) + count; }
APART long c2(long n) { return c3(n + 1) * 3; }
APART long c1(long n) { long count = n; Guard guard{count}; return c2(n + 2) + count; }
APART long catcher(long n) {
	try {
		return c1(n) + 1;
	} catch (long caught) {
		for (long i = 0; i < 10000; i++)
			caught = caught * 31 + i;
		return caught;
	}
}
}

int main(int argc, char **argv) {
	if (argc > 1 && !std::strcmp(argv[1], "--chains")) {
		std::puts("chain main\nchain catcher main\nchain c1 catcher main\nchain c2 c1 catcher main");
		std::puts("chain c3 c2 c1 catcher main\nchain thrower c3 c2 c1 catcher main");
		std::puts("chain __cxa_throw thrower c3 c2 c1 catcher main");
		std::puts("chain Guard::~Guard c1 catcher main\nchain Guard::~Guard c3 c2 c1 catcher main");
		return 0;
	}
	double seconds = argc > 1 ? std::atof(argv[1]) : 1;
	auto begin = std::chrono::steady_clock::now();
	while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds)
		for (long i = 1; i < 50; i++)
			sink = catcher(i);
	return 0;
}
