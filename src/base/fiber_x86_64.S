/*
 * fiber_x86_64.S - where a new fiber begins; x86-64, System V.
 *
 * The switch itself is in fiber.h. A suspended fiber has its stack pointer,
 * the address to go on at and its frame pointer in the first three words of
 * its tri_fiber; all else is on its stack, wherever the compiler put it.
 *
 * The object carries no mark that it supports shadow stacks.
 */
#if defined(__x86_64__)

    .text

/*
 * Where a new fiber begins: rdi and rsi are still those of the switch that
 * came here. rip is undefined in this frame, so unwinders end with it.
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
 * void tri_fiber_prepare(tri_fiber *fiber): it is to begin right below
 * itself, a multiple of 16.
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
    movq    $0, 16(%rdi)        /* the end for frame pointer walks */
    ret
    .cfi_endproc
    .size   tri_fiber_prepare, . - tri_fiber_prepare

#endif

    .section .note.GNU-stack, "", %progbits
