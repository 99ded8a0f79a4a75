@ The dispatcher. Offsets are those of kernel.h.
    .syntax unified
    .arm
    .text

    .equ RUNNING, 0
    .equ SCHEDULED, 4
    .equ STACK_POINTER, 24
    .equ RESUME, 28
    .equ EXCEPTIONS, 20

@ The running task gives its core up, and goes on here when it is dispatched again.
    .global dispatch
dispatch:
    stmfd sp!, {r4-r11, lr}
    ldr r0, =the
    ldr r1, [r0, #RUNNING]
    str sp, [r1, #STACK_POINTER]
    adr r2, resumed
    str r2, [r1, #RESUME]
    .global choose
choose:
    ldr r0, =the
    ldr r1, [r0, #SCHEDULED]
    str r1, [r0, #RUNNING]
    cmp r1, #0
    beq choose
    ldr sp, [r1, #STACK_POINTER]
    ldr pc, [r1, #RESUME]
    .global resumed
resumed:
    ldr r2, [r1, #EXCEPTIONS]
    cmp r2, #0
    ldmfd sp!, {r4-r11, lr}
    bx lr

@ A task begins.
    .global start_dispatch
start_dispatch:
    mrs r2, cpsr
    bic r2, r2, #0xc0
    msr cpsr_c, r2
    ldr r3, [r1, #8]
    ldr r0, [r3, #4]
    ldr r3, [r3, #8]
    bx r3
    .pool
    .section .note.GNU-stack,"",%progbits
