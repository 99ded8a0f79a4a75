/* LU factorisation without pivoting, in blocks: A = L U, where U has ones on its diagonal.
 *
 * Written after the description of the kernel LU of SPLASH-2 (Woo, Ohara, Torrie, Singh, Gupta: The SPLASH-2 Programs, ISCA 1995,
 * section 3). Blocks are scattered over a grid of threads, and each thread computes the blocks that it owns. A step factors a diagonal
 * block, then updates the blocks of its column and row (the perimeter), then the blocks to the right and below (the interior).
 *
 * Blocks are stored by columns. --layout 0 is the program with one array: a block's columns lie a matrix column apart, and owners are
 * numbered along the rows first. --layout 1 has every block in one piece beside the other blocks of its owner, and numbers owners
 * along the columns first; as in SPLASH-2, a page lies between the blocks of one owner and those of the next. */
#include "kernel.h"

enum { PAGE = 4096 };

static long block = 16, layout;
static long blocks, grid_rows, grid_columns;
static double **at; /* the first element of block (i, j) is at[i + j * blocks] */
static long stride; /* elements from one column of a block to the next */
static double *touched;

static long owner(long i, long j) {
    if (layout == 0)
        return i % grid_rows + j % grid_columns * grid_rows;
    return j % grid_columns + i % grid_rows * grid_columns;
}

static void place_blocks(void) {
    long count = blocks * blocks;
    size_t bytes = (size_t)kernel_size * (size_t)kernel_size * sizeof(double);
    if (layout == 1)
        bytes += (size_t)kernel_threads * PAGE;
    kernel_reserve(bytes + (size_t)count * sizeof *at + (size_t)kernel_threads * 64, 4);
    double *a = kernel_array(bytes);
    at = kernel_array((size_t)count * sizeof *at);
    touched = kernel_array((size_t)kernel_threads * 64);
    stride = layout == 0 ? kernel_size : block;
    for (long thread = 0; thread < kernel_threads; thread++) {
        for (long j = 0; j < blocks; j++) {
            for (long i = 0; i < blocks; i++) {
                if (owner(i, j) != thread)
                    continue;
                if (layout == 0) {
                    at[i + j * blocks] = a + i * block + j * block * kernel_size;
                } else {
                    at[i + j * blocks] = a;
                    a += block * block;
                }
            }
        }
        if (layout == 1)
            a += PAGE / sizeof *a;
    }
}

static double *element(long i, long j) {
    return &at[i / block + j / block * blocks][i % block + j % block * stride];
}

/* Returns element (i, j) of the matrix that is factored. The diagonal outweighs its row, so no pivot is small. */
static double input(long i, long j) {
    double number = kernel_unit((uint64_t)j * (uint64_t)kernel_size + (uint64_t)i);
    return i == j ? number + (double)kernel_size : number;
}

static void initialise(void) {
    for (long j = 0; j < kernel_size; j++)
        for (long i = 0; i < kernel_size; i++)
            *element(i, j) = input(i, j);
}

/* y -= alpha x. A call, as in SPLASH-2, which defines this behind its callers: compilers of that time inlined only what they had read, so a
 * column of a block costs accesses to the stack. */
__attribute__((noinline)) static void subtract_multiple(double *y, const double *x, long count, double alpha) {
    for (long i = 0; i < count; i++)
        y[i] -= alpha * x[i];
}

static void factor(double *a) {
    for (long k = 0; k < block; k++) {
        for (long j = k + 1; j < block; j++) {
            a[k + j * stride] /= a[k + k * stride];
            subtract_multiple(&a[k + 1 + j * stride], &a[k + 1 + k * stride], block - k - 1, a[k + j * stride]);
        }
    }
}

/* a := a U^-1 for a block of the diagonal block's column. */
static void divide_by_upper(double *a, const double *diagonal) {
    for (long k = 0; k < block; k++)
        for (long j = k + 1; j < block; j++)
            subtract_multiple(&a[j * stride], &a[k * stride], block, diagonal[k + j * stride]);
}

