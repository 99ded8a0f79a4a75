/* What all programs of this folder share: checks that name what failed, options, time, and work of a known length.
 *
 * A program ends with `return finish();`: exit code 0 if every check held, 1 otherwise. It must hold for every team size that a runtime may
 * choose, since an adapter may choose smaller teams than the program asks for; `--exact` also checks that teams have the size asked for. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int check_failures;

static void check_failed(const char *file, int line, const char *what)
{
    /* The first failures say what is wrong; thousands more would only hide them. Threads that fail together are both counted. */
    if (__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED) < 10)
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
}

#define CHECK(condition, what)                          \
    do {                                                \
        if (!(condition))                               \
            check_failed(__FILE__, __LINE__, what);     \
    } while (0)

static inline int finish(void)
{
    if (check_failures > 0)
        fprintf(stderr, "%d checks failed\n", check_failures);
    return check_failures > 0;
}

/* Returns whether `--name` is among the arguments. */
static inline int has_flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return 1;
    }
    return 0;
}

/* Returns the number that follows `--name`, or `otherwise`. */
static inline long option(int argc, char **argv, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return atol(argv[i + 1]);
    }
    return otherwise;
}

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Multiplies `rounds` times, one after the other, and returns a number that depends on all of them: work that no compiler removes. */
static inline unsigned long spin(unsigned long seed, long rounds)
{
    unsigned long x = seed | 1;
    for (long i = 0; i < rounds; i++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Returns how many rounds of `spin` take one nanosecond: the best of several measurements, since others may use the machine. */
static inline double spin_rate(void)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        double start = seconds();
        unsigned long x = spin((unsigned long)i, 20000);
        double rate = 20000 / ((seconds() - start) * 1e9);
        if (x != 0 && rate > best)
            best = rate;
    }
    return best;
}

#endif
