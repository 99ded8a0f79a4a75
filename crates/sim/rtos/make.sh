#!/bin/sh
# Compiles the kernel and the stack for an ARM926EJ-S, and records their pieces into code.tnb. Needs gcc-arm-linux-gnueabi and qemu-user;
# TANADA is the command (default: tanada).
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
arm-linux-gnueabi-gcc -mcpu=arm926ej-s -marm -O2 -std=gnu11 -Wall -Wextra -ffreestanding -fno-pic -no-pie -nostdlib -static \
    -fno-tree-loop-distribute-patterns -fno-unwind-tables -fno-asynchronous-unwind-tables -Wl,--wrap=dispatch -Wl,--build-id=none \
    -Wl,-Ttext=0x10000 -Wl,--section-start=.harness=0x20000 -Wl,-Tdata=0x30000 -Wl,--section-start=.device=0x50000 \
    -Wl,--section-start=.shared=0x60000 -o "$out/rtos" interrupt.S dispatch.S kernel.c stack.c record.c
"${TANADA:-tanada}" record -o "$out/rtos.tnb" -- "$out/rtos" 2>"$out/said" || { cat "$out/said" >&2; exit 1; }
mv "$out/rtos.tnb" code.tnb