/* a := L^-1 a for a block of the diagonal block's row. */
static void divide_by_lower(double *a, const double *diagonal) {
    for (long k = 0; k < block; k++) {
        for (long j = 0; j < block; j++) {
            a[k + j * stride] /= diagonal[k + k * stride];
            subtract_multiple(&a[k + 1 + j * stride], &diagonal[k + 1 + k * stride], block - k - 1, a[k + j * stride]);
        }
    }
}

/* c -= a b */
static void subtract_product(double *c, const double *a, const double *b) {
    for (long k = 0; k < block; k++)
        for (long j = 0; j < block; j++)
            subtract_multiple(&c[j * stride], &a[k * stride], block, b[k + j * stride]);
}

/* Every thread reads its own blocks first, as a program would that places them in the memory near it. */
static void touch(long me) {
    double sum = 0;
    for (long j = 0; j < blocks; j++)
        for (long i = 0; i < blocks; i++)
            if (owner(i, j) == me)
                for (long column = 0; column < block; column++)
                    for (long row = 0; row < block; row++)
                        sum += at[i + j * blocks][row + column * stride];
    touched[me * 8] = sum;
}

/* Two barriers a step are enough: the thread that factors the next diagonal block owns it, and so has updated it before. */
static void body(long me) {
    touch(me);
    kernel_barrier();
    for (long k = 0; k < blocks; k++) {
        double *diagonal = at[k + k * blocks];
        if (me == 0)
            tanada_mark(KERNEL_MARK_PHASE, k, 0);
        if (owner(k, k) == me)
            factor(diagonal);
        kernel_barrier();
        for (long i = k + 1; i < blocks; i++)
            if (owner(i, k) == me)
                divide_by_upper(at[i + k * blocks], diagonal);
        for (long j = k + 1; j < blocks; j++)
            if (owner(k, j) == me)
                divide_by_lower(at[k + j * blocks], diagonal);
        kernel_barrier();
        for (long i = k + 1; i < blocks; i++)
            for (long j = k + 1; j < blocks; j++)
                if (owner(i, j) == me)
                    subtract_product(at[i + j * blocks], at[i + k * blocks], at[k + j * blocks]);
    }
}

/* Returns the largest difference between an element of L U and of the input, over the size of the matrix. */
static double residual(void) {
    double worst = 0;
    double *column = malloc((size_t)kernel_size * sizeof *column);
    if (column == NULL)
        kernel_fail(1, "there is not enough memory for the check", "");
    for (long j = 0; j < kernel_size; j++) {
        memset(column, 0, (size_t)kernel_size * sizeof *column);
        for (long k = 0; k <= j; k++) {
            double upper = k == j ? 1 : *element(k, j);
            for (long i = k; i < kernel_size; i++)
                column[i] += *element(i, k) * upper;
        }
        for (long i = 0; i < kernel_size; i++) {
            double error = fabs(column[i] - input(i, j)) / (double)kernel_size;
            /* Not `error > worst`: a NaN is an error too. */
            if (!(error <= worst))
                worst = error;
        }
    }
    free(column);
    return worst;
}

int main(int argc, char **argv) {
    kernel_threads = 64;
    kernel_size = 512;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(1, 16384, "rows of the matrix, a multiple of the block"),
        {"--block", &block, 1, 256, "rows of a block"},
        {"--layout", &layout, 0, 1, "0: one array, 1: every block in one piece"},
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "lu", "blocked LU factorisation without pivoting", options);
    if (kernel_size % block != 0)
        kernel_fail(2, "-n is no multiple of --block", "");
    blocks = kernel_size / block;
    for (grid_rows = 1; (grid_rows + 1) * (grid_rows + 1) <= kernel_threads; grid_rows++) {
    }
    while (kernel_threads % grid_rows != 0)
        grid_rows--;
    grid_columns = kernel_threads / grid_rows;
    place_blocks();

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    initialise();
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    for (long j = 0; j < kernel_size; j++)
        for (long i = 0; i < kernel_size; i++)
            kernel_add_double(*element(i, j));
    return kernel_end(kernel_checks ? residual() : 0, 1e-13);
}
