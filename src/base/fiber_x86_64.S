/*
 * fiber_x86_64.S - the stack switch for x86-64, System V calling convention.
 *
 * A suspended stack holds, from sp upward: r15 r14 r13 r12 rbx rbp and the
 * address to go on at. All else is the caller's to save. mxcsr and the x87
 * control word are left alone (docs/design/0003-fibers.md).
 *
 * The way out is `pop; jmp`: a `ret` would be predicted to return to the
 * fiber that is being left, and be wrong each time. For that reason the object
 * carries no mark that it supports shadow stacks.
 */
#if defined(__x86_64__)

    .text

/* void tri_fiber_switch_raw(tri_fiber *from, tri_fiber *to) */
    .globl  tri_fiber_switch_raw
    .hidden tri_fiber_switch_raw
    .type   tri_fiber_switch_raw, @function
    .p2align 6
tri_fiber_switch_raw:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0

    movq    %rsp, (%rdi)
    movq    (%rsi), %rsp        /* same layout: the CFI holds for it too */

    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rcx
    jmp     *%rcx
    .cfi_endproc
    .size   tri_fiber_switch_raw, . - tri_fiber_switch_raw

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

/* void *tri_fiber_prepare(void *top); top is a multiple of 16 */
    .globl  tri_fiber_prepare
    .hidden tri_fiber_prepare
    .type   tri_fiber_prepare, @function
    .p2align 4
tri_fiber_prepare:
    .cfi_startproc
    leaq    fiber_start(%rip), %rcx
    movq    %rcx, -8(%rdi)
    leaq    -56(%rdi), %rax
    xorl    %ecx, %ecx
    movq    %rcx, 0(%rax)
    movq    %rcx, 8(%rax)
    movq    %rcx, 16(%rax)
    movq    %rcx, 24(%rax)
    movq    %rcx, 32(%rax)
    movq    %rcx, 40(%rax)      /* rbp 0: the end for frame pointer walks */
    ret
    .cfi_endproc
    .size   tri_fiber_prepare, . - tri_fiber_prepare

#endif

    .section .note.GNU-stack, "", %progbits
