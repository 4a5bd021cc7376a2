/* 2,000,004 user instructions: 1,000,000 passes of two instructions, one before them and three
   after. */
	.globl	_start
	.text
_start:
#if defined(__x86_64__)
	movl	$1000000, %ecx
1:	decl	%ecx
	jnz	1b
	xorl	%edi, %edi
	movl	$60, %eax		/* exit */
	syscall
#elif defined(__aarch64__)
	ldr	x1, =1000000
1:	subs	x1, x1, #1
	b.ne	1b
	mov	x0, #0
	mov	x8, #93			/* exit */
	svc	#0
#else
#error "loop.S knows x86_64 and aarch64"
#endif
	.section .note.GNU-stack, "", %progbits
