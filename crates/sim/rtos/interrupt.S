@ Entry and exit of interrupts. In user mode, in which this code is recorded, `cpsr` stands for `spsr`. Offsets are those of kernel.h.
    .syntax unified
    .arm
    .text

    .equ RUNNING, 0
    .equ SCHEDULED, 4
    .equ ENABLED, 8
    .equ REQUESTED, 12
    .equ NESTING, 16
    .equ TASK_STACK, 24
    .equ INTERRUPT_STACK, 28

@ An interrupt is accepted: registers, the stack of interrupts, the number and level from the controller, the mask of its level.
    .global interrupt_enter
interrupt_enter:
    sub lr, lr, #4
    stmfd sp!, {r0-r3, r12, lr}
    mrs r2, cpsr
    stmfd sp!, {r2}
    ldr r0, =the
    ldr r1, [r0, #NESTING]
    cmp r1, #0
    streq sp, [r0, #TASK_STACK]
    ldreq sp, [r0, #INTERRUPT_STACK]
    add r1, r1, #1
    str r1, [r0, #NESTING]
    ldr r2, =interrupt_controller
    ldr r3, [r2]
    ldr r12, =interrupt_table
    add r12, r12, r3, lsl #3
    ldr r1, [r12, #4]
    ldr r3, [r2, #8]
    str r1, [r2, #8]
    stmfd sp!, {r3, lr}
    ldr r12, [r12]
    mrs r1, cpsr
    bic r1, r1, #0x80
    msr cpsr_c, r1
    bx r12

@ The handler has ended: the old mask, the end of the interrupt, and the dispatcher if a more urgent task became ready.
    .global interrupt_leave
interrupt_leave:
    mrs r1, cpsr
    orr r1, r1, #0x80
    msr cpsr_c, r1
    ldmfd sp!, {r3, lr}
    ldr r2, =interrupt_controller
    str r3, [r2, #8]
    str r3, [r2, #12]
    ldr r0, =the
    ldr r1, [r0, #NESTING]
    subs r1, r1, #1
    str r1, [r0, #NESTING]
    bne 1f
    ldr sp, [r0, #TASK_STACK]
    ldr r1, [r0, #REQUESTED]
    cmp r1, #0
    beq 1f
    mov r1, #0
    str r1, [r0, #REQUESTED]
    ldr r1, [r0, #ENABLED]
    cmp r1, #0
    beq 1f
    ldr r1, [r0, #RUNNING]
    ldr r2, [r0, #SCHEDULED]
    cmp r1, r2
    beq 1f
    bl dispatch
1:  ldmfd sp!, {r2}
    msr cpsr_f, r2
    ldmfd sp!, {r0-r3, r12, pc}
    .pool
    .section .note.GNU-stack,"",%progbits
