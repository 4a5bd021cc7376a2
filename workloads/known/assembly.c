// assembly SECONDS: works in functions of hand-written assembly without unwind tables, and in C that
// they call. Their frames are of several kinds. `assembly --chains` prints every possible call chain,
// for known-chains.awk.
#ifndef __x86_64__
#error "x86-64 only"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define APART __attribute__((noinline, noipa))
#define PASSES "5000"

// A function between calls of C: its callers have the registers that it saved.
#define FUNCTION(NAME, BODY) \
	__asm__(".text\n.type " #NAME ", @function\n" #NAME ":\n" BODY ".size " #NAME ", .-" #NAME "\n.balign 16\n"); \
	extern long NAME(long)
#define LOOP "mov $" PASSES ", %ecx\n1: imul $3, %rax, %rax\ndec %ecx\njnz 1b\n"

// Nothing on the stack.
FUNCTION(bare_leaf, "mov %rdi, %rax\n" LOOP "ret\n");
// All registers that it must preserve, in use.
FUNCTION(saving_leaf,
	"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"xor %ebx, %ebx\nmov $-1, %rbp\nmov %rdi, %r12\nxor %r13d, %r13d\nmov %rsp, %r14\nxor %r15d, %r15d\n"
	"mov %rdi, %rax\n" LOOP
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");
// Room for locals, aligned to 64 bytes; the old stack pointer is in it. It has two ends.
FUNCTION(aligned_leaf,
	"push %rbx\nmov %rsp, %rax\nsub $512, %rsp\nand $-64, %rsp\nmov %rax, 128(%rsp)\nxor %ebx, %ebx\n"
	"mov %rdi, %rax\n" LOOP
	"test $1, %dil\njz 2f\nmov 128(%rsp), %rsp\npop %rbx\nret\n"
	"2: mov 128(%rsp), %rsp\nxor %eax, %eax\npop %rbx\nret\n");
// Calls C from the middle of a frame.
FUNCTION(caller,
	"push %rbp\npush %rbx\nsub $40, %rsp\nmov %rdi, %rbx\nxor %ebp, %ebp\ncall c_leaf\nadd %rbx, %rax\n"
	"cmp $77, %rax\nje 3f\nadd $40, %rsp\npop %rbx\npop %rbp\nret\n3: ud2\n");
// Calls C through a frame pointer, and from a loop that ends by a jump backwards.
FUNCTION(framed_caller,
	"push %rbp\nmov %rsp, %rbp\npush %rbx\nsub $24, %rsp\nmov $3, %ebx\njmp 5f\n"
	"4: lea -8(%rbp), %rsp\npop %rbx\npop %rbp\nret\n"
	"5: call c_leaf\nmov %rax, %rdi\ndec %ebx\njnz 5b\njmp 4b\n");

static volatile long sink;

APART long c_leaf(long seed) {
	volatile long first = seed;
	for (long i = 0; i < 5000; i++)
		seed = seed * 6364136223846793005L + (seed >> 7) + i;
	return seed + first;
}

APART static long work(double seconds) {
	struct timespec begin, now;
	long seed = 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 50; i++) {
			seed += bare_leaf(seed);
			seed += saving_leaf(seed);
			seed += aligned_leaf(seed);
			seed += caller(seed);
			seed += framed_caller(seed);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return seed;
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "--chains")) {
		puts("chain main\nchain work main");
		puts("chain bare_leaf work main\nchain saving_leaf work main\nchain aligned_leaf work main");
		puts("chain caller work main\nchain c_leaf caller work main");
		puts("chain framed_caller work main\nchain c_leaf framed_caller work main");
		return 0;
	}
	sink = work(argc > 1 ? atof(argv[1]) : 1);
	return 0;
}
