/* spin N: runs N passes of a loop in user mode, which the compiler must not remove. */
#include <stdlib.h>

int main(int argc, char **argv) {
    unsigned long left = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000000;
    while (left > 0) {
        left--;
        __asm__ volatile("" : "+r"(left));
    }
    return 0;
}
