/* What the kernels share: options, random numbers, threads, memory, digests, and marks for a recorder.
 *
 * A kernel is one C99 file that includes this header: a program with POSIX threads and no other dependency. Its result, and so the
 * digest that it prints, is the same for any number of threads and for every processor with IEEE 754 doubles: compile it with
 * -ffp-contract=off, because a fused multiply-add rounds once instead of twice.
 *
 * Exit codes: 0 good, 1 the check failed or the system refused memory or threads, 2 wrong usage. */
#ifndef TANADA_KERNEL_H
#define TANADA_KERNEL_H

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Options. */

enum { KERNEL_MAX_THREADS = 1024 };

/* A whole number that the command line sets. `flag` NULL ends a table. */
struct kernel_option {
    const char *flag;
    long *value;
    long min, max;
    const char *help;
};

static long kernel_threads, kernel_size, kernel_seed = 1;
static int kernel_checks;
static const char *kernel_name;

/* Prints a message to standard error and ends the program with exit code 1 (the run failed) or 2 (wrong usage). */
static inline void kernel_fail(int code, const char *message, const char *detail) {
    fprintf(stderr, "%s: %s%s\n", kernel_name, message, detail);
    if (code == 2)
        fprintf(stderr, "%s: see --help\n", kernel_name);
    exit(code);
}

static inline void kernel_usage(const char *about, const struct kernel_option *options) {
    printf("%s: %s\n\nusage: %s [OPTIONS]\n\n", kernel_name, about, kernel_name);
    for (; options->flag; options++)
        printf("  %-10s N  %s (%ld to %ld; default: %ld)\n", options->flag, options->help, options->min, options->max,
               *options->value);
    printf("  --check       compares the result with a reference after the measured part\n");
    printf("  --help        prints this text\n");
}

static inline void kernel_parse(const struct kernel_option *options, const char *flag, const char *text) {
    for (; options->flag; options++) {
        if (strcmp(options->flag, flag) != 0)
            continue;
        if (text == NULL)
            kernel_fail(2, "a number is missing after ", flag);
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || value < options->min || value > options->max) {
            char range[128];
            snprintf(range, sizeof range, "%s takes a number from %ld to %ld, not ", flag, options->min, options->max);
            kernel_fail(2, range, text);
        }
        *options->value = value;
        return;
    }
    kernel_fail(2, "unknown option ", flag);
}

/* Reads the command line. `options` holds -p, -n, --seed and what the kernel has besides, with the defaults as their values. */
static inline void kernel_start(int argc, char **argv, const char *name, const char *about, const struct kernel_option *options) {
    kernel_name = name;
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            kernel_usage(about, options);
            exit(0);
        }
        if (strcmp(argv[at], "--check") == 0) {
            kernel_checks = 1;
            continue;
        }
        kernel_parse(options, argv[at], at + 1 < argc ? argv[at + 1] : NULL);
        at++;
    }
}

#define KERNEL_OPTIONS(min, max, what)                                                   \
    {"-p", &kernel_threads, 1, KERNEL_MAX_THREADS, "threads"}, {"-n", &kernel_size, min, max, what}, \
    {"--seed", &kernel_seed, 0, INT32_MAX, "seed of the random input"}

/* Random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) at a place of its sequence, so that any thread can draw any number. */

