/* A wavefront of tasks with `depend`: each of `--columns` x `--rows` tasks a frame waits for its left, upper and upper right neighbour; bodies of
 * `--body` nanoseconds. Prints the time a task, and checks that no task ran early, twice or not at all. */
#include "check.h"
#include <omp.h>

static int columns, rows;
static int *when;
static int frame;
static int wrong;
static long body;

static int at(int row, int column)
{
    return row * (columns + 2) + column + 1;
}

static void run(int row, int column)
{
    int here = at(row, column);
    int early = when[here] != frame - 1;
    if (column > 0)
        early |= when[here - 1] != frame;
    if (row > 0) {
        early |= when[at(row - 1, column)] != frame;
        if (column + 1 < columns)
            early |= when[at(row - 1, column + 1)] != frame;
    }
    if (early)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    if (body > 0)
        spin((unsigned long)here, body);
    when[here] = frame;
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    columns = (int)option(argc, argv, "columns", quick ? 30 : 120);
    rows = (int)option(argc, argv, "rows", quick ? 17 : 68);
    int frames = (int)option(argc, argv, "frames", quick ? 2 : 20);
    long ns = option(argc, argv, "body", 100);
    body = (long)((double)ns * spin_rate());
    when = calloc((size_t)(columns + 2) * (size_t)(rows + 1), sizeof *when);
    /* Places that no task has: tasks at the edges depend on them, so all have the same clauses. */
    char *place = calloc((size_t)(columns + 2) * (size_t)(rows + 2), 1);
    double best = 1e9;
    double begin = seconds();
    for (int f = 1; f <= frames; f++) {
        double start = seconds();
        frame = f;
#pragma omp parallel
#pragma omp single
        for (int row = 0; row < rows; row++) {
            for (int column = 0; column < columns; column++) {
                char *p = &place[(row + 1) * (columns + 2) + column + 1];
                char *left = p - 1, *above = p - (columns + 2), *right = above + 1;
                (void)left, (void)above, (void)right;
#pragma omp task depend(in : left[0], above[0], right[0]) depend(out : p[0]) firstprivate(row, column)
                run(row, column);
            }
        }
        double time = seconds() - start;
        if (time < best)
            best = time;
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < columns; column++)
                wrong += when[at(row, column)] != f;
    }
    double tasks = (double)columns * rows;
    printf("seconds %.6f\n", seconds() - begin);
    printf("ns/task %.1f (least of a frame %.1f)\n", (seconds() - begin) * 1e9 / tasks / frames, best * 1e9 / tasks);
    CHECK(wrong == 0, "no task runs early, twice or not at all");
    return finish();
}
