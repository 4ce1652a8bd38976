/*
 * fiber_aarch64.S - the stack switch for aarch64, AAPCS64.
 *
 * A suspended stack holds, from sp upward: x19 to x28, x29 (the frame
 * pointer), x30 (the address to continue at) and d8 to d15, the low halves of
 * v8 to v15. The caller saves all other registers; x18 belongs to the platform.
 * fpcr is not switched (docs/design/0003-fibers.md).
 *
 * The switch ends in `br x30` and not in `ret`: the CPU would predict a return
 * to the fiber that is being left. For this reason the object is not marked as
 * supporting branch target identification or guarded control stacks.
 */
#if defined(__aarch64__)

#define FRAME_SIZE 160

    .text

/* void tri_fiber_switch_raw(tri_fiber *from, tri_fiber *to) */
    .globl  tri_fiber_switch_raw
    .hidden tri_fiber_switch_raw
    .type   tri_fiber_switch_raw, %function
    .p2align 6
tri_fiber_switch_raw:
    .cfi_startproc
    sub     sp, sp, #FRAME_SIZE
    .cfi_def_cfa_offset FRAME_SIZE
    stp     x19, x20, [sp, #0]
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    stp     x21, x22, [sp, #16]
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    stp     x23, x24, [sp, #32]
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    stp     x25, x26, [sp, #48]
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    stp     x27, x28, [sp, #64]
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    stp     x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    stp     d8, d9, [sp, #96]
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    stp     d10, d11, [sp, #112]
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    stp     d12, d13, [sp, #128]
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    stp     d14, d15, [sp, #144]
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152

    mov     x9, sp
    str     x9, [x0]
    ldr     x9, [x1]
    mov     sp, x9              /* same layout, so the CFI stays right */

    ldp     x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    ldp     x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp     x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp     x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp     x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp     x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp     d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp     d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp     d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp     d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    add     sp, sp, #FRAME_SIZE
    .cfi_def_cfa_offset 0
    br      x30
    .cfi_endproc
    .size   tri_fiber_switch_raw, . - tri_fiber_switch_raw

/*
 * The first instructions of a new fiber. x0 and x1 still hold the arguments of
 * the switch. x30 is undefined in this frame, so unwinders stop here.
 */
    .type   fiber_start, %function
    .hidden tri_fiber_main
    .p2align 4
fiber_start:
    .cfi_startproc
    .cfi_undefined x30
    bl      tri_fiber_main
    brk     #1
    .cfi_endproc
    .size   fiber_start, . - fiber_start

/*
 * void tri_fiber_prepare(tri_fiber *fiber): makes the fiber start at
 * fiber_start, with its stack directly below the tri_fiber, whose address is a
 * multiple of 16.
 */
    .globl  tri_fiber_prepare
    .hidden tri_fiber_prepare
    .type   tri_fiber_prepare, %function
    .p2align 4
tri_fiber_prepare:
    .cfi_startproc
    mov     x10, x0
    sub     x0, x0, #FRAME_SIZE
    str     x0, [x10]
    stp     xzr, xzr, [x0, #0]
    stp     xzr, xzr, [x0, #16]
    stp     xzr, xzr, [x0, #32]
    stp     xzr, xzr, [x0, #48]
    stp     xzr, xzr, [x0, #64]
    adr     x9, fiber_start
    stp     xzr, x9, [x0, #80]  /* x29 0: ends a walk of frame pointers */
    stp     xzr, xzr, [x0, #96]
    stp     xzr, xzr, [x0, #112]
    stp     xzr, xzr, [x0, #128]
    stp     xzr, xzr, [x0, #144]
    ret
    .cfi_endproc
    .size   tri_fiber_prepare, . - tri_fiber_prepare

#endif

    .section .note.GNU-stack, "", %progbits