static inline uint64_t kernel_random(uint64_t place) {
    uint64_t z = (uint64_t)kernel_seed * UINT64_C(0xD1B54A32D192ED03) + (place + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Returns a number from 0 to below 1 with 31 random bits: exact in a double, and one instruction to convert on any processor. */
static inline double kernel_unit(uint64_t place) {
    return (double)(int32_t)(kernel_random(place) >> 33) * (1.0 / 2147483648.0);
}

/* A digest of words in order. */

static uint64_t kernel_digest = UINT64_C(0xCBF29CE484222325);

static inline void kernel_add(uint64_t word) {
    uint64_t z = (kernel_digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    kernel_digest = z ^ (z >> 29);
}

static inline void kernel_add_double(double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    kernel_add(word);
}

/* Prints the digest, and what --check found: `error` must be at most `bound`. Returns the exit code. */
static inline int kernel_end(double error, double bound) {
    printf("digest %016" PRIx64 "\n", kernel_digest);
    if (!kernel_checks)
        return 0;
    int good = error <= bound;
    printf("check %s: error %.3g, bound %.3g\n", good ? "passed" : "failed", error, bound);
    return good ? 0 : 1;
}

/* Marks: a recorder sees the system call getppid with a first argument that no other program passes. Natively it changes nothing.
 * The function is weak: an object file that is linked in may define another one. */

/* The first argument: this and the kind. Kinds below are those of programs; the recorder has others of its own. */
enum { KERNEL_MARK = 0x7a010040 };

enum { KERNEL_MARK_BEGIN, KERNEL_MARK_END, KERNEL_MARK_PHASE };

void tanada_mark(long kind, long a, long b);

__attribute__((weak, noinline)) void tanada_mark(long kind, long a, long b) {
#ifdef __linux__
    syscall(SYS_getppid, KERNEL_MARK + kind, a, b);
#else
    (void)kind, (void)a, (void)b;
#endif
}

/* Memory: one block for all arrays, so that their distances depend on the options alone. */

static char *kernel_block;
static size_t kernel_left;

/* Reserves `bytes` of zeros for kernel_array, plus a page for each of `arrays`. Called once. By malloc and not by posix_memalign: a
 * recorder that places memory itself need know no other function. */
static inline void kernel_reserve(size_t bytes, size_t arrays) {
    size_t whole = bytes + (arrays + 1) * 4096;
    char *block = whole < bytes ? NULL : malloc(whole);
    if (block == NULL)
        kernel_fail(1, "there is not enough memory", "");
    memset(block, 0, whole);
    size_t skipped = (4096 - (uintptr_t)block % 4096) % 4096;
    kernel_block = block + skipped;
    kernel_left = whole - skipped;
}

/* Returns `bytes` of what was reserved. Every array begins at a page. */
static inline void *kernel_array(size_t bytes) {
    size_t whole = (bytes + 4095) & ~(size_t)4095;
    if (whole > kernel_left)
        kernel_fail(1, "an array is larger than what was reserved", "");
    void *array = kernel_block;
    kernel_block += whole;
    kernel_left -= whole;
    return array;
}

/* Threads: the main thread is number 0 and creates all others, whose numbers are given at creation. */

static pthread_barrier_t kernel_all;

static inline void kernel_barrier(void) {
    pthread_barrier_wait(&kernel_all);
}

/* Returns the first of thread `me`'s share of `count`; its last lies before the first of the next thread's share. */
static inline long kernel_share(long count, long me) {
    return (long)((int64_t)count * me / kernel_threads);
}

static void (*kernel_body)(long me);

static inline void *kernel_thread(void *number) {
    kernel_body((long)(intptr_t)number);
    return NULL;
}

/* Calls body(0), body(1), ... on kernel_threads threads and returns when all have ended. */
static inline void kernel_parallel(void (*body)(long me)) {
    static pthread_t threads[KERNEL_MAX_THREADS];
    pthread_attr_t attributes;
    kernel_body = body;
    if (pthread_attr_init(&attributes) != 0 || pthread_barrier_init(&kernel_all, NULL, (unsigned)kernel_threads) != 0)
        kernel_fail(1, "the system refuses threads", "");
    /* Not the limit of the shell: where stacks lie must not depend on the environment. */
    pthread_attr_setstacksize(&attributes, 1 << 20);
    for (long me = 1; me < kernel_threads; me++)
        if (pthread_create(&threads[me], &attributes, kernel_thread, (void *)(intptr_t)me) != 0)
            kernel_fail(1, "the system refuses further threads; choose a smaller -p", "");
    body(0);
    for (long me = 1; me < kernel_threads; me++)
        pthread_join(threads[me], NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&kernel_all);
}

#endif
