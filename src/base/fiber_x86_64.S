/*
 * fiber_x86_64.S - the first frame of a new fiber on x86-64, System V.
 *
 * The switch itself is in fiber.h. The first three words of a suspended
 * tri_fiber are its stack pointer, the address to continue at and its frame
 * pointer; the compiler has saved everything else on the fiber's stack.
 *
 * The object is not marked as supporting shadow stacks.
 */
#if defined(__x86_64__)

    .text

/*
 * The first instructions of a new fiber. rdi and rsi still hold the arguments
 * of the switch. rip is undefined in this frame, so unwinders stop here.
 */
    .type   fiber_start, @function
    .hidden tri_fiber_main
    .p2align 4
fiber_start:
    .cfi_startproc
    .cfi_undefined %rip
    call    tri_fiber_main
    ud2
    .cfi_endproc
    .size   fiber_start, . - fiber_start

/*
 * void tri_fiber_prepare(tri_fiber *fiber): makes the fiber start at
 * fiber_start, with its stack directly below the tri_fiber, whose address is a
 * multiple of 16.
 */
    .globl  tri_fiber_prepare
    .hidden tri_fiber_prepare
    .type   tri_fiber_prepare, @function
    .p2align 4
tri_fiber_prepare:
    .cfi_startproc
    leaq    fiber_start(%rip), %rax
    movq    %rdi, 0(%rdi)
    movq    %rax, 8(%rdi)
    movq    $0, 16(%rdi)        /* ends a walk of frame pointers */
    ret
    .cfi_endproc
    .size   tri_fiber_prepare, . - tri_fiber_prepare

#endif

    .section .note.GNU-stack, "", %progbits
